"""The figure of the study, from its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gladstorm.plotting.styles import BLACK, LOOKS, Look

from .findings import Results, curves, tuning
from .setting import METHODS, SCHEDULES, Arm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {**LOOKS, "AdamW": LOOKS["Adam"], "Steered": Look(BLACK, "-", "P")}


def draw(results: Results) -> Figure:
    """Test loss against gradients computed, and validation loss against the learning rate; a column for a schedule."""
    figure = Figure(figsize=(10, 8), layout="constrained")
    axes = figure.subplots(2, len(SCHEDULES), sharey="row")
    for column, schedule in enumerate(SCHEDULES):
        _curves(axes[0][column], results, schedule)
        _rates(axes[1][column], results, schedule)
    axes[0][0].set_ylabel("test loss, nats per character (smaller is better)")
    axes[1][0].set_ylabel("validation loss, nats per character")
    handles, labels = axes[0][0].get_legend_handles_labels()
    ring = Line2D([], [], linestyle="", marker="o", markersize=10, markerfacecolor="none", color="black")
    names = [*labels, "picked learning rate"]
    figure.legend([*handles, ring], names, loc="outside upper center", ncols=len(names), frameon=False)
    return figure


def _curves(ax: Axes, results: Results, schedule: str) -> None:
    for method in METHODS:
        colour, dash, marker = STYLES[method]
        counts, rows = curves(results, Arm(method, schedule))
        ax.fill_between(counts, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        ax.plot(counts, rows.mean(axis=0), color=colour, linestyle=dash, marker=marker, markersize=3.5, label=method)
    ax.set_title(f"{schedule} step size")
    ax.set_xlabel("mini-batch gradients computed")
    _finish(ax)


def _rates(ax: Axes, results: Results, schedule: str) -> None:
    for method in METHODS:
        colour, dash, marker = STYLES[method]
        tried = tuning(results, Arm(method, schedule))
        if tried:
            ax.plot(*zip(*tried, strict=True), color=colour, linestyle=dash, marker=marker, markersize=4)
            ax.plot(*min(tried, key=lambda each: each[1]), "o", color=colour, markersize=11, markerfacecolor="none")
    ax.set(xscale="log", xlabel="learning rate")
    _finish(ax)


def _finish(ax: Axes) -> None:
    ax.set_ylim(top=3.2)
    ax.grid(color="#dddddd", linewidth=0.5)
    ax.set_axisbelow(True)
