"""`Estimate`: a number with its confidence interval, in the one form that all packages share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from gladstorm.core.statistics import mean_of


@dataclass(frozen=True)
class Estimate:
    """A number and the ends of its confidence interval; None where a number or an interval does not exist."""

    value: float | None
    low: float | None = None
    high: float | None = None
    level: float = field(default=0.95, kw_only=True)

    @classmethod
    def of_mean(cls, values: np.ndarray, level: float = 0.95) -> Estimate:
        """Estimate the mean over seeds, with Student's interval.

        One seed has a mean and no interval. Where a seed's value is not finite there is no mean.

        >>> Estimate.of_mean(np.array([1.0, 3.0])).text()
        '2 [-10.7, 14.7]'
        """
        values = np.asarray(values, float)
        if not np.all(np.isfinite(values)):
            return cls(None, level=level)
        if values.size == 1:
            return cls(float(values[0]), level=level)
        mean = mean_of(values)
        return cls(mean.value, *mean.interval(level), level=level)

    def map(self, function: Callable[[float], float]) -> Self:
        """Apply an increasing function, such as a root or an exponential, to the value and both ends."""

        def of(end: float | None) -> float | None:
            return None if end is None else function(end)

        return replace(self, value=of(self.value), low=of(self.low), high=of(self.high))

    @property
    def sign(self) -> int:
        """1 or −1 if the whole interval lies above or below 0, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def text(self, form: str = "{value:.4g} [{low:.3g}, {high:.3g}]") -> str:
        """The value and its interval as text; the value alone, the form's first word, where there is no interval.

        >>> Estimate(2.0, 1.0, 4.0).text("{value:.1f} ({low:.1f} to {high:.1f})"), Estimate(2.0).text()
        ('2.0 (1.0 to 4.0)', '2')
        """
        if self.value is None or not math.isfinite(self.value):
            return "not finite"
        if self.low is None or self.high is None:
            form = form.partition(" ")[0]
        return form.format(value=self.value, low=self.low, high=self.high)

    def plus_minus(self, places: int = 1, sign: str = "") -> str:
        """The value and half the width of its interval: `1.2 ± 0.5`.

        >>> Estimate(-1.2, -1.7, -0.7).plus_minus(), Estimate(1.2, 0.7, 1.7).plus_minus(sign="+")
        ('−1.2 ± 0.5', '+1.2 ± 0.5')
        """
        if self.value is None or not math.isfinite(self.value):
            return "diverged"
        half = 0.0 if self.low is None or self.high is None else (self.high - self.low) / 2
        return f"{self.value:{sign}.{places}f} ± {half:.{places}f}".replace("-", "−")
