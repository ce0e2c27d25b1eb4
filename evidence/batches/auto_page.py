"""The second part of the page and its figure, from auto.json. Nothing is trained here."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from evidence.page import Sentence, markdown_table
from gladstorm.plotting.styles import BLUE, GREY, ORANGE, SKY, VERMILION

from .auto import (
    FACTORS,
    FAST,
    FIXED_TIMES,
    METHODS,
    OPTIMIZERS,
    OTHER_ORDER,
    RATES,
    SAFE,
    SCALE_ALONE,
    SEESAW,
    SMALL,
    TESTED,
    USUAL_FACTORS,
    AutoResults,
    methods_of,
)

SAFE_CLOSE, SAFE_FAR, SAFE_STEPS = 0.01, 0.03, 1 / 2
FAST_CLOSE, FAST_STEPS = 0.02, 1 / 3
MOST_RUNS = 0.9
OVERHEAD = 1.03
RATIOS = (1, 10, 100)  # t₀/t₁: what a step costs beside its samples, in batches of the first size
EPS = 1e-9  # of rounding: 1 % is within 1 %
Cell = tuple[str, str]  # a training and an optimizer: a run of the registered sentences
LOOKS = {
    SAFE: (BLUE, "o"),
    FAST: (SKY, "o"),
    SEESAW: (ORANGE, "^"),
    FIXED_TIMES: (ORANGE, "v"),
    TESTED: (GREY, "s"),
    SCALE_ALONE: (GREY, "D"),
    OTHER_ORDER: ("black", "x"),
}


def cells(results: AutoResults, method: str = SMALL) -> list[Cell]:
    """Trainings and optimizers that are run with a method, and whose small batch ends at a finite loss."""
    return [
        (training, optimizer)
        for training in results.extent.trainings
        for optimizer in OPTIMIZERS
        if method in methods_of(optimizer) and math.isfinite(loss(results, (training, optimizer), SMALL))
    ]


def loss(results: AutoResults, cell: Cell, method: str) -> float:
    """The geometric mean over seeds of the held-out loss; infinite if a run is not finite."""
    losses = np.array([results.loss(*cell, method, seed) for seed in results.seeds])
    return float(np.exp(np.mean(np.log(losses))))


def above(results: AutoResults, cell: Cell, method: str, to: float | None = None) -> float:
    """How far a method ends above the small batch, or above another loss, as a share of it."""
    ended = loss(results, cell, method)
    return ended / (loss(results, cell, SMALL) if to is None else to) - 1


def largest_within(results: AutoResults, cell: Cell) -> int:
    """The largest factor at which `scale_batch` ends at most 1 % above the small batch; 1 if none does."""
    within = [f for f in FACTORS if above(results, cell, f"scale_batch {f}") <= SAFE_CLOSE + EPS]
    return max(within, default=1)


def reference(results: AutoResults, cell: Cell) -> float:
    """The best of the small batch and the largest fixed batch within 1 % of it."""
    factor = largest_within(results, cell)
    small = loss(results, cell, SMALL)
    return min(small, loss(results, cell, f"scale_batch {factor}")) if factor > 1 else small


def behind(results: AutoResults, method: str) -> dict[Cell, float]:
    """How far a method ends above the reference, run by run."""
    return {cell: above(results, cell, method, reference(results, cell)) for cell in cells(results, method)}


def share_within(results: AutoResults, method: str, most: float) -> float:
    """Share of the runs in which a method is at most so far behind."""
    return float(np.mean([value <= most + EPS for value in behind(results, method).values()]))


def steps(results: AutoResults, cell: Cell, method: str) -> float:
    """Steps made, as a share of those with the small batch; the mean over seeds."""
    made = [results.run(*cell, method, seed).steps for seed in results.seeds]
    return float(np.mean(made)) / results.extent.steps


def mean_steps(results: AutoResults, method: str) -> float:
    """The mean of that share over runs."""
    return float(np.mean([steps(results, cell, method) for cell in cells(results, method)]))


def seconds(results: AutoResults, method: str, ratio: float) -> float:
    """Time of a method over the small batch's where a step takes t₀ and a sample t₁, the mean over runs."""
    return (mean_steps(results, method) * ratio + 1) / (ratio + 1)


def by_a_fixed_batch(results: AutoResults) -> list[Cell]:
    """Runs in which a batch four times as large ends within 1 % of the small one, by either rule."""
    rules = ("scale_batch 4", "usual 4")
    return [cell for cell in cells(results) if min(above(results, cell, rule) for rule in rules) <= SAFE_CLOSE + EPS]


def better_batches(results: AutoResults) -> dict[Cell, tuple[str, float]]:
    """Runs in which a larger fixed batch ends more than 1 % below the small one: the lowest, and how far."""
    better: dict[Cell, tuple[str, float]] = {}
    for cell in cells(results):
        methods = [method for method in METHODS if method.startswith(("scale_batch", "usual"))]
        best, method = min((above(results, cell, method), method) for method in methods)
        if best < -SAFE_CLOSE:
            better[cell] = method, best
    return better


