"""The figures of the verification, from its report."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from PIL import Image

from evidence.page import Row, distinct, of, regime_in_words
from gladstorm.plotting.styles import COLOURS, LOOKS, styles

SMOOTHNESS = ("smooth", "sublinear", "linear")
NOISES = ("bg0", "bounded", "deterministic")
MARKS = ("o", "s", "^", "D")
STYLE: dict[str, Any] = {"markersize": 3, "linewidth": 1.0}
COLOUR_COUNT = 64
DPI = 150  # sharp at a page's width; the numbers are in verify.json


def draw(report: Row, folder: Path) -> None:
    """Write every figure."""
    studies, drawn = report["studies"], {"tightness": tightness(report), "ladders": ladders(report)}
    if "hard instances" in studies:
        drawn["hard"] = hard(studies["hard instances"])
    for name, figure in drawn.items():
        drawing = io.BytesIO()
        figure.savefig(drawing, dpi=DPI, format="png")
        few_colours = Image.open(drawing).convert("RGB").quantize(COLOUR_COUNT)  # a quarter of the bytes
        few_colours.save(folder / f"{name}.png", optimize=True)


def tightness(report: Row) -> Figure:
    """Measured/bound of every case, a line for each regime: full for the smallest bound, empty for the paper's."""
    regimes = sorted(distinct(report["cases"], "regime"), key=_place)
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    ax = figure.subplots()
    for line, regime in enumerate(regimes):
        colour = LOOKS[regime.split("/")[0].upper()].colour
        for case in of(report["cases"], regime=regime):
            ratios = {kind: values[-1] for kind, values in case["tightness"].items() if kind != "estimator error"}
            smallest = max(ratios.values())
            ax.semilogx([ratios["bound"], smallest], [line] * 2, color=colour, linewidth=0.6, alpha=0.5)
            ax.semilogx(ratios["bound"], line, "o", markerfacecolor="none", color=colour, markersize=4)
            ax.semilogx(smallest, line, "o", color=colour, markersize=4)
    ax.axvline(1.0, color="black", linewidth=1)
    ax.set_yticks(range(len(regimes)), [regime_in_words(regime) for regime in regimes], fontsize=7)
    ax.invert_yaxis()
    ax.tick_params(axis="x", labelsize=7)
    longest = report["settings"]["horizons"][-1]
    what = f"measured gradient norm divided by its bound, at T = {longest:,} (black line, 1: attained)\n"
    ax.set_xlabel(f"{what}empty: the paper's bound; full: the smallest known", fontsize=8)
    return figure


def ladders(report: Row) -> Figure:
    """E‖∇f(x̂)‖ and its bounds against T: a row for each class of smoothness, a column for each method and noise.

    The first column has all instances of its row: noise of a problem's own is of the class BG-0 only.
    """
    horizons = report["settings"]["horizons"]
    regimes = distinct(report["cases"], "regime")
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    axes = figure.subplots(3, 6, sharex=True)
    columns = [f"{method}/{noise}" for method in ("nsgdm", "nstorm") for noise in NOISES]
    for regime in regimes:
        method, smoothness, noise = regime.split("/")
        ax = axes[SMOOTHNESS.index(smoothness), columns.index(f"{method}/{noise}")]
        for case, colour, mark in zip(of(report["cases"], regime=regime), COLOURS, MARKS, strict=False):
            measured = np.array(case["measured"])
            ax.loglog(horizons, measured, marker=mark, color=colour, label=case["instance"], **STYLE)
            sharpest = np.max([r for kind, r in case["tightness"].items() if kind != "estimator error"], axis=0)
            ax.loglog(horizons, measured / sharpest, color=colour, linestyle="--", linewidth=0.8)
            ax.loglog(horizons, measured / case["tightness"]["bound"], color=colour, linestyle=":", linewidth=0.8)
        ax.set_title("\n".join(regime_in_words(regime).rsplit(", ", 1)), fontsize=6)
        _plain_ticks(ax)
    for first, last in zip(axes[:, 0], axes[:, -1], strict=True):
        place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
        last.legend(*first.get_legend_handles_labels(), **place, fontsize=6.5, frameon=False)
    figure.supxlabel("T, iterates", fontsize=8)
    figure.supylabel("mean gradient norm: measured (marks), sharpest bound (dashed), the paper's (dotted)", fontsize=7)
    return figure


def hard(rows: Sequence[Row]) -> Figure:
    """Stochastic gradients to ε against 1/ε, and what any zero-respecting method needs."""
    figure = Figure(figsize=(7, 2.9), layout="constrained")
    instances = distinct(rows, "instance")
    for ax, instance in zip(figure.subplots(1, len(instances)), instances, strict=True):
        own = of(rows, instance=instance)
        for (method, look), mark in zip(styles(distinct(own, "method")).items(), MARKS, strict=False):
            reached = [row for row in of(own, method=method) if row["sfo"]]
            ax.loglog([1 / r["eps"] for r in reached], [r["sfo"] for r in reached], marker=mark, **look, **STYLE)
            ax.lines[-1].set_label(method)
        needed = {1 / row["eps"]: row["needed"] for row in own}
        ax.loglog(list(needed), list(needed.values()), color="black", linestyle="--", label="needed by any method")
        ax.set_title(instance, fontsize=8)
        ax.set_xticks(list(needed), [f"{each:.0f}" for each in needed])
        ax.set_xticks([], minor=True)
        ax.set_xlabel("1/ε, inverse of the accuracy", fontsize=7)
        _plain_ticks(ax)
        ax.legend(fontsize=6, frameon=False)
    figure.supylabel("stochastic gradients until ‖∇f‖ ≤ ε, median", fontsize=7)
    return figure


def _place(regime: str) -> tuple[str, int, int]:
    """Place of a case in a figure: by method, then from smooth to linear, then from growing noise to none."""
    method, smoothness, noise = regime.split("/")
    return method, SMOOTHNESS.index(smoothness), NOISES.index(noise)


def _plain_ticks(ax: Axes) -> None:
    """Labels at the decades, and at 2 and 5 where there are fewer than two of them."""
    ax.tick_params(labelsize=6, which="both")
    ax.xaxis.set_minor_formatter(NullFormatter())
    low, high = ax.get_ylim()
    if np.log10(high / low) > 1.5:
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.yaxis.set_major_formatter("{x:.3g}")
        ax.yaxis.set_minor_formatter("{x:.3g}")
        ax.yaxis.set_minor_locator(LogLocator(subs=(2, 5) if high / low > 3 else "all"))
