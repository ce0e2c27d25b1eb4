"""The page of the study and its figure, from results.json. Nothing is trained here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from evidence.page import LEVEL, Sentence, markdown_table, rendered
from evidence.results import load as load_results
from gladstorm.core.estimate import Estimate
from gladstorm.plotting import figures
from gladstorm.plotting.styles import BLUE, GREY, SKY, VERMILION

from .methods import CONTESTANTS, RELATIVES, Contestant
from .study import Cost, NetworkResults

ADAMW, MUON, OURS, FIXED = "AdamW", "Muon", "NSGDM by layer", "NSGDM by layer, .02"
BASE = "NSGDM by layer, no decay"  # what its relatives are compared with: tuned over the same lengths
SHORT = {OURS: "by layer", FIXED: "by layer, .02", "NSGDM, one norm": "one norm", "Schedule-Free": "Sch.-Free"}
LOOKS = {MUON: (VERMILION, "s"), "NSGDM, one norm": (GREY, "v"), FIXED: (SKY, "D"), OURS: (BLUE, "o")}
TICKS, FAR = (0.1, 0.3, 1, 3, 10), 20.0  # of the figure; a run that is not finite is far
RIVALS = [name for name in CONTESTANTS if name not in (ADAMW, BASE, *RELATIVES)]


def load(folder: Path) -> NetworkResults:
    """Read results.json."""
    return load_results(NetworkResults, folder / "results.json")


def losses(results: NetworkResults, training: str, method: str) -> np.ndarray:
    """Held-out losses of a method at its setting, seed by seed; infinite where a run is not finite."""
    contestant = CONTESTANTS[method]
    chosen = results.picked(training, contestant)
    return np.array([results.loss(training, contestant.optimizer, chosen, seed) for seed in results.extent.seeds])


def ratio(results: NetworkResults, training: str, method: str, to: str = ADAMW) -> float:
    """Geometric mean over seeds of the ratio of two methods' losses."""
    logs = np.log(losses(results, training, method)) - np.log(losses(results, training, to))
    return float(np.exp(logs.mean()))


def ratios(results: NetworkResults, method: str, to: str = ADAMW, *, but: str = "") -> dict[str, float]:
    """The ratio of each finished training, without one if it is named."""
    return {training: ratio(results, training, method, to) for training in results.finished if training != but}


def mean_ratio(results: NetworkResults, method: str, to: str = ADAMW, *, but: str = "") -> Estimate:
    """Geometric mean over trainings of the ratios, with Student's interval over trainings; infinite if one is."""
    logs = np.log(list(ratios(results, method, to, but=but).values()))
    return Estimate.of_mean(logs, LEVEL).map(math.exp) if np.isfinite(logs).all() else Estimate(math.inf)


def worst(results: NetworkResults, method: str, to: str = ADAMW) -> tuple[float, str]:
    """The largest ratio, and the training that has it."""
    return max((value, training) for training, value in ratios(results, method, to).items())


def median(results: NetworkResults, method: str, to: str = ADAMW) -> float:
    """The median over trainings of the ratios."""
    return float(np.median(list(ratios(results, method, to).values())))


def ahead(results: NetworkResults, method: str, to: str = ADAMW) -> int:
    """How many trainings end below those of the other method."""
    return sum(value < 1 for value in ratios(results, method, to).values())


def judged(results: NetworkResults) -> list[Sentence]:
    """The sentences of registered.md, in its order."""

    def at_most(words: str, most: float, *measured: float, where: str = "", digits: int = 2) -> Sentence:
        outcome = " and ".join(f"{value:.{digits}f}" for value in measured)
        return Sentence(words, f"{outcome}{where}", all(value <= most for value in measured))

    pairs = ((OURS, ADAMW), (OURS, MUON), (FIXED, ADAMW), *((name, BASE) for name in RELATIVES))
    means = [mean_ratio(results, *pair).value or math.inf for pair in pairs]
    largest, training = worst(results, OURS)
    steps = [(of[CONTESTANTS[OURS].optimizer], of[CONTESTANTS[MUON].optimizer]) for of in results.costs.values()]
    times = [ours.milliseconds / muon.milliseconds for ours, muon in steps]
    states = [ours.state / muon.state for ours, muon in steps]
    return [
        at_most("tuned, mean ratio to tuned AdamW ≤ 0.85", 0.85, means[0]),
        at_most("tuned, mean ratio to tuned Muon ≤ 1", 1.0, means[1]),
        at_most("tuned, worst ratio to tuned AdamW ≤ 1.05", 1.05, largest, where=f", {training}"),
        at_most("length .02, mean ratio to tuned AdamW ≤ 0.9", 0.9, means[2]),
        at_most("a step takes ≤ 1.15 times as long as Muon's", 1.15, *times),
        at_most("its state is at most as large as Muon's", 1.0, *states),
        *(
            at_most(f"{name}, mean ratio to NSGDM over the same lengths ≤ 0.97", 0.97, mean, digits=3)
            for name, mean in zip(RELATIVES, means[3:], strict=True)
        ),
    ]


