"""The page of the study and its figure, from results.json. Nothing is trained here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from evidence.networks.page import ratio_chart
from evidence.page import Sentence, markdown_table, rendered
from evidence.results import load as load_results
from gladstorm.plotting import figures
from gladstorm.plotting.styles import BLUE, GREY, ORANGE, SKY, VERMILION

from .development import DevelopmentResults, would_replace
from .methods import CONTESTANTS, OPTIMIZERS
from .study import JudgementResults

ADAMW, MUON, OURS, NULL = "AdamW", "Muon", "Untuned by layer", "one length"
TUNED = [name for name, each in CONTESTANTS.items() if len(each.settings) > 1]
UNTUNED = [name for name, each in CONTESTANTS.items() if len(each.settings) == 1 and name != OURS]
LOOKS = {  # of the figure, where a method that is tuned is named so
    "Muon, tuned": (MUON, VERMILION, "s"),
    "Schedule-Free": ("Schedule-Free", ORANGE, "^"),
    "Prodigy": ("Prodigy", GREY, "v"),
    "AdamW, cosine": ("AdamW, cosine", SKY, "D"),
    "Untuned by layer": (NULL, BLUE, "o"),
}


@dataclass(frozen=True)
class PublishedResults(JudgementResults):
    """The judgement, and the trials on trainings that were known, where there are any."""

    development: DevelopmentResults | None = None


def load(folder: Path) -> PublishedResults:
    """Read results.json, and development.json if it is there."""
    judgement, path = load_results(PublishedResults, folder / "results.json"), folder / "development.json"
    return replace(judgement, development=load_results(DevelopmentResults, path) if path.exists() else None)


def losses(results: JudgementResults, training: str, steps: int, method: str) -> np.ndarray:
    """Held-out losses of a method at its setting, seed by seed; infinite where a run is not finite."""
    return np.array([results.loss(run) for run in results.reported(training, steps, CONTESTANTS[method])])


def ratios(results: JudgementResults, steps: int, method: str, to: str = ADAMW) -> dict[str, float]:
    """The geometric mean over seeds of the ratio of two methods' losses, by finished training."""
    return {
        training: float(np.exp(np.mean(np.log(losses(results, training, steps, method) / of))))
        for training in results.finished(steps)
        for of in [losses(results, training, steps, to)]
    }


def mean_ratio(results: JudgementResults, steps: int, method: str, to: str = ADAMW, *, but: str = "") -> float:
    """The geometric mean over trainings of the ratios, without one if it is named; infinite if a ratio is."""
    values = [value for training, value in ratios(results, steps, method, to).items() if training != but]
    return math.exp(np.mean(np.log(values)))


def median(results: JudgementResults, steps: int, method: str) -> float:
    """The median over trainings of the ratios to tuned AdamW."""
    return float(np.median(list(ratios(results, steps, method).values())))


def worst(results: JudgementResults, steps: int, method: str, to: str = ADAMW) -> tuple[float, str]:
    """The largest ratio, and the training that has it."""
    return max((value, training) for training, value in ratios(results, steps, method, to).items())


def judged(results: JudgementResults) -> list[Sentence]:
    """The sentences of registered.md, in its order."""

    def at_most(words: str, most: float, *values: float, where: str = "") -> Sentence:
        return Sentence(words, ", ".join(f"{v:.2f}" for v in values) + where, all(value <= most for value in values))

    lengths = results.lengths
    to_adamw, to_muon = ([mean_ratio(results, steps, OURS, to) for steps in lengths] for to in (ADAMW, MUON))
    largest, training, steps = max((*worst(results, steps, OURS), steps) for steps in lengths)
    rivals = {name: [mean_ratio(results, steps, name) for steps in lengths] for name in UNTUNED}
    behind = [name for name, means in rivals.items() if any(m <= o for m, o in zip(means, to_adamw, strict=True))]
    diverged = [f"{each}, {training}, K = {steps}" for each, training, steps in _not_finite(results)]
    (costs,) = results.costs.values()
    return [
        at_most("mean ratio to tuned AdamW ≤ 0.85 at each K", 0.85, *to_adamw),
        at_most("mean ratio to tuned Muon ≤ 1.03 at each K", 1.03, *to_muon),
        at_most("worst ratio to tuned AdamW ≤ 1.1", 1.1, largest, where=f", {training} at K = {steps}"),
        Sentence("a lower mean than every untuned rival at each K", ", ".join(behind) or "lower", not behind),
        Sentence("every run of it is finite", "; ".join(diverged) or "all", not diverged),
        at_most(
            "a step takes ≤ 1.15 times as long as Muon's",
            1.15,
            costs[CONTESTANTS[OURS].optimizer].milliseconds / costs[CONTESTANTS[MUON].optimizer].milliseconds,
        ),
    ]


def _not_finite(results: JudgementResults) -> list[tuple[str, str, int]]:
    return [
        (OURS, training, steps)
        for steps in results.lengths
        for training in results.finished(steps)
        if not np.isfinite(losses(results, training, steps, OURS)).all()
    ]


