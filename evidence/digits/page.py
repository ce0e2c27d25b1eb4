"""The page of the study and its figure: intervals over seeds, ranges of learning rates, differences between methods."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evidence.page import LEVEL, MeanInterval, holm, listed, p_value, reader, rendered
from evidence.training import legend_with_ring, light_grid
from gladstorm.plotting import figures
from gladstorm.plotting.styles import BLACK, LOOKS, Look, method_of

from .setting import FRAMEWORKS, METHODS, NETWORKS, NOISES, Arm

Results = dict[str, Any]

CLOSE = 2.0  # points of accuracy
OURS, BASELINES = METHODS[:3], METHODS[3:]
TUNED = tuple(method for method in METHODS if method != "Untuned")
PAIRS = (*product(OURS, BASELINES), OURS[1::-1])  # this method minus that one
PLACES = tuple(product(FRAMEWORKS, NETWORKS, NOISES))  # where methods are compared
SETTINGS = tuple(product(NETWORKS, NOISES))  # a column each
TITLES = {"none": "no added noise", "BG": "growing noise added"}
LABELS = {"torch": "PyTorch", "jax": "JAX"}
STYLES = {method: LOOKS[method_of(method) or method] for method in TUNED} | {"Untuned": Look(BLACK, "-", "P")}
load = reader("results.json")


class Span(NamedTuple):
    """Neighbouring learning rates of a grid, around the best, whose validation accuracy is within 2 points of it."""

    low: float
    high: float
    open_below: bool  # the grid ends there
    open_above: bool

    def __str__(self) -> str:
        return f"{'≤ ' * self.open_below}{self.low:g} to {'≥ ' * self.open_above}{self.high:g}"

    @property
    def decades(self) -> float:
        """log₁₀ of high/low."""
        return math.log10(self.high / self.low)


class Difference(NamedTuple):
    """Test accuracy of one method minus that of another, seed by seed."""

    interval: MeanInterval
    survives: bool  # Holm's correction for all comparisons of the study

    def __str__(self) -> str:
        return f"**{self.interval.signed}**" if self.survives else self.interval.signed


Differences = dict[tuple[tuple[str, ...], tuple[str, str]], Difference]


def render(results: Results) -> str:
    """Write the page from the results."""
    s, paired = results["settings"], differences(results)
    picked = {(place, method): found_for(results, *place, method) for place, method in product(PLACES, METHODS)}
    counts: dict[str, set[int]] = {}
    for (place, method), arm in picked.items():
        who = f"{'NSTORM' if method == 'NSTORM' else 'the others'} in {LABELS[place[0]]}"
        counts.setdefault(who, set()).add(arm["evaluations"])
    values = {
        "s": s,
        "percent": f"{100 * LEVEL:g} %",
        "chance": 1 - LEVEL,
        "differences": paired,
        "answers": {noise: _answer(paired, noise) for noise in NOISES},
        "in_short": [_in_short(results, method) for method in METHODS],
        "tallies": [
            [f"{this} against {listed(those)}", *(_tally(paired, noise, this, those) for noise in NOISES)]
            for this, those in (*((ours, BASELINES) for ours in OURS), (OURS[1], OURS[:1]))
        ],
        "widths": lambda setting, method: " / ".join(
            _decades(span(found_for(results, framework, *setting, method))) for framework in FRAMEWORKS
        ),
        "gaps": _gaps(results),
        "table": [_row(results, *setting, method) for setting, method in product(SETTINGS, METHODS)],
        "distances": lambda method: [
            mean_distance(results, place, method) for place in PLACES if place[1:] == ("conv", "BG")
        ],
        "loss_ratios": {place: loss_ratio(results, place) for place in PLACES},
        "runs": sum(
            len(arm["grid"]) * len(s["tuning_seeds"]) + len({arm["picked"], arm["by_loss"]["picked"]}) * len(s["seeds"])
            for arm in picked.values()
        ),
        "counted": ", ".join(f"{listed(sorted(evaluations))} ({who})" for who, evaluations in counts.items()),
        "ends": [
            f"{method} ({place_in_words(place)}, {arm['picked']:g})"
            for (place, method), arm in picked.items()
            if method in TUNED and arm["picked"] in (arm["grid"][0]["lr"], arm["grid"][-1]["lr"])
        ],
    }
    return rendered(__file__, globals() | values)


def found_for(results: Results, *arm: str) -> dict[str, Any]:
    """The part of the results on one arm: framework, network, noise, method."""
    return dict(results["arms"][Arm(*arm).name])


def accuracies(arm: dict[str, Any]) -> list[float]:
    """On the test images, seed by seed."""
    return [run["test"] for run in arm["runs"]]


def span(arm: dict[str, Any]) -> Span:
    """How far the learning rate may be from the best one."""
    rates = [row["lr"] for row in arm["grid"]]
    means = np.mean([row["validation"] for row in arm["grid"]], axis=1)
    close = means >= means.max() - CLOSE
    low = high = rates.index(arm["picked"])
    while low > 0 and close[low - 1]:
        low -= 1
    while high + 1 < len(rates) and close[high + 1]:
        high += 1
    return Span(rates[low], rates[high], low == 0, high == len(rates) - 1)


def differences(results: Results) -> Differences:
    """For every place and every pair of methods."""
    paired = {}
    for place, pair in product(PLACES, PAIRS):
        this, that = (accuracies(found_for(results, *place, method)) for method in pair)
        paired[place, pair] = [a - b for a, b in zip(this, that, strict=True)]
    # At the level of the intervals, for all comparisons together.
    surviving = holm({key: p_value(values) for key, values in paired.items()}, 1 - LEVEL)
    return {key: Difference(MeanInterval.over(values), key in surviving) for key, values in paired.items()}


def _in_short(results: Results, method: str) -> list[str]:
    """A method's means over networks, frameworks and seeds, and its ranges of good learning rates."""
    accuracy, width = [], []
    for noise in NOISES:
        arms = [found_for(results, *place, method) for place in PLACES if place[-1] == noise]
        accuracy.append(str(MeanInterval.over(np.mean([accuracies(arm) for arm in arms], axis=0).tolist())))
        spans = sorted(map(span, arms), key=lambda rates: (rates.decades, rates.open_below or rates.open_above))
        widths = dict.fromkeys(_decades(rates) for rates in (spans[0], spans[-1]))
        width.append(" to ".join(widths) if method in TUNED else "not tuned")
    return [method, *accuracy, *width]


