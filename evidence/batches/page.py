"""The page of the study and its figures, from results.json and auto.json. Nothing is trained here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from evidence import results as files
from evidence.page import LEVEL, markdown_table, rendered
from gladstorm.core.estimate import Estimate
from gladstorm.plotting import figures
from gladstorm.plotting.styles import BLUE, GREY, VERMILION

from . import auto_page
from .auto import AutoResults
from .study import FACTORS, OPTIMIZERS, RULES, USUAL, BatchResults

OURS, CLOSE = "scale_batch", 0.02
LOOKS = {OURS: (BLUE, "o-"), "square root": (VERMILION, "s--"), "linear": (GREY, "v:")}


@dataclass(frozen=True)
class BatchStudy:
    """Results of both parts."""

    fixed: BatchResults
    auto: AutoResults


def load(folder: Path) -> BatchStudy:
    """Read results.json and auto.json."""
    return BatchStudy(files.load(BatchResults, folder / "results.json"), files.load(AutoResults, folder / "auto.json"))


def trained(results: BatchResults, optimizer: str) -> list[str]:
    """Trainings whose runs with the smallest batch are finite: what follows them can be compared with them."""
    return [
        training
        for training in results.extent.trainings
        if all(math.isfinite(results.loss(training, optimizer, "", 1, seed)) for seed in results.extent.seeds)
    ]


def change(results: BatchResults, training: str, optimizer: str, rule: str, factor: int) -> float:
    """Excess of the loss over that of the smallest batch: the geometric mean over seeds of the ratio, minus 1.

    Infinite where a run is not finite, not a number where that of the smallest batch is not.
    """
    pairs = [
        (results.loss(training, optimizer, rule, factor, seed), results.loss(training, optimizer, rule, 1, seed))
        for seed in results.extent.seeds
    ]
    return float(np.exp(np.mean([math.log(larger / smaller) for larger, smaller in pairs]))) - 1


def mean_change(results: BatchResults, optimizer: str, rule: str, factor: int) -> Estimate:
    """Mean change over trainings, with Student's interval over trainings; infinite if one is."""
    logs = np.log1p([change(results, training, optimizer, rule, factor) for training in trained(results, optimizer)])
    return Estimate.of_mean(logs, LEVEL).map(math.expm1) if np.isfinite(logs).all() else Estimate(math.inf)


def judged(results: BatchResults) -> list[tuple[str, str, bool]]:
    """The sentences of registered.md with what came out, for each optimizer."""
    rows = []
    for optimizer in OPTIMIZERS:
        at = {rule: [mean_of(results, optimizer, rule, factor) for factor in USUAL] for rule in RULES}
        ours, others = at[OURS], [at[rule] for rule in RULES if rule != OURS]
        rows += [
            (f"{optimizer}: at factor 4 at most 2 % above the small batch", percent(ours[0]), ours[0] <= CLOSE),
            *(
                (
                    f"{optimizer}: at factor {factor} below both usual rules",
                    f"{percent(ours[k])}; {', '.join(percent(each[k]) for each in others)}",
                    ours[k] < min(each[k] for each in others),
                )
                for k, factor in enumerate(USUAL)
            ),
        ]
    return rows


def mean_of(results: BatchResults, optimizer: str, rule: str, factor: int) -> float:
    """Mean change without its interval."""
    value = mean_change(results, optimizer, rule, factor).value
    return math.inf if value is None else value


def percent(value: float) -> str:
    """A change in percent, with its sign; a dash where there is nothing to compare with."""
    return "–" if math.isnan(value) else "not finite" if math.isinf(value) else f"{100 * value:+.1f} %"


def changes_table(results: BatchResults, factor: int) -> str:
    """Table of the changes at one factor: a row for each training, a column for each optimizer with all rules."""

    def row(name: str, change_of: Callable[[str, str], float]) -> list[str]:
        by_optimizer = ([percent(change_of(optimizer, rule)) for rule in RULES] for optimizer in OPTIMIZERS)
        return [name, *(" / ".join(each.removesuffix(" %") for each in changes) for changes in by_optimizer)]

    rows = [row(training, partial(change, results, training, factor=factor)) for training in results.extent.trainings]
    mean = row("mean", partial(mean_of, results, factor=factor))
    return markdown_table(["", *OPTIMIZERS], [*rows, mean])


def render(study: BatchStudy) -> str:
    """Return the page, in Markdown."""
    results = study.fixed
    values = {
        **auto_page.values(study.auto),
        "r": results,
        "judged": judged(results),
        "tables": {factor: changes_table(results, factor) for factor in USUAL},
        "ours": {
            optimizer: [percent(mean_of(results, optimizer, OURS, factor)) for factor in FACTORS]
            for optimizer in OPTIMIZERS
        },
        "factors": FACTORS,
        "lost": {
            optimizer: [each for each in results.extent.trainings if each not in trained(results, optimizer)]
            for optimizer in OPTIMIZERS
        },
    }
    return rendered(__file__, values)


def chart(results: BatchResults) -> Figure:
    """Draw the mean change against the factor, a panel for each optimizer, for a small screen."""
    figure = Figure(figsize=(6, 7), layout="constrained")
    for ax, optimizer in zip(figure.subplots(len(OPTIMIZERS), 1, sharex=True), OPTIMIZERS, strict=True):
        for rule, (colour, style) in LOOKS.items():
            factors = FACTORS if rule == OURS else USUAL
            means = [mean_of(results, optimizer, rule, factor) for factor in factors]
            ax.plot([1, *factors], [0.0, *(100 * mean for mean in means)], style, color=colour, label=rule)
        ax.set_title(optimizer, fontsize=14, loc="left")
        ax.set_xscale("log", base=2)
        ax.set_xticks([1, *FACTORS], [f"{factor}" for factor in (1, *FACTORS)])
        ax.tick_params(labelsize=13)
        ax.grid(color="#dddddd", linewidth=0.5)
    figure.supylabel("loss above the small batch's, %", fontsize=14)
    figure.supxlabel("times larger batches", fontsize=14)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def draw(folder: Path) -> None:
    """Draw the figures of the page."""
    study = load(folder)
    figures.save(chart(study.fixed), folder / "figure.png")
    figures.save(auto_page.chart(study.auto), folder / "auto.png")