def judged(results: AutoResults) -> list[Sentence]:
    """The sentences of registered_auto.md, in its order."""

    def close(words: str, method: str, most: float) -> Sentence:
        share, runs = share_within(results, method, most), len(cells(results, method))
        return Sentence(words, f"{round(share * runs)} of {runs}", share >= MOST_RUNS - EPS)

    def few(words: str, method: str, most: float) -> Sentence:
        return Sentence(words, f"{mean_steps(results, method):.2f}", mean_steps(results, method) <= most + EPS)

    worst = max(behind(results, SAFE).items(), key=lambda item: item[1])
    can = by_a_fixed_batch(results)
    lost = [cell for cell in can if above(results, cell, "scale_batch 4") > SAFE_CLOSE + EPS]
    ours, null = (share_within(results, method, SAFE_CLOSE) for method in (SAFE, OTHER_ORDER))
    overhead = mean_overhead(results)
    return [
        close("`safe`: within 1 % of the best in at least 90 % of runs", SAFE, SAFE_CLOSE),
        Sentence(
            "`safe`: never more than 3 % behind", f"{percent(worst[1])}, {named(worst[0])}", worst[1] <= SAFE_FAR + EPS
        ),
        few("`safe`: at most half of the small batch's steps in the mean", SAFE, SAFE_STEPS),
        close("`fast`: within 2 % of the best in at least 90 % of runs", FAST, FAST_CLOSE),
        few("`fast`: at most a third of the steps in the mean", FAST, FAST_STEPS),
        Sentence(
            "`scale_batch` at factor 4: within 1 % wherever a fixed batch can",
            f"not in {len(lost)} of {len(can)}" + "".join(f"; {named(cell)}" for cell in lost),
            not lost,
        ),
        Sentence(
            "overhead at most 3 % with looks at every eighth step", percent(overhead - 1), overhead <= OVERHEAD + EPS
        ),
        Sentence(
            "`safe`: within 1 % at least as often as the small batch in another order",
            f"{whole(ours)} and {whole(null)}",
            ours >= null - EPS,
        ),
    ]


def mean_overhead(results: AutoResults) -> float:
    """The geometric mean over trainings of the CPU time of a step by `AutoBatch` over that of a plain one."""
    return float(np.exp(np.mean(np.log(list(results.overheads.values())))))


def percent(value: float) -> str:
    """A change in percent, with its sign."""
    return f"{100 * value:+.1f} %" if math.isfinite(value) else "not finite"


