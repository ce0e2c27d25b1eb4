"""The figures of `gladstorm suite`: the answers case by case, and profiles over all cases."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from gladstorm.core.estimate import Estimate
from gladstorm.plotting.styles import LOOKS, method_of, styles
from gladstorm.suite.result import SuiteResult
from gladstorm.suite.running import profile, reaching, with_infinities

FARTHEST = 100.0  # factor of the best that is drawn
WIDEST = 1000.0  # ratio to the reference that is drawn: intervals of few seeds go on for ever


def answers(result: SuiteResult) -> Figure:
    """Each question's ratio, case by case: a panel for each question, a line for each problem, by the kind of noise."""
    questions, budgets = result.answers, result.config.budgets
    by_noise: dict[str, list[str]] = {" outside BG-0": [], " their own noise": [], " added noise": []}
    for name, facts in result.problems.items():
        faster = facts.outside is not None and facts.field == "∇f"
        by_noise[" outside BG-0" if faster else " their own noise" if facts.natural else " added noise"].append(name)
    lines = [line for kind, names in by_noise.items() if names for line in (kind, *names)]  # headings have a space
    figure = Figure(figsize=(1.6 + 2.1 * len(questions), 1.2 + 0.21 * len(lines)), layout="constrained")
    axes = figure.subplots(1, len(questions), squeeze=False, sharey=True)[0]
    for ax, answer in zip(axes, questions, strict=True):
        ax.set(xscale="log", ylim=(len(lines) - 0.3, -0.7))
        for case in answer.cases:
            longer = case.budget == budgets[-1]
            place = lines.index(case.problem) + (0.17 if longer else -0.17)
            colour = "#bbbbbb" if case.verdict == "cannot tell" else "black"
            style = {"color": colour, "markerfacecolor": colour if longer else "white", "markeredgewidth": 0.9}
            if case.relative.value is None:
                half = 0.5 * case.seeds.of
                side = 0.02 if case.seeds.better > half else 0.98 if case.seeds.better < half else 0.5
                ax.plot([side], [place], "X", markersize=5, transform=ax.get_yaxis_transform(), **style)
            else:
                _interval(ax, case.relative, place, style)
        _show_ratios(ax)
        ax.set_title(f"{answer.deed}?\n{answer.does} / {answer.does_not}", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(lines)), [line.strip() for line in lines])
    for label, line in zip(axes[0].get_yticklabels(), lines, strict=True):
        label.set(weight="normal" if line in result.problems else "bold")
    caption = f"ratio of ‖∇f‖, left of 1 is better; ○ {budgets[0]:,} ● {budgets[-1]:,} stochastic gradients\n"
    caption += "grey: cannot tell; a cross: some seed diverged, and it stands where most seeds do"
    figure.supxlabel(caption, fontsize=7)
    return figure


def profiles(result: SuiteResult) -> Figure:
    """The share of cases within a factor of the best, and the share of runs that have reached their target."""
    figure = Figure(figsize=(7.4, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    cases, longest = result.cases, max(result.config.budgets)
    factors, shares = np.geomspace(1, FARTHEST, 200), np.linspace(0, 1, 201)
    for place, (name, style) in enumerate(_styles(result).items()):
        # Marks for those who see no colours, each row's elsewhere, so that they do not hide each other.
        look = LOOKS.get(method_of(name) or "")
        style = style | {"marker": look.marker if look else "*", "markersize": 3.2, "markevery": (3 * place, 40)}
        ratios = with_infinities(case.rows[name].to_best for case in cases)
        times = with_infinities(time for case in cases if case.budget == longest for time in case.rows[name].reached)
        left.step(factors, profile(ratios, factors), where="post", label=name, **style)
        right.step(longest * shares, reaching(times, shares, longest), where="post", **style)
    left.set(xscale="log", ylim=(0, 1.02))
    left.set_xlabel("factor of the best ‖∇f‖", fontsize=8)
    left.set_ylabel("share", fontsize=8)
    left.set_title(f"of {len(cases)} cases, within this factor of the best row", fontsize=8)
    right.set_xlabel("stochastic gradients", fontsize=8)
    right.set_title(f"of runs, below {result.config.target:g} × the best for good", fontsize=8)
    for ax in (left, right):
        ax.tick_params(labelsize=7)
        ax.grid(alpha=0.25, linewidth=0.5)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    return figure


def _interval(ax: Any, ratio: Estimate, place: float, style: Mapping[str, Any]) -> None:
    if ratio.low is not None:
        ax.plot([ratio.low, ratio.high], [place, place], color=style["color"], linewidth=0.9)
    ax.plot([ratio.value], [place], "o", markersize=3.2, **style)


def _show_ratios(ax: Any) -> None:
    """At least a factor 2 to either side of 1, no interval that goes on for ever, and labels at the decades."""
    low, high = ax.get_xlim()
    ax.set_xlim(min(0.45, max(low, 1 / WIDEST)), max(2.2, min(high, WIDEST)))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.axvline(1, color="#888888", linewidth=0.8, linestyle=":")


def _styles(result: SuiteResult) -> dict[str, dict[str, Any]]:
    """A colour for each method, that of other figures where it has one; thin dashes without a decay."""
    looks, lines = styles(dict.fromkeys(row.method for row in result.methods.values())), {}
    for name, row in result.methods.items():
        line, width = ("--", 0.8) if row.decay == 0 else ("-", 1.5)
        lines[name] = {"color": looks[row.method]["color"], "linestyle": line, "linewidth": width}
    return lines