def _row(results: Results, network: str, noise: str, method: str) -> list[str]:
    row = [network, TITLES[noise], method]
    for framework in FRAMEWORKS:
        arm = found_for(results, framework, network, noise, method)
        rates = [f"{arm['picked']:g}", str(span(arm))] if method in TUNED else ["not tuned", "–"]
        row += [str(MeanInterval.over(accuracies(arm))), *rates]
    return row


def loss_ratio(results: Results, place: tuple[str, ...]) -> str:
    """The validation loss of `Untuned` over that of Adam, tuned by it: geometric mean over seeds, and interval."""
    ours, adam = (
        np.array(found_for(results, *place, method)["by_loss"]["losses"], float) for method in ("Untuned", "Adam")
    )
    mean, half_width, _ = MeanInterval.over(np.log(ours / adam).tolist())
    low, middle, high = (math.exp(mean + side * half_width) for side in (-1, 0, 1))
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def mean_distance(results: Results, place: tuple[str, ...], method: str) -> float:
    """‖x − x⁰‖ where runs end; not a number if one diverged."""
    return float(np.mean([run["distance"] or math.nan for run in found_for(results, *place, method)["runs"]]))


def _answer(paired: Differences, noise: str) -> dict[str, Any]:
    """How often our methods end above and below the others."""
    words = []
    for ours in OURS:
        compared = product((place for place in PLACES if place[-1] == noise), BASELINES)
        signs = [paired[place, (ours, that)].interval.sign for place, that in compared]
        words.append(f"{ours} was better in {signs.count(1)} and worse in {signs.count(-1)}")
    return {"count": len(signs), "words": listed(words)}


def _tally(paired: Differences, noise: str, this: str, those: Sequence[str]) -> str:
    """How many differences are above and below 0, and after the correction."""
    compared = [paired[place, (this, that)] for place, that in product(PLACES, those) if place[-1] == noise]
    sides = []
    for word, sign in (("above", 1), ("below", -1)):
        here = [difference for difference in compared if difference.interval.sign == sign]
        sides.append(f"{word} in {len(here)} ({sum(difference.survives for difference in here)})")
    return f"{', '.join(sides)}, of {len(compared)}"


def _decades(rates: Span) -> str:
    return f"{'≥ ' * (rates.open_below or rates.open_above)}{rates.decades:.1f}"


def _gaps(results: Results) -> list[bool]:
    """Differences between the means of both frameworks, where both picked one learning rate."""
    gaps = []
    for setting in product(NETWORKS, NOISES, TUNED):
        arms = [found_for(results, framework, *setting) for framework in FRAMEWORKS]
        if arms[0]["picked"] == arms[1]["picked"]:
            a, b = (MeanInterval.over(accuracies(arm)) for arm in arms)
            gaps.append(bool(abs(a.mean - b.mean) > np.hypot(a.half_width, b.half_width)))
    return gaps


def place_in_words(place: tuple[str, ...]) -> str:
    """A place as a reader would say it."""
    framework, network, noise = place
    return f"{LABELS[framework]}, {network}, {TITLES[noise]}"


def draw(folder: Path) -> None:
    """Draw the figure of the page."""
    figures.save(chart(load(folder)), folder / "figure.png")


def chart(results: Results) -> Figure:
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
    legend_with_ring(figure, of_rates[0][0], "picked", fontsize=10)
    return figure


def _rates(ax: Axes, arms: dict[str, dict[str, Any]]) -> None:
    for method, arm in arms.items():
        colour, dash, marker = STYLES[method]
        rates = [row["lr"] for row in arm["grid"]]
        means = [np.mean(row["validation"]) for row in arm["grid"]]
        if method not in TUNED:
            ax.axhline(means[0], color=colour, linestyle=dash, linewidth=1, label=method)
            continue
        ax.plot(rates, means, color=colour, linestyle=dash, marker=marker, markersize=4.5, linewidth=1.4, label=method)
        at = rates.index(arm["picked"])
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
            mean, half_width, _ = MeanInterval.over(seen)
            fill = colour if framework == "torch" else "white"
            ax.plot([place + shift] * len(seen), seen, "_", color=colour, alpha=0.55, markersize=7)
            ax.errorbar(place + shift, mean, half_width, color=colour, capsize=3, linewidth=1.4)
            ax.plot(place + shift, mean, marker=marker, markersize=6.5, color=colour, markerfacecolor=fill)
    ax.set_xticks(range(len(METHODS)), [method.replace(" + ", " +\n") for method in METHODS], rotation=20)
    ax.set_xlabel("filled: PyTorch, open: JAX; dashes: seeds", fontsize=8)
    _finish(ax)


def _finish(ax: Axes) -> None:
    ax.tick_params(labelsize=8)
    light_grid(ax)