def summary_table(results: JudgementResults) -> str:
    """Table of mean, median and worst ratios to tuned AdamW by method, for each K."""
    headings = ["", "settings", *(text for k in results.lengths for text in (f"K = {k:,}", "median", "worst"))]
    rows = [
        [name, f"{len(CONTESTANTS[name].settings)}"]
        + [
            text
            for steps in results.lengths
            for text in (
                f"{mean_ratio(results, steps, name):.2f}",
                f"{median(results, steps, name):.2f}",
                f"{worst(results, steps, name)[0]:.2f}",
            )
        ]
        for name in (OURS, *(each for each in (*TUNED, *UNTUNED) if each != ADAMW))
    ]
    return markdown_table(headings, rows)


def ratios_table(results: JudgementResults, steps: int) -> str:
    """Table of tuned AdamW's mean loss and the ratios of the other methods, by training, at a K."""
    names = [OURS, *(each for each in (*TUNED, *UNTUNED) if each != ADAMW)]
    columns = {name: ratios(results, steps, name) for name in names}
    rows = [
        [training, f"{losses(results, training, steps, ADAMW).mean():.3g}"]
        + [f"{column[training]:.2f}" for column in columns.values()]
        for training in results.finished(steps)
    ]
    return markdown_table([f"K = {steps:,}", ADAMW, *names], rows)


def picks_table(results: JudgementResults) -> str:
    """Table of settings that were picked at each K, a star at rates at an end of the grid."""

    def picked(training: str, steps: int, name: str) -> str:
        chosen = results.picked(training, steps, CONTESTANTS[name])
        rates = sorted({each.rate for each in CONTESTANTS[name].settings})
        decay = f"; {chosen.decay:g}" if chosen.decay else ""
        return f"{chosen.rate:g}" + r"\*" * (chosen.rate in (rates[0], rates[-1])) + decay

    rows = [
        [training, f"{steps:,}", *(picked(training, steps, name) for name in TUNED)]
        for training in results.extent.trainings
        for steps in results.lengths
        if training in results.finished(steps)
    ]
    return markdown_table(["", "K", *TUNED], rows)


def costs_table(results: JudgementResults) -> str:
    """Table of the time of a step and of the state, by optimizer."""
    (costs,) = results.costs.values()
    names = {each.optimizer: name for name, each in reversed(CONTESTANTS.items())}
    rows = [[names[name], f"{costs[name].milliseconds:.2g}", f"{costs[name].state:.3g}"] for name in OPTIMIZERS]
    return markdown_table(["", "ms", "state"], rows)


def trial(results: DevelopmentResults, question: str, label: str) -> dict[str, float]:
    """The mean, the best and the worst ratio of a row of a question, and on how many trainings it is lower."""
    table = results.questions[question]
    (row,) = (each for each in table.rows if each.label == label)
    values = list(results.ratios(table, row).values())
    lower = sum(value < 1 for value in values)
    return {"mean": math.exp(np.mean(np.log(values))), "best": min(values), "worst": max(values), "lower": lower}


def trials_table(results: DevelopmentResults, question: str) -> str:
    """Table of the rows of a question, each compared with what it is to be compared with."""
    table = results.questions[question]
    rows = []
    for row in table.rows:
        ends = trial(results, question, row.label)
        of = f"{ends.pop('lower')} of {len(table.trainings)}"
        rows.append([row.label, *(f"{end:.2f}" for end in ends.values()), of])
    return markdown_table(["", "mean", "best", "worst", "lower"], rows)


def ahead(results: DevelopmentResults) -> list[str]:
    """The rows that are as far ahead as was asked for beforehand."""
    return [
        row.label
        for question in results.questions.values()
        for row in question.rows
        if row.could_replace and would_replace(results.ratios(question, row))
    ]


def render(results: PublishedResults) -> str:
    """Return the page, in Markdown."""
    trials = results.development
    values = {
        "trials": trials,
        "tables": trials and {name: trials_table(trials, name) for name in trials.questions},
        "trial": trials and partial(trial, trials),
        "ahead": trials and ahead(trials),
        "r": results,
        "left": {steps: names for steps in results.extent.steps if (names := results.unfinished(steps))},
        "shown": shown(results),
        "judged": judged(results),
        "ours": OURS,
        "untuned": UNTUNED,
        "summary": summary_table(results),
        "ratio_tables": [ratios_table(results, steps) for steps in results.lengths],
        "picks": picks_table(results),
        "costs": costs_table(results),
        **{each.__name__: partial(each, results) for each in (mean_ratio, worst, ratios)},
    }
    return rendered(__file__, values)


def shown(results: JudgementResults) -> int:
    """The largest K at which all trainings are finished: that of the figure."""
    return max((steps for steps in results.lengths if not results.unfinished(steps)), default=results.lengths[-1])


def chart(results: JudgementResults) -> Figure:
    """Draw the ratios to tuned AdamW at the largest K that is finished."""
    steps = shown(results)
    columns = {label: ratios(results, steps, method) for label, (method, *_) in LOOKS.items()}
    looks = {label: (colour, marker) for label, (_, colour, marker) in LOOKS.items()}
    return ratio_chart(columns, looks, "Untuned by layer", f"loss / tuned AdamW's at K = {steps:,}")


def draw(folder: Path) -> None:
    """Draw the figure of the page."""
    figures.save(chart(load(folder)), folder / "figure.png")
