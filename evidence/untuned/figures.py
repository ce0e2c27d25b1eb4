"""The figures of the untuned method's page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from evidence.untuned.judging import BUDGETS, OURS
from evidence.untuned.rivals import COSINE, TUNED
from gladstorm.plotting.figures import save
from gladstorm.plotting.styles import BLACK, LOOKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evidence.untuned.page import Result

MARKS = (("o", "#AAAAAA"), ("s", "#666666"), ("D", BLACK))  # colours are of methods, and budgets are not
MULTIPLES = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50, 100)
FAR = 1000.0  # a factor outside the picture
EDGE = 30.0  # larger ratios are beyond the picture of ratios
OTHER_LOOKS: dict[str, dict[str, Any]] = {
    "AdamW": {"color": "#777777", "linestyle": "-."},
    COSINE: {"color": "#777777", "linestyle": (0, (1, 1))},
}


def draw_ratios(path: Path, results: list[Result]) -> None:
    """The ratio to the best tuned rival, problem by problem, with intervals; a mark for each budget."""
    figure = Figure(figsize=(8, 6.5), layout="constrained")
    ax = figure.subplots()
    problems = list(dict.fromkeys(result.problem for result in results))
    for shift, (budget, (mark, colour)) in enumerate(zip(BUDGETS, MARKS, strict=True)):
        some = [result for result in results if result.budget == budget]
        if not some:
            continue
        rows = np.array([problems.index(result.problem) for result in some]) + 0.22 * (shift - 1)
        ratios, ends = np.array([result.ratio() for result in some]), np.array([result.interval for result in some]).T
        around = np.maximum([ratios - ends[0], ends[1] - ratios], 0)
        ax.errorbar(ratios, rows, xerr=around, fmt=mark, color=colour, capsize=2, label=f"{budget:,} gradients")
    ax.axvline(1, color="#555555", linestyle=":")
    ax.set_xlim(0.2, EDGE)
    ax.set(
        xscale="log", xlabel="‖∇f‖ divided by the best tuned rival's (smaller is better)", yticks=range(len(problems))
    )
    _tick_multiples(ax)
    ax.set_yticklabels(problems)
    ax.invert_yaxis()
    figure.legend(loc="outside upper right", ncols=len(BUDGETS), frameon=False)
    save(figure, path)


def draw_profile(path: Path, results: list[Result]) -> None:
    """The share of problems and budgets on which each method is within a factor of the best of all."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    scores = [{name: result.mean(name) for name in (OURS, *TUNED, COSINE)} for result in results]
    shares = np.arange(len(scores) + 1) / len(scores)
    for name in scores[0]:
        factors = np.sort([min(means[name] / min(means.values()), FAR) for means in scores])
        label = f"{name}, tuned" if name in TUNED else name
        ax.stairs(shares, [1, *factors, FAR], baseline=None, label=label, **_look(name))
    ax.set(xscale="log", xlim=(1, 10), ylim=(0, 1.02))
    ax.set(xlabel="factor of the best ‖∇f‖", ylabel="share of cases within the factor (higher is better)")
    _tick_multiples(ax)
    ax.legend(loc="lower right", frameon=False)
    save(figure, path)


def _look(name: str) -> dict[str, Any]:
    if name == OURS:
        return {"color": BLACK, "linewidth": 2.5}
    if name in OTHER_LOOKS:
        return OTHER_LOOKS[name]
    return {"color": LOOKS[name].colour, "linestyle": LOOKS[name].line, "linewidth": 1.4}


def _tick_multiples(ax: Axes) -> None:
    ax.xaxis.set_major_locator(FixedLocator(MULTIPLES))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
