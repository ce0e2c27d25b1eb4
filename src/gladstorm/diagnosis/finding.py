"""A finding about one quantity: an estimate with its interval, or what it would take to have one."""

import math
from dataclasses import dataclass
from typing import Any

from gladstorm.core.estimate import Estimate
from gladstorm.core.statistics import finite
from gladstorm.diagnosis.resampling import Interval

ESTIMATED, UNKNOWN, NO_GROWTH = "estimated", "not identifiable", "no growth"
WIDEST = 3.0  # an interval's upper end over its lower one, in an estimate


@dataclass(frozen=True)
class Finding(Estimate):
    """The estimate of one quantity with its 95 % interval, and a verdict. A number that does not exist is None."""

    verdict: str = UNKNOWN  #: estimated, not identifiable, or no growth
    needs: str | None = None  #: what would make it identifiable

    @property
    def estimate(self) -> float | None:
        """The value, under the name that it has in JSON and in the table."""
        return self.value

    @property
    def is_estimated(self) -> bool:
        """Whether the verdict is that the quantity was estimated."""
        return self.verdict == ESTIMATED

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        numbers = {"estimate": self.value, "low": self.low, "high": self.high}
        return {**numbers, "verdict": self.verdict, "needs": self.needs}


def with_verdict(interval: Interval | None, verdict: str, needs: str | None = None) -> Finding:
    """A finding with this interval, if there is one."""
    if interval is None:
        return Finding(None, None, None, verdict, needs)
    return Finding(finite(interval.value), finite(interval.low), finite(interval.high), verdict, needs)


def estimated(interval: Interval) -> Finding:
    """A quantity that was estimated."""
    return with_verdict(interval, ESTIMATED)


def unknown(needs: str, interval: Interval | None = None) -> Finding:
    """A quantity that these probes do not identify; what is known of it is still shown."""
    return with_verdict(interval, UNKNOWN, needs)


def if_narrow(interval: Interval, probes: int) -> Finding:
    """A positive quantity: estimated if its interval is narrower than a factor 3.

    >>> if_narrow(Interval(1.0, 0.1, 2.0), probes=48).needs
    '48 probes have left an interval wider than a factor 3; needs about 180'
    """
    if interval.low > 0 and interval.high <= WIDEST * interval.low:
        return estimated(interval)
    return unknown(wider_than_wanted(interval, probes), interval)


def wider_than_wanted(interval: Interval, probes: int) -> str:
    """How many probes would make an interval narrower than a factor 3: its width falls as 1/√probes."""
    words = f"{probes} probes have left an interval wider than a factor 3"
    wanted = interval.value * (WIDEST - 1) / (WIDEST + 1) * 2  # the width of one from θ/2 to 3θ/2
    if not 0 < interval.value < float("inf") or not interval.high - interval.low < float("inf"):
        return f"{words}; needs more"
    return f"{words}; needs about {round_up(probes * max((interval.high - interval.low) / wanted, 1.1) ** 2)}"


def round_up(number: float) -> int:
    """A number of probes, rounded up to two digits: what such a guess is worth.

    >>> round_up(173.2), round_up(9.5)
    (180, 10)
    """
    unit: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
