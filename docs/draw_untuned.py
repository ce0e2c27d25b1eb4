"""The figures of docs/untuned.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from gladstorm.pages.figures import save
from gladstorm.pages.styles import COLOURS

if TYPE_CHECKING:
    from generate_untuned import Case

OURS = "steered landing"


def draw_ratios(path: Path, cases: list[Case]) -> None:
    """The ratio to the best tuned rival, problem by problem, with intervals; a colour for each budget."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    ax = figure.subplots()
    problems = list(dict.fromkeys(each.problem for each in cases))
    budgets = sorted({each.budget for each in cases})
    for shift, (budget, colour) in enumerate(zip(budgets, COLOURS, strict=False)):
        some = [each for each in cases if each.budget == budget]
        rows = np.array([problems.index(each.problem) for each in some]) + 0.2 * (shift - (len(budgets) - 1) / 2)
        ratios = np.array([each.ratio() for each in some])
        ends = np.array([each.interval for each in some]).T
        around = np.maximum([ratios - ends[0], ends[1] - ratios], 0)
        ax.errorbar(ratios, rows, xerr=around, fmt="o", color=colour, capsize=2, label=f"{budget:,} gradients")
    ax.axvline(1, color="#555555", linestyle=":")
    ax.set(xscale="log", xlabel="‖∇f‖, untuned, as a multiple of the best tuned rival's", yticks=range(len(problems)))
    ax.set_yticklabels(problems)
    ax.invert_yaxis()
    ax.legend(frameon=False)
    save(figure, path)


def draw_profile(path: Path, cases: list[Case]) -> None:
    """The share of problems and budgets on which each method is within a factor of the best of all, rivals tuned."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    scores = [each.rivals() | {f"{OURS}, untuned": each.norm()} for each in cases]
    factors = np.geomspace(1, 10, 200)
    for name, colour in zip(scores[0], COLOURS, strict=False):
        multiples = np.array([each[name] / min(each.values()) for each in scores])
        share = (multiples[:, None] <= factors).mean(axis=0)
        ax.plot(factors, share, color=colour, label=name, linewidth=2.5 if OURS in name else 1.2)
    ax.set(xscale="log", xlabel="a factor", ylabel="share of cases within the factor of the best", ylim=(0, 1.02))
    ax.legend(frameon=False)
    save(figure, path)
