"""What follows from the results: intervals over seeds, ranges of learning rates, differences between methods."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from evidence.page import LEVEL, Interval, holm

from .setting import FRAMEWORKS, METHODS, NETWORKS, NOISES, Arm

Results = dict[str, Any]

CLOSE = 2.0  # points of accuracy
OURS, BASELINES = METHODS[:2], METHODS[2:]
PAIRS = (*product(OURS, BASELINES), OURS[::-1])  # this method minus that one
PLACES = tuple(product(FRAMEWORKS, NETWORKS, NOISES))  # where methods are compared


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

    interval: Interval
    survives: bool  # Holm's correction for all comparisons of the study

    def __str__(self) -> str:
        return f"**{self.interval.signed}**" if self.survives else self.interval.signed


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


def differences(results: Results) -> dict[tuple[tuple[str, ...], tuple[str, str]], Difference]:
    """For every place and every pair of methods."""
    paired = {}
    for place, pair in product(PLACES, PAIRS):
        this, that = (accuracies(found_for(results, *place, method)) for method in pair)
        paired[place, pair] = [a - b for a, b in zip(this, that, strict=True)]
    # At the level of the intervals, for all comparisons together.
    surviving = holm({key: p_value(values) for key, values in paired.items()}, 1 - LEVEL)
    return {key: Difference(Interval.over(values), key in surviving) for key, values in paired.items()}


def p_value(values: Sequence[float]) -> float:
    """Of Student's two-sided test that their mean is 0."""
    mean, error = abs(float(np.mean(values))), float(np.std(values, ddof=1)) / math.sqrt(len(values))
    if error == 0:
        return float(mean == 0)
    return float(2 * student.sf(mean / error, len(values) - 1))
