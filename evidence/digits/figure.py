"""The figure of the study, from its results."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gladstorm.plotting.styles import LOOKS, method_of

from .findings import Results, accuracies, found_for, interval
from .setting import FRAMEWORKS, METHODS, NETWORKS, NOISES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SETTINGS = tuple(product(NETWORKS, NOISES))  # a column each
TITLES = {"none": "no added noise", "BG": "growing noise added"}
LABELS = {"torch": "PyTorch", "jax": "JAX"}
STYLES = {method: LOOKS[method_of(method) or method] for method in METHODS}


def draw(results: Results) -> Figure:
    """Validation accuracy against the learning rate, a row for each framework; test accuracy at the picked one."""
    figure = Figure(figsize=(11, 8.6), layout="constrained")
    *of_rates, of_tests = figure.subplots(len(FRAMEWORKS) + 1, len(SETTINGS))
    for column, (network, noise) in enumerate(SETTINGS):
        of_rates[0][column].set_title(f"{network}, {TITLES[noise]}", fontsize=11)
        for axes, framework in zip(of_rates, FRAMEWORKS, strict=True):
            _rates(axes[column], {method: found_for(results, framework, network, noise, method) for method in METHODS})
        _tests(of_tests[column], results, network, noise)
    for axes, framework in zip(of_rates, FRAMEWORKS, strict=True):
        axes[0].set_ylabel(f"{LABELS[framework]}: validation accuracy, %", fontsize=9)
    of_tests[0].set_ylabel("test accuracy, %", fontsize=9)
    handles, labels = of_rates[0][0].get_legend_handles_labels()
    ring = Line2D([], [], linestyle="", marker="o", markersize=10, markerfacecolor="none", color="black")
    figure.legend(
        [*handles, ring], [*labels, "picked"], loc="outside upper center", ncols=6, fontsize=10, frameon=False
    )
    return figure


def _rates(ax: Axes, arms: dict[str, dict[str, Any]]) -> None:
    for method, found in arms.items():
        colour, dash, marker = STYLES[method]
        rates = [row["lr"] for row in found["grid"]]
        means = [np.mean(row["validation"]) for row in found["grid"]]
        ax.plot(rates, means, color=colour, linestyle=dash, marker=marker, markersize=4.5, linewidth=1.4, label=method)
        at = rates.index(found["picked"])
        ax.plot(rates[at], means[at], marker="o", markersize=11, markerfacecolor="none", color=colour)
    # Stretched towards 100 %, where the methods differ; 100 % itself stays on the axis.
    ax.set_yscale("function", functions=(lambda shown: -np.log(102 - shown), lambda place: 102 - np.exp(-place)))
    ax.set(xscale="log", ylim=(0, 100), yticks=(0, 50, 80, 90, 95, 98, 100))
    ax.set_xlabel("learning rate", fontsize=8)
    _finish(ax)


def _tests(ax: Axes, results: Results, network: str, noise: str) -> None:
    for place, method in enumerate(METHODS):
        colour, _, marker = STYLES[method]
        for framework, shift in zip(FRAMEWORKS, (-0.2, 0.2), strict=True):
            seen = accuracies(found_for(results, framework, network, noise, method))
            mean, half_width = interval(seen)
            fill = colour if framework == "torch" else "white"
            ax.plot([place + shift] * len(seen), seen, "_", color=colour, alpha=0.55, markersize=7)
            ax.errorbar(place + shift, mean, half_width, color=colour, capsize=3, linewidth=1.4)
            ax.plot(place + shift, mean, marker=marker, markersize=6.5, color=colour, markerfacecolor=fill)
    ax.set_xticks(range(len(METHODS)), [method.replace(" + ", " +\n") for method in METHODS], rotation=20)
    ax.set_xlabel("filled: PyTorch, open: JAX; dashes: seeds", fontsize=8)
    _finish(ax)


def _finish(ax: Axes) -> None:
    ax.tick_params(labelsize=8)
    ax.grid(color="#dddddd", linewidth=0.5)
    ax.set_axisbelow(True)
