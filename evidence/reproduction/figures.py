"""The figures of the reproduction, each a function of an experiment's summary and curves."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gladstorm.plotting.figures import draw_band, label_panel, only_decades
from gladstorm.plotting.styles import styles

MARKS = ("o", "s", "^")
_CALLS = ("sfo", "stochastic gradients", "log")  # an axis: key, label and scale


def figure(summary: Mapping[str, Any], curves: Mapping[str, Any]) -> Figure:
    """The paper's layout: gradient norm against SFO calls, drift and batch size against iterations; mean ± std."""
    return _three_panels(summary, curves["main"], summary["methods"], ("step", "iteration k", "linear"))


def budget(summary: Mapping[str, Any], curves: Mapping[str, Any]) -> Figure:
    """Draw the comparison at equal budget against SFO calls: a method with large batches makes few iterations there."""
    return _three_panels(summary, curves["budget"], summary["budget"]["methods"], _CALLS)


def _three_panels(
    summary: Mapping[str, Any], curves: Mapping[str, Any], methods: Mapping[str, Any], along: tuple[str, str, str]
) -> Figure:
    """Gradient norm against SFO calls; drift and batch size along the axis given; step sizes in the legend."""
    figure = Figure(figsize=(7.0, 2.9), layout="constrained")
    panels = (
        ("grad_norm", "gradient norm ‖∇f(xᵏ)‖ (smaller is better)", "log", _CALLS),
        ("drift2", "squared distance ‖xᵏ − x⁰‖²", "linear", along),
        ("batch", "batch size", "log", along),
    )
    for ax, (name, title, yscale, (key, xlabel, xscale)) in zip(figure.subplots(1, 3), panels, strict=True):
        ax.set(xscale=xscale, yscale=yscale)
        for method, curve in curves.items():
            x = np.array(curve["step"] if key == "step" else curve["sfo"]["mean"], float)
            mean, std = (np.array(curve[name][column], float) for column in ("mean", "std"))
            label = f"{method} (γ = {methods[method]['step_size']:.3g})"
            draw_band(ax, x, mean, std, label, styles(summary["methods"])[method], opacity=0.18)
        label_panel(ax, title, xlabel)
        ax.margins(x=0.02)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=7, frameon=False)
    _provenance(figure, summary)
    return figure


def sensitivity(summary: Mapping[str, Any], _curves: Mapping[str, Any]) -> Figure:
    """‖∇f‖ over the last tenth of the run against the step size: the tuned methods' grids and multiples of γ0."""
    figure = Figure(figsize=(7.0, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    looks = styles(summary["methods"])
    for (method, tuned), mark in zip(summary["tuning"].items(), cycle(MARKS), strict=False):
        label = f"{method} (best: γ = {tuned['best']:.3g})"
        rows = [(row["step_size"], row["last10_grad_norm"]) for row in tuned["grid"]]
        _points(left, rows, label, mark, looks[method])
        left.plot([tuned["best"]], [_at(tuned["grid"], tuned["best"])], "*", color=looks[method]["color"], markersize=9)
    for (method, rows), mark in zip(summary["sensitivity"].items(), cycle(MARKS), strict=False):
        schedule = summary["schedule"][method]
        label = f"{method} (γ0 = {schedule['gamma0']:.3g}, γ = {schedule['gamma']:.3g})"
        points = [(row["gamma0"] / schedule["gamma0"], row["last10_grad_norm"]) for row in rows]
        _points(right, points, label, mark, looks[method])
    right.axvline(1, color="#888888", linewidth=0.8, linestyle=":")
    left.set_xlabel("step size γ (★: best), on the tuning seeds", fontsize=7)
    right.set_xlabel("γ0 divided by the paper's (dotted line: the paper's)", fontsize=7)
    left.set_ylabel("‖∇f‖, mean of the last tenth (smaller is better)", fontsize=7)
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        only_decades(ax)
        ax.legend(fontsize=6.5, frameon=False)
    _provenance(figure, summary)
    return figure


def _points(
    ax: Axes, rows: list[tuple[float, Mapping[str, Any]]], label: str, mark: str, style: Mapping[str, Any]
) -> None:
    shown = [(x, value["mean"], value["std"]) for x, value in rows if value["mean"] is not None]
    x, mean, std = (np.array(column, float) for column in zip(*shown, strict=True))
    low = np.minimum(std, 0.9 * mean)  # a log axis has no 0
    ax.errorbar(x, mean, yerr=[low, std], label=label, marker=mark, markersize=3, linewidth=1, capsize=2, **style)


def _at(grid: Sequence[Mapping[str, Any]], step_size: float) -> float:
    return float(next(row["last10_grad_norm"]["mean"] for row in grid if row["step_size"] == step_size))


def _provenance(figure: Figure, summary: Mapping[str, Any]) -> None:
    config = summary["config"]
    seeds = config["seeds"]["paper"]
    numbers = f"B = {config['B']:g}, G = {config['G']:g}, σ² = {config['sigma2']:g}, T = {config['horizon']:,}"
    made_by = f"gladstorm {config['versions']['gladstorm']}, code {config['code']}"
    text = f"{summary['title']}: {numbers}, seeds {seeds[0]}–{seeds[-1]}, mean ± std.  {made_by}."
    figure.supxlabel(text, fontsize=5.5, color="#555555")