def ratios_table(results: NetworkResults) -> str:
    """Table of tuned AdamW's mean loss and the ratios of the other methods, by training."""
    rows = [
        [training, f"{losses(results, training, ADAMW).mean():.3g}"]
        + [f"{ratio(results, training, name):.2f}" for name in RIVALS]
        for training in results.finished
    ]
    return markdown_table(["", ADAMW, *(SHORT.get(name, name) for name in RIVALS)], rows)


def picks_table(results: NetworkResults) -> str:
    """Table of settings that were picked, a star at rates at an end of the grid."""
    tuned = {name: each for name in (ADAMW, *RIVALS) if len((each := CONTESTANTS[name]).settings) > 1}

    def picked(training: str, contestant: Contestant) -> str:
        chosen, rates = results.picked(training, contestant), sorted({each.rate for each in contestant.settings})
        decay = f"; {chosen.decay:g}" if chosen.decay else ""
        return f"{chosen.rate:g}" + r"\*" * (chosen.rate in (rates[0], rates[-1])) + decay

    rows = [[training, *(picked(training, each) for each in tuned.values())] for training in results.finished]
    return markdown_table(["", *(SHORT.get(name, name) for name in tuned)], rows)


def relatives_table(results: NetworkResults) -> str:
    """Table of the ratios of NSGDM's relatives to NSGDM by layer, by training."""
    rows = [
        [training, *(f"{ratio(results, training, name, BASE):.2f}" for name in RELATIVES)]
        for training in results.finished
    ]
    return markdown_table(["", *RELATIVES], rows)


def costs_table(results: NetworkResults) -> str:
    """Table of the time of a step and of the state, by optimizer and model."""
    shown = ((name, CONTESTANTS[name].optimizer) for name in (ADAMW, *RIVALS) if name != FIXED)
    rows = [
        [name, *(text for of in results.costs.values() for text in _cost(of[optimizer]))] for name, optimizer in shown
    ]
    return markdown_table(["", *(text for model in results.costs for text in (f"{model}, ms", "state"))], rows)


def _cost(cost: Cost) -> tuple[str, str]:
    return f"{cost.milliseconds:.2g}", f"{cost.state:.3g}"


def render(results: NetworkResults) -> str:
    """Return the page, in Markdown."""
    values = {
        "r": results,
        "left": [training for training in results.extent.trainings if training not in results.finished],
        "judged": judged(results),
        "rivals": RIVALS,
        "relatives": RELATIVES,
        "worth": [name for name, each in zip(RELATIVES, judged(results)[-len(RELATIVES) :], strict=True) if each.holds],
        "base": BASE,
        "settings": {name: len(each.settings) for name, each in CONTESTANTS.items()},
        "tables": [table(results) for table in (ratios_table, picks_table, costs_table, relatives_table)],
        **{each.__name__: partial(each, results) for each in (mean_ratio, median, ahead, worst)},
    }
    return rendered(__file__, values)


def chart(results: NetworkResults) -> Figure:
    """Draw the ratios to tuned AdamW."""
    columns = {SHORT.get(method, method): ratios(results, method) for method in LOOKS}
    looks = {SHORT.get(method, method): look for method, look in LOOKS.items()}
    return ratio_chart(columns, looks, SHORT[OURS], "loss / tuned AdamW's (left is better)")


def ratio_chart(
    columns: Mapping[str, Mapping[str, float]], looks: Mapping[str, tuple[str, str]], order: str, label: str
) -> Figure:
    """Draw ratios by method and training, a row for each training in the order of one method, for a small screen."""
    trainings = sorted(columns[order], key=columns[order].__getitem__)
    figure = Figure(figsize=(6, 2 + 0.4 * len(trainings)), layout="constrained")
    ax = figure.subplots()
    for method, (colour, marker) in looks.items():
        values = [min(columns[method][training], FAR) for training in trainings]
        ax.plot(values, range(len(trainings)), marker, color=colour, markersize=9, label=method)
    ax.axvline(1, color="#555555", linestyle=":")
    ax.set(xscale="log", yticks=range(len(trainings)))
    ax.set_yticklabels(trainings, fontsize=14)
    ax.xaxis.set_major_locator(FixedLocator(TICKS))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
    ax.tick_params(axis="x", labelsize=14)
    ax.set_xlabel(label, fontsize=14, loc="right")
    ax.grid(color="#dddddd", linewidth=0.5)
    ax.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=14)
    return figure


def draw(folder: Path) -> None:
    """Draw the figure of the page."""
    figures.save(chart(load(folder)), folder / "figure.png")