def whole(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"


def named(cell: Cell) -> str:
    """A run in words."""
    return f"{cell[0]} with {cell[1]}"


def summary_table(results: AutoResults) -> str:
    """Table of how far every method is behind, and how many steps it makes."""
    rows = []
    for method in METHODS:
        values = list(behind(results, method).values())
        median, most = float(np.median(values)), max(values)
        within = [whole(share_within(results, method, limit)) for limit in (SAFE_CLOSE, SAFE_FAR)]
        rows.append([label(method), *within, percent(median), percent(most), f"{mean_steps(results, method):.2f}"])
    return markdown_table(["", "within 1 %", "3 %", "median", "worst", "steps"], rows)


def label(method: str) -> str:
    """A method as the page calls it."""
    words, _, factor = method.rpartition(" ")
    if factor.isdigit():
        return f"`scale_batch`, × {factor}" if words == "scale_batch" else f"usual rule, × {factor}"
    return f"AutoBatch, {method}" if method in (SAFE, FAST) else method


def runs_table(results: AutoResults) -> str:
    """Table of safe and fast in every run: how far behind, and the share of steps."""

    def pair(cell: Cell, method: str) -> str:
        if method not in methods_of(cell[1]):
            return "–"
        far = above(results, cell, method, reference(results, cell))
        return f"{100 * far:+.1f} / {steps(results, cell, method):.2f}"

    rows = [
        [
            f"{training}, {optimizer}",
            f"{results.rate(training, optimizer):g}",
            f"{largest_within(results, (training, optimizer))}",
            f"{100 * above(results, (training, optimizer), OTHER_ORDER):+.1f}",
            *(pair((training, optimizer), method) for method in (SAFE, FAST)),
        ]
        for training, optimizer in cells(results)
    ]
    return markdown_table(["", "rate", "fixed", "other order", SAFE, FAST], rows)


def time_table(results: AutoResults) -> str:
    """Table of times by the cost model."""
    chosen = (SAFE, FAST, "scale_batch 4", "scale_batch 32", SEESAW, FIXED_TIMES, TESTED, SCALE_ALONE)
    rows = [[label(method), *(f"{seconds(results, method, ratio):.2f}" for ratio in RATIOS)] for method in chosen]
    return markdown_table(["t₀/t₁", *(f"{ratio}" for ratio in RATIOS)], rows)


def unchanged(results: AutoResults) -> dict[Cell, float]:
    """Runs in which `safe` never grew, and how far from the small batch they end: by rounding alone."""
    return {cell: above(results, cell, SAFE) for cell in cells(results, SAFE) if steps(results, cell, SAFE) == 1}


def values(results: AutoResults) -> dict[str, object]:
    """Return what the template page.md needs of this part."""
    every = cells(results)
    left = [cell for cell in product(results.extent.trainings, OPTIMIZERS) if cell not in every]
    return {
        "a": results,
        "a_judged": judged(results),
        "a_summary": summary_table(results),
        "a_runs": runs_table(results),
        "a_times": time_table(results),
        "a_cells": len(every),
        "a_left": [named(cell) for cell in left],
        "a_unchanged": unchanged(results),
        "a_at_end": sum(results.rate(*cell) in (RATES[cell[1]][0], RATES[cell[1]][-1]) for cell in every),
        "a_reasons": Counter(results.run(*cell, SAFE, seed).reason for cell in every for seed in results.seeds),
        "a_single": {method: whole(single_within(results, method)) for method in (SAFE, OTHER_ORDER)},
        "a_better": better_batches(results),
        "a_overhead": percent(mean_overhead(results) - 1),
        "a_steps": {method: f"{mean_steps(results, method):.2f}" for method in METHODS},
        "a_within": {method: whole(share_within(results, method, SAFE_CLOSE)) for method in METHODS},
        **{each.__name__: each for each in (named, label, percent)},
    }


def single_within(results: AutoResults, method: str) -> float:
    """Share of single losses, seed by seed, that are within 1 % of the best of their seed."""
    return float(
        np.mean(
            [
                results.loss(*cell, method, seed) <= (1 + SAFE_CLOSE + EPS) * reference_of_seed(results, cell, seed)
                for cell in cells(results, method)
                for seed in results.seeds
            ]
        )
    )


def numbers(results: AutoResults) -> dict[str, str]:
    """Numbers that docs/batch.md repeats."""
    both = (SAFE, FAST)
    return {
        **{f"steps.{method}": f"{mean_steps(results, method):.2f}" for method in both},
        **{f"within.{method}": whole(share_within(results, method, SAFE_CLOSE)) for method in both},
        "within.other": whole(share_within(results, OTHER_ORDER, SAFE_CLOSE)),
        **{f"worst.{method}": percent(max(behind(results, method).values())) for method in both},
        **{f"median.{method}": percent(float(np.median(list(behind(results, method).values())))) for method in both},
        "overhead": percent(mean_overhead(results) - 1),
        "runs": str(len(cells(results))),
        "sentences": str(len(judged(results))),
        "true": str(sum(bool(sentence.holds) for sentence in judged(results))),
    }


def reference_of_seed(results: AutoResults, cell: Cell, seed: int) -> float:
    """The reference within one seed: the best of the small batch and the largest fixed one within 1 % of it."""
    small = results.loss(*cell, SMALL, seed)
    fixed = [results.loss(*cell, f"scale_batch {factor}", seed) for factor in FACTORS]
    return min([small, *[each for each in fixed if each <= (1 + SAFE_CLOSE + EPS) * small][-1:]])


def chart(results: AutoResults) -> Figure:
    """Draw the median and the ninth decile of what methods are behind, against their steps, for a small screen."""
    figure = Figure(figsize=(6, 7.5), layout="constrained")
    for ax, (title, level) in zip(
        figure.subplots(2, 1, sharex=True), (("median run", 0.5), ("nine of ten runs", 0.9)), strict=True
    ):

        def height(method: str, level: float = level) -> float:
            ordered = sorted(behind(results, method).values())
            return min(100 * ordered[math.ceil(level * len(ordered)) - 1], TOP)

        for words, factors, colour, line in (
            ("scale_batch", FACTORS, VERMILION, "-"),
            ("usual", USUAL_FACTORS, VERMILION, ":"),
        ):
            ends = [height(f"{words} {factor}") for factor in factors]
            ax.plot([1 / f for f in factors], ends, line, marker=".", color=colour, label=f"fixed, {words}")
        for method, (colour, marker) in LOOKS.items():
            ax.plot(
                mean_steps(results, method),
                height(method),
                marker,
                color=colour,
                markersize=10,
                label=label(method),
                ls="",
            )
        ax.set_title(title, fontsize=14, loc="left")
        ax.set_xscale("log", base=2)
        ax.tick_params(labelsize=13)
        ax.axhline(1, color="#999999", linewidth=0.8, linestyle="--")
        ax.grid(color="#dddddd", linewidth=0.5)
        ax.set_ylim(top=TOP * 1.05)
    ax.xaxis.set_major_locator(FixedLocator([1 / f for f in (*FACTORS, 1)]))
    ax.set_xticklabels([*(f"1/{f}" for f in FACTORS), "1"])
    figure.supylabel("loss behind the best, %", fontsize=14)
    figure.supxlabel("steps, as a share of the small batch's", fontsize=14)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=11)
    return figure


TOP = 20.0  # percent: what is above is drawn there
