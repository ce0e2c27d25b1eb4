"""A finding about one quantity: an estimate with its interval, or what it would take to have one."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from gladstorm.core.statistics import finite
from gladstorm.diagnosis.resampling import Interval

ESTIMATED, UNKNOWN, NO_GROWTH = "estimated", "not identifiable", "no growth"
WIDEST = 3.0  # an interval's upper end over its lower one, in an estimate


@dataclass(frozen=True)
class Finding:
    """The estimate of one quantity with its 95 % interval, and a verdict. A number that does not exist is None."""

    estimate: float | None  #: the estimate, if there is one
    low: float | None  #: the lower end of its 95 % interval
    high: float | None  #: the upper end
    verdict: str  #: estimated, not identifiable, or no growth
    needs: str | None = None  #: what would make it identifiable

    @property
    def is_estimated(self) -> bool:
        """Whether the verdict is that the quantity was estimated."""
        return self.verdict == ESTIMATED

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return asdict(self)


def with_verdict(interval: Interval | None, verdict: str, needs: str | None = None) -> Finding:
    """A finding with this interval, if there is one."""
    if interval is None:
        return Finding(None, None, None, verdict, needs)
    return Finding(finite(interval.estimate), finite(interval.low), finite(interval.high), verdict, needs)


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
    wanted = interval.estimate * (WIDEST - 1) / (WIDEST + 1) * 2  # the width of one from θ/2 to 3θ/2
    if not 0 < interval.estimate < float("inf") or not interval.high - interval.low < float("inf"):
        return f"{words}; needs more"
    return f"{words}; needs about {round_up(probes * max((interval.high - interval.low) / wanted, 1.1) ** 2)}"


def round_up(number: float) -> int:
    """A number of probes, rounded up to two digits: what such a guess is worth.

    >>> round_up(173.2), round_up(9.5)
    (180, 10)
    """
    unit: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
