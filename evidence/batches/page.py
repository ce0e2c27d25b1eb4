"""The page of the study and its figure, from results.json. Nothing is trained here."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from evidence.page import LEVEL, markdown_table, read, rendered
from gladstorm.core.estimate import Estimate
from gladstorm.core.results import from_json
from gladstorm.plotting import figures
from gladstorm.plotting.styles import BLUE, GREY, VERMILION

from .study import FACTORS, OPTIMIZERS, RULES, USUAL, BatchResults

OURS, CLOSE = "scale_batch", 0.02
LOOKS = {OURS: (BLUE, "o-"), "square root": (VERMILION, "s--"), "linear": (GREY, "v:")}


def load(folder: Path) -> BatchResults:
    """Read results.json."""
    return from_json(BatchResults, read(folder / "results.json"))


def change(results: BatchResults, training: str, optimizer: str, rule: str, factor: int) -> float:
    """By how much the loss exceeds that of the smallest batch: the geometric mean over seeds of the ratio, minus 1."""
    pairs = [
        (results.loss(training, optimizer, rule, factor, seed), results.loss(training, optimizer, rule, 1, seed))
        for seed in results.extent.seeds
    ]
    return float(np.exp(np.mean([math.log(larger / smaller) for larger, smaller in pairs]))) - 1


def mean_change(results: BatchResults, optimizer: str, rule: str, factor: int) -> Estimate:
    """Mean change over trainings, with Student's interval over trainings; infinite if one is."""
    logs = np.log1p([change(results, training, optimizer, rule, factor) for training in results.extent.trainings])
    return Estimate.of_mean(logs, LEVEL).map(math.expm1) if np.isfinite(logs).all() else Estimate(math.inf)


def judged(results: BatchResults) -> list[tuple[str, str, bool]]:
    """The sentences of registered.md with what came out, for each optimizer."""
    rows = []
    for optimizer in OPTIMIZERS:
        at = {rule: [mean_change(results, optimizer, rule, factor).value or 0.0 for factor in USUAL] for rule in RULES}
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


def percent(value: float) -> str:
    """A change in percent, with its sign."""
    return "not finite" if math.isinf(value) else f"{100 * value:+.1f} %"


def changes_table(results: BatchResults, factor: int) -> str:
    """Table of the changes at one factor: a row for each training, a column for each optimizer and rule."""
    columns = [(optimizer, rule) for optimizer in OPTIMIZERS for rule in RULES]
    rows = [
        [training, *(percent(change(results, training, *column, factor)) for column in columns)]
        for training in results.extent.trainings
    ]
    means = ["mean", *(percent(mean_change(results, *column, factor).value or 0.0) for column in columns)]
    return markdown_table(["", *(f"{optimizer}, {rule}" for optimizer, rule in columns)], [*rows, means])


def render(results: BatchResults) -> str:
    """Return the page, in Markdown."""
    values = {
        "r": results,
        "judged": judged(results),
        "tables": {factor: changes_table(results, factor) for factor in USUAL},
        "ours": {
            optimizer: [percent(mean_change(results, optimizer, OURS, factor).value or 0.0) for factor in FACTORS]
            for optimizer in OPTIMIZERS
        },
        "factors": FACTORS,
        "percent": percent,
        "mean_change": partial(mean_change, results),
    }
    return rendered(__file__, values)


def chart(results: BatchResults) -> Figure:
    """Draw the mean change against the factor, a panel for each optimizer, for a small screen."""
    figure = Figure(figsize=(6, 7), layout="constrained")
    for ax, optimizer in zip(figure.subplots(len(OPTIMIZERS), 1, sharex=True), OPTIMIZERS, strict=True):
        for rule, (colour, style) in LOOKS.items():
            factors = FACTORS if rule == OURS else USUAL
            means = [mean_change(results, optimizer, rule, factor).value or 0.0 for factor in factors]
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
    """Draw the figure of the page."""
    figures.save(chart(load(folder)), folder / "figure.png")
