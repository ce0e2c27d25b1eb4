"""The figures of the untuned method's page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from evidence.untuned.judging import BUDGETS
from evidence.untuned.rivals import COSINE, OURS, TUNED
from gladstorm.plotting.figures import save
from gladstorm.plotting.styles import BLACK, LOOKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evidence.untuned.results import JudgedCase

MARKS = (("o", "#AAAAAA"), ("s", "#666666"), ("D", BLACK))  # colours are of methods, and budgets are not
MULTIPLES = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50, 100)
FAR = 1000.0  # a factor outside the picture
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
OTHER_LOOKS: dict[str, dict[str, Any]] = {
    "AdamW": {"color": "#777777", "linestyle": "-."},
    COSINE: {"color": "#777777", "linestyle": (0, (1, 1))},
}


def draw_ratios(path: Path, results: list[JudgedCase]) -> None:
    """The ratios to the best tuned rival, problem by problem, with intervals; a mark for each budget."""
    figure = Figure(figsize=(9.5, 5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    problems = list(dict.fromkeys(result.problem for result in results))
    for ax, score, name in zip(panels, ("norm", "loss"), ("‖∇f‖", "f − f*"), strict=True):
        for shift, (budget, (mark, colour)) in enumerate(zip(BUDGETS, MARKS, strict=True)):
            some = [result for result in results if result.budget == budget]
            rows = np.array([problems.index(result.problem) for result in some]) + 0.22 * (shift - 1)
            ratios = np.array([result.ratio(score) for result in some])
            intervals = [result.interval(score) for result in some]
            ends = np.array([(each.low, each.high) for each in intervals], float).reshape(-1, 2).T
            around = np.maximum([ratios - ends[0], ends[1] - ratios], 0)
            label = f"{budget:,} gradients" if score == "norm" else None
            ax.errorbar(ratios, rows, xerr=around, fmt=mark, color=colour, capsize=2, label=label)
        ax.axvline(1, color="#555555", linestyle=":")
        ax.set(xscale="log", xlabel=f"{name} divided by the best tuned rival's", yticks=range(len(problems)))
        _tick_multiples(ax, TICKS)
        ax.set_yticklabels(problems)
    panels[0].invert_yaxis()
    figure.legend(loc="outside upper right", ncols=len(BUDGETS), frameon=False)
    save(figure, path)


def draw_profile(path: Path, results: list[JudgedCase]) -> None:
    """The share of problems and budgets on which each method is within a factor of the best of all."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.subplots()
    scores = [{name: result.mean(name, "loss") for name in (OURS, *TUNED, COSINE)} for result in results]
    shares = np.arange(len(scores) + 1) / len(scores)
    for name in scores[0]:
        factors = np.sort([min(means[name] / min(means.values()), FAR) for means in scores])
        label = f"{name}, tuned" if name in TUNED else name
        ax.stairs(shares, [1, *factors, FAR], baseline=None, label=label, **_look(name))
    ax.set(xscale="log", xlim=(1, 10), ylim=(0, 1.02))
    ax.set(xlabel="factor of the best f − f*", ylabel="share of cases within the factor (higher is better)")
    _tick_multiples(ax, MULTIPLES)
    figure.legend(loc="outside right center", frameon=False)
    save(figure, path)


def _look(name: str) -> dict[str, Any]:
    if name == OURS:
        return {"color": BLACK, "linewidth": 2.5}
    if name in OTHER_LOOKS:
        return OTHER_LOOKS[name]
    return {"color": LOOKS[name].colour, "linestyle": LOOKS[name].line, "linewidth": 1.4}


def _tick_multiples(ax: Axes, multiples: Sequence[float]) -> None:
    ax.xaxis.set_major_locator(FixedLocator(multiples))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
