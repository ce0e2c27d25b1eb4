"""Numbers to figures: those of `plan`, of `compare` and of a record, and what all figures share."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gladstorm.core.screen import harmless
from gladstorm.jobs.files import write_whole
from gladstorm.plotting.styles import COLOURS, DASHES, LOOKS, in_words, styles
from gladstorm.theory.plans import counted

try:
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as MatplotlibFigure
    from matplotlib.ticker import NullLocator
except ModuleNotFoundError as missing:
    raise ValueError("figures: matplotlib must be installed; pip install 'gladstorm[plot]'.") from missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gladstorm.simulation.record import Record
    from gladstorm.theory import Plan

FORMATS = (".png", ".pdf", ".svg")
MOST_LINES = 14  # of a record: more cannot be followed by eye


class Figure(MatplotlibFigure):
    """A figure that a notebook shows, although it belongs to no window and pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        picture, canvas = io.BytesIO(), FigureCanvasAgg(self)
        canvas.print_png(picture)  # type: ignore[no-untyped-call]  # of matplotlib
        return picture.getvalue()


def bounds(plans: Sequence[Plan], crossing: int | None = None) -> Figure:
    """Bound against T, log-log: one panel per plan with its terms, and with two plans a last one with both bounds."""
    panels = len(plans) + (len(plans) > 1)
    figure = Figure(figsize=(5.2 * panels, 5.4), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, sharey=True)[0]
    longest_plan = max(plan.horizon for plan in plans)
    longest = max(100 * longest_plan, 10 * (crossing or 1))
    horizons = np.unique(np.rint(np.geomspace(1, float(longest), 300))).tolist()  # NumPy has no log10 of a large int
    for ax, plan in zip(axes, plans, strict=False):
        statement = plan.statement
        drawn = [T for T in horizons if np.isfinite(statement.bound(int(T)))]  # S9 says nothing about short runs
        terms = np.array([[term.value for term in statement.terms(int(T))] for T in drawn])
        total, names = terms.sum(axis=1), [term.name for term in statement.terms(plan.horizon)]
        ax.loglog(drawn, total, color="black", linewidth=2.2, label="bound")
        for rank, index in enumerate(np.argsort(-terms[np.searchsorted(drawn, float(plan.horizon))])):
            style = {"color": COLOURS[rank % len(COLOURS)], "linestyle": DASHES[rank % len(DASHES)]}
            ax.loglog(drawn, terms[:, index], linewidth=1, label=names[index], **style)
        reached = f"T = {counted(plan.horizon)}"
        ax.plot([plan.horizon], [statement.bound(plan.horizon)], "o", color="black", label=reached)
        ax.set_ylim(total.min() / 1e3, total.max() * 2)
        ax.set_title(f"{statement.method.upper()}, α = {statement.problem.alpha:g}, {statement.noise}")
    if len(plans) > 1:
        for plan in plans:
            values, name = [plan.statement.bound(int(T)) for T in horizons], plan.statement.method.upper()
            axes[-1].loglog(horizons, values, color=LOOKS[name].colour, linestyle=LOOKS[name].line, label=name)
        if crossing is not None and crossing > 1:
            axes[-1].axvline(crossing, color="#555555", linestyle=":", label=f"crossing, T = {crossing:.3g}")
        axes[-1].set_title("both bounds")
    for ax in axes:  # the legend below the axes: with up to fifteen lines there is no empty corner inside
        ax.set_xlabel("T, iterates")
        ax.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)
    axes[0].set_ylabel("bound on E‖∇f(x̂)‖")
    return figure


def against_sfo(curves: Mapping[str, Mapping[str, Any]], title: str, field: str = "∇f") -> Figure:
    """Gradient norm, drift and batch size of every method against stochastic gradients; mean ± std over seeds."""
    panels = {
        "grad_norm": f"‖{field}‖ (smaller is better; ○: smallest at the end)",
        "drift2": "squared distance from the start ‖xᵏ − x⁰‖²",
        "max_batch": "largest batch so far",
    }
    looks = styles(curves)
    ends = {method: curve["grad_norm"]["mean"][-1] for method, curve in curves.items()}
    best = min((method for method, end in ends.items() if np.isfinite(end)), key=lambda each: ends[each], default=None)
    figure = Figure(figsize=(9.0, 3.4 + 0.13 * -(-len(curves) // 3)), layout="constrained")
    for ax, (name, heading) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        ax.set(xscale="log", yscale="log")
        for method, curve in curves.items():
            mean, std = (curve[name][column][1:] for column in ("mean", "std"))
            draw_band(ax, curve["sfo"][1:], mean, std, in_words(method), looks[method])
            if name == "grad_norm" and method == best:
                ring = {"markersize": 9, "markerfacecolor": "none", "color": looks[method]["color"]}
                ax.plot(curve["sfo"][-1], mean[-1], "o", **ring)
        label_panel(ax, heading, "stochastic gradients")
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=6.5, frameon=False)
    figure.suptitle(title, fontsize=8)
    return figure


def gradient_norms(record: Record) -> Figure:
    """Gradient norm of a record's configurations against stochastic gradients, mean ± std over seeds."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    ax.set(xscale="log", yscale="log", xlabel="stochastic gradients", ylabel=f"‖{record.field}‖ at xᵏ")
    looks = styles(record.labels[:MOST_LINES])
    for row, (label, style) in enumerate(looks.items()):
        calls = record.sfo[row].mean(axis=0)
        with np.errstate(invalid="ignore", over="ignore"):
            mean, std = record.grad_norm[row].mean(axis=0), record.grad_norm[row].std(axis=0)
        draw_band(ax, calls, mean, std, in_words(label), style)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    if len(record.labels) > len(looks):
        ax.set_title(f"the first {len(looks)} of {len(record.labels):,} configurations", fontsize=8)
    return figure


def save(figure: MatplotlibFigure, path: Path) -> None:
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
    with rc_context({"svg.hashsalt": "gladstorm"}):  # else ids are random
        write_whole(path, partial(getattr(canvas, f"print_{suffix[1:]}"), metadata=undated))
    figure.set_layout_engine("none")  # it stays laid out: in another format nothing moves


def draw_band(
    ax: Axes,
    x: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    label: str,
    style: Mapping[str, Any],
    *,
    opacity: float = 0.12,
) -> None:
    """Draw a curve and a band of one standard deviation around it; a logarithmic axis has no room below 0."""
    ax.plot(x, mean, label=harmless(label), linewidth=1.1, **style)
    low = np.maximum(mean - std, mean / 10) if ax.get_yscale() == "log" else mean - std
    ax.fill_between(x, low, mean + std, color=style["color"], alpha=opacity, linewidth=0)


def label_panel(ax: Axes, title: str, xlabel: str) -> None:
    """Write what a panel shows, and thin out its ticks."""
    ax.set_title(title, fontsize=8)
    ax.set_xlabel(xlabel, fontsize=7)
    only_decades(ax)


def only_decades(ax: Axes) -> None:
    """Draw no ticks between decades where these are enough to read the axis by: ticks are most of the drawing."""
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if axis.get_scale() == "log" and high > 100 * low:
            axis.set_minor_locator(NullLocator())
    ax.tick_params(labelsize=6.5)
