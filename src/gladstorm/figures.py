"""Numbers to figures. The only module that imports matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gladstorm.files import write_whole

try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator
except ModuleNotFoundError as missing:
    raise ValueError("figures: matplotlib must be installed; pip install 'gladstorm[report]'.") from missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gladstorm.theory import Plan

FORMATS = (".png", ".pdf", ".svg")
# Okabe and Ito's palette: told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def bounds(plans: Sequence[Plan], crossing: int | None = None) -> Figure:
    """Bound against T, log-log: one panel per plan with its terms, and with two plans a last one with both bounds."""
    panels = len(plans) + (len(plans) > 1)
    figure = Figure(figsize=(5.2 * panels, 5.4), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, sharey=True)[0]
    longest = max(100 * max(plan.horizon for plan in plans), 10 * (crossing or 1))
    horizons = np.unique(np.rint(np.geomspace(1, longest, 300))).tolist()
    for ax, plan in zip(axes, plans, strict=False):
        _terms(ax, plan, horizons)
    if len(plans) > 1:
        for plan, colour in zip(plans, COLOURS, strict=False):
            values = [plan.statement.bound(int(T)) for T in horizons]
            axes[-1].loglog(horizons, values, color=colour, label=plan.statement.method.upper())
        if crossing is not None and crossing > 1:
            axes[-1].axvline(crossing, color="#555555", linestyle=":", label=f"crossing, T = {crossing:.3g}")
        axes[-1].set(title="both bounds", xlabel="T, iterates")
        _legend(axes[-1])
    axes[0].set_ylabel("bound on E‖∇f(x̂)‖")
    return figure


def _terms(ax: Axes, plan: Plan, horizons: list[float]) -> None:
    statement = plan.statement
    values = np.array([[term.value for term in statement.terms(int(T))] for T in horizons])
    total = values.sum(axis=1)
    order = np.argsort(-values[np.searchsorted(horizons, plan.horizon)])
    ax.loglog(horizons, total, color="black", linewidth=2.2, label="bound")
    for rank, index in enumerate(order):
        style = {"color": COLOURS[rank % len(COLOURS)], "linestyle": DASHES[rank % len(DASHES)]}
        ax.loglog(horizons, values[:, index], linewidth=1, label=statement.terms(1)[index].name, **style)
    ax.plot([plan.horizon], [statement.bound(plan.horizon)], "o", color="black", label=f"T = {plan.horizon:,}")
    ax.set_ylim(total.min() / 1e3, total.max() * 2)
    ax.set(
        title=f"{statement.method.upper()}, α = {statement.problem.alpha:g}, {statement.noise}", xlabel="T, iterates"
    )
    _legend(ax)


def _legend(ax: Axes) -> None:
    # Below the axes: with up to fifteen lines there is no empty corner inside.
    ax.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)


def comparison(summary: Mapping[str, Any], curves: Mapping[str, Any], stage: str) -> Figure:
    """The paper's layout: gradient norm against SFO calls, drift and batch size against iterations; mean ± std.

    At equal budget everything is against SFO calls: there a method with large batches makes few iterations.
    """
    figure = Figure(figsize=(7.0, 2.75), layout="constrained")
    calls, iterations = ("sfo", "SFO calls", "log"), ("step", "iteration k", "linear")
    panels = (
        ("grad_norm", "gradient norm ‖∇f(xᵏ)‖", "log", calls),
        ("drift2", "drift ‖xᵏ − x⁰‖²", "linear", calls if stage == "budget" else iterations),
        ("batch", "batch size", "log", calls if stage == "budget" else iterations),
    )
    for ax, (name, title, yscale, (along, xlabel, xscale)) in zip(figure.subplots(1, 3), panels, strict=True):
        for style, (method, curve) in zip(_STYLES, curves[stage].items(), strict=False):
            x = np.array(curve["step"] if along == "step" else curve["sfo"]["mean"], float)
            mean, std = (np.array(curve[name][key], float) for key in ("mean", "std"))
            ax.plot(x, mean, label=method, linewidth=1.1, **style)
            low = np.maximum(mean - std, mean / 10) if yscale == "log" else mean - std  # a log axis has no 0
            ax.fill_between(x, low, mean + std, color=style["color"], alpha=0.18, linewidth=0)
        ax.set(xscale=xscale, yscale=yscale)
        ax.set_title(title, fontsize=8)
        ax.set_xlabel(xlabel, fontsize=7)
        _only_decades(ax)
        ax.tick_params(labelsize=6.5)
        ax.margins(x=0.02)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=7, frameon=False)
    _provenance(figure, summary)
    return figure


def against_sfo(curves: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """Gradient norm, drift and batch size of every method against stochastic gradients; mean ± std over seeds."""
    panels = {
        "grad_norm": "gradient norm ‖∇f(xᵏ)‖",
        "drift2": "squared drift ‖xᵏ − x⁰‖²",
        "max_batch": "largest batch so far",
    }
    styles = [{"color": colour, "linestyle": dash} for dash in ("-", *DASHES) for colour in COLOURS]
    figure = Figure(figsize=(9.0, 3.4 + 0.13 * -(-len(curves) // 4)), layout="constrained")
    for ax, (name, heading) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        for style, (method, curve) in zip(itertools.cycle(styles), curves.items(), strict=False):
            calls, mean, std = curve["sfo"][1:], curve[name]["mean"][1:], curve[name]["std"][1:]
            ax.plot(calls, mean, label=method, linewidth=1.1, **style)
            low = np.maximum(mean - std, mean / 10)  # a logarithmic axis has no room below 0
            ax.fill_between(calls, low, mean + std, color=style["color"], alpha=0.12, linewidth=0)
        ax.set(xscale="log", yscale="log")
        ax.set_title(heading, fontsize=8)
        ax.set_xlabel("stochastic gradients", fontsize=7)
        _only_decades(ax)
        ax.tick_params(labelsize=6.5)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=6.5, frameon=False)
    figure.suptitle(title, fontsize=8)
    return figure


def sensitivity(summary: Mapping[str, Any]) -> Figure:
    """‖∇f‖ over the last tenth of the run against the step size: the tuned methods' grids and multiples of γ0."""
    figure = Figure(figsize=(7.0, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    styles = dict(zip(summary["methods"], _STYLES, strict=True))
    for method, found in summary["tuning"].items():
        _points(left, [(row["step_size"], row["last10_grad_norm"]) for row in found["grid"]], method, styles[method])
        left.plot(
            [found["best"]], [_at(found["grid"], found["best"])], "*", color=styles[method]["color"], markersize=9
        )
    for method, rows in summary["sensitivity"].items():
        own = summary["schedule"][method]["gamma0"]
        _points(right, [(row["gamma0"] / own, row["last10_grad_norm"]) for row in rows], method, styles[method])
    right.axvline(1, color="#888888", linewidth=0.8, linestyle=":")
    left.set_xlabel("step size γ (★: picked), on the tuning seeds", fontsize=7)
    right.set_xlabel("γ0 relative to the paper's", fontsize=7)
    left.set_ylabel("‖∇f‖, mean of the last tenth", fontsize=7)
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        _only_decades(ax)
        ax.tick_params(labelsize=6.5)
        ax.legend(fontsize=6.5, frameon=False)
    _provenance(figure, summary)
    return figure


# A colour and a dash pattern for each method: told apart in grey, too.
_STYLES = tuple(
    {"color": colour, "linestyle": dash}
    for colour, dash in zip(COLOURS, ("-", (0, (7, 1)), "--", "-.", ":"), strict=False)
)


def _points(ax: Axes, rows: list[tuple[float, Mapping[str, Any]]], label: str, style: Mapping[str, Any]) -> None:
    shown = [(x, value["mean"], value["std"]) for x, value in rows if value["mean"] is not None]
    x, mean, std = (np.array(column, float) for column in zip(*shown, strict=True))
    low = np.minimum(std, 0.9 * mean)  # a log axis has no 0
    ax.errorbar(x, mean, yerr=[low, std], label=label, marker="o", markersize=3, linewidth=1, capsize=2, **style)


def _only_decades(ax: Axes) -> None:
    """No ticks between decades where there are decades enough to read the axis by: they are most of the drawing."""
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if axis.get_scale() == "log" and high > 100 * low:
            axis.set_minor_locator(NullLocator())


def _at(grid: Sequence[Mapping[str, Any]], step_size: float) -> float:
    return float(next(row["last10_grad_norm"]["mean"] for row in grid if row["step_size"] == step_size))


def _provenance(figure: Figure, summary: Mapping[str, Any]) -> None:
    config = summary["config"]
    seeds = config["seeds"]["paper"]
    numbers = f"B = {config['B']:g}, G = {config['G']:g}, σ² = {config['sigma2']:g}, T = {config['horizon']:,}"
    made_by = f"gladstorm {config['versions']['gladstorm']}, code {config['code']}"
    text = f"{summary['title']}: {numbers}, seeds {seeds[0]}–{seeds[-1]}, mean ± std.  {made_by}."
    figure.supxlabel(text, fontsize=5.5, color="#555555")


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, in the format of its suffix."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS or not path.parent.is_dir():
        raise ValueError(
            f"figure: the file must end in {', '.join(FORMATS)}, in a folder that exists; got {str(path)!r}."
        )
    # A canvas of its own draws once, where Figure.savefig draws twice.
    canvas: Any = {".png": FigureCanvasAgg, ".pdf": FigureCanvasPdf, ".svg": FigureCanvasSVG}[suffix](figure)
    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(suffix)  # the same figure is the same bytes
    figure.set_dpi(200)
    write_whole(path, partial(getattr(canvas, f"print_{suffix[1:]}"), metadata=undated))
    figure.set_layout_engine("none")  # it stays laid out: in another format nothing moves
