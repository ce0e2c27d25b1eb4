"""What follows from the results: intervals over seeds, ranges of learning rates, differences between methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from gladstorm.core.statistics import holm, mean_of

from .setting import FRAMEWORKS, METHODS, NETWORKS, NOISES, Arm

Results = dict[str, Any]

CLOSE = 2.0  # points of accuracy
LEVEL = 0.95  # of every interval, and of Holm's correction over all comparisons together
OURS, BASELINES = METHODS[:2], METHODS[2:]
PAIRS = (*product(OURS, BASELINES), OURS[::-1])  # this method minus that one
PLACES = tuple(product(FRAMEWORKS, NETWORKS, NOISES))  # where methods are compared


class Interval(NamedTuple):
    """A mean over seeds and half the width of its interval, Student's."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.half_width:.1f}"

    @property
    def sign(self) -> int:
        """Which side of 0 all of it lies on; 0 if 0 lies inside."""
        return int(math.copysign(1, self.mean)) if abs(self.mean) > self.half_width else 0


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
        shown = f"{self.interval.mean:+.1f} ± {self.interval.half_width:.1f}".replace("-", "−")
        return f"**{shown}**" if self.survives else shown


def found_for(results: Results, *arm: str) -> dict[str, Any]:
    """The part of the results on one arm: framework, network, noise, method."""
    return dict(results["arms"][Arm(*arm).name])


def accuracies(found: dict[str, Any]) -> list[float]:
    """On the test images, seed by seed."""
    return [run["test"] for run in found["runs"]]


def interval(values: Sequence[float]) -> Interval:
    """Of their mean."""
    mean = mean_of(np.array(values))
    return Interval(mean.value, mean.interval(LEVEL)[1] - mean.value)


def span(found: dict[str, Any]) -> Span:
    """How far the learning rate may be from the best one."""
    rates = [row["lr"] for row in found["grid"]]
    means = np.mean([row["validation"] for row in found["grid"]], axis=1)
    close = means >= means.max() - CLOSE
    low = high = rates.index(found["picked"])
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
    surviving = holm({key: p_value(values) for key, values in paired.items()}, 1 - LEVEL)
    return {key: Difference(interval(values), key in surviving) for key, values in paired.items()}


def p_value(values: Sequence[float]) -> float:
    """Of Student's two-sided test that their mean is 0."""
    mean, error = abs(float(np.mean(values))), _standard_error(values)
    if error == 0:
        return float(mean == 0)
    return float(2 * student.sf(mean / error, len(values) - 1))


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))
