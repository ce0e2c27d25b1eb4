"""The critical batch size while a training runs, with an interval that holds at every look and a window that adapts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gladstorm.diagnosis.sums import Sum2, outer

LEVEL = 0.95
STRIDE = 8  # looks from the opening of a window to the next; so many also make the first scale
EXPECTING = 4  # looks that lead to expect the next


class Ratio(NamedTuple):
    """An estimate of tr Σ/‖∇f‖² with its interval; infinite where ‖∇f‖² seems to be 0, not a number before any."""

    estimate: float = math.nan
    low: float = 0.0
    high: float = math.inf


class CriticalSequence:
    """tr Σ/‖∇f‖² over the latest looks, with an interval at each; all of them hold together, with 95 % confidence.

    Every eighth look opens a window. In each, M = Σ w (V − E V, g² − E g²) is a martingale and Q its variation, w one
    over the V that the looks before lead to expect; so that for all θ and all looks together

        (Σ w V − θ Σ w g²)² ≤ (1, −θ)(Q + R)(1, −θ)ᵀ (2 log(1/α_i) + log det(Q + R)/det R)

    by a normal mixture, with α_i = 5 %/(i (i + 1)) for the i-th window, whose sum is 5 %; R is about the Q of eight
    looks. The θ ≥ 0 that obey it are an interval (Fieller), without an upper end where ‖∇f‖² cannot be told from 0. The
    window shown is the longest of at most half the run whose estimate lies in the intervals of all shorter ones, as in
    Lepski's method: it grows with the run while the ratio stays, and begins anew where that changes. Windows are
    thinned out, so that there are about log₂ as many as looks.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._opened = 0
        self._noise = self._gradient2 = 0.0  # what the next look is expected to be
        self._windows: list[_Window] = []  # oldest first

    @np.errstate(all="ignore")
    def update(self, noise: float, gradient2: float) -> Ratio:
        """Take the next V and ‖g‖², and return what is known now."""
        noise, gradient2 = np.float64(noise), np.float64(gradient2)  # a float's quotient raises where it divides by 0
        if self._noise > 0:
            if self.looks % STRIDE == 1:
                self._opened += 1
                self._windows.append(_Window(self._opened, self._windows[0].scale() if self._windows else None))
            expected = self._gradient2 / self._noise
            for window in self._windows:
                window.add(noise / self._noise, gradient2 / self._noise, expected)
        self.looks += 1
        weight = 1 / min(self.looks, EXPECTING)
        self._noise += weight * (noise - self._noise)
        self._gradient2 += weight * (gradient2 - self._gradient2)
        return self._longest()

    def _longest(self) -> Ratio:
        """The ratio over the window that is shown; older ones are forgotten, and others thinned out."""
        shown, low, high = Ratio(), 0.0, math.inf
        for place, window in reversed(list(enumerate(self._windows))):
            ratio = window.ratio()
            if not low <= ratio.estimate <= high or window.looks > max(2 * STRIDE, self.looks / 2):
                del self._windows[: place + 1]
                break
            shown, low, high = ratio, max(low, ratio.low), min(high, ratio.high)
        for place in range(len(self._windows) - 2, 0, -1):
            if self._windows[place - 1].looks <= 2 * self._windows[place + 1].looks:
                del self._windows[place]
        return shown


class _Window:
    def __init__(self, number: int, R: Sum2 | None) -> None:
        self.looks = 0
        self._level = 2 * math.log(number * (number + 1) / (1 - LEVEL))
        self._noise = self._gradient2 = 0.0  # Σ w V and Σ w g²
        self._Q, self._R = Sum2(), R

    def add(self, noise: float, gradient2: float, expected: float) -> None:
        """Take a look in units of the noise that was expected, 1, beside this gradient."""
        self.looks += 1
        self._noise += noise
        self._gradient2 += gradient2
        self._Q = self._Q.plus(outer(noise - 1, gradient2 - expected))
        if self._R is None and self.looks >= STRIDE and self._Q.det > 0:
            self._R = self._Q

    def scale(self) -> Sum2 | None:
        """The Q of eight looks, for a window that opens now."""
        scaled = self._Q.times(STRIDE / max(self.looks, 1))
        return scaled if scaled.det > 0 else None

    def ratio(self) -> Ratio:
        """Ratios θ that the inequality allows."""
        V, g2 = self._noise, max(self._gradient2, 0.0)
        estimate = V / g2 if g2 > 0 else math.inf
        if self._R is None or not self._R.det > 0:
            return Ratio(estimate)
        both = self._Q.plus(self._R)
        if not both.det >= self._R.det:  # beyond what floats hold
            return Ratio(estimate)
        level = self._level + np.log(both.det / self._R.det)
        # a θ² − 2 b θ + c ≤ 0, where c > 0 unless V cannot be told from 0
        a, b, c = g2 * g2 - level * both.c, V * g2 - level * both.b, V * V - level * both.a
        middle = b + np.sqrt(np.maximum(b * b - a * c, 0.0))
        if not middle > 0:
            return Ratio(estimate)
        return Ratio(estimate, max(c / middle, 0.0), middle / a if a > 0 else math.inf)
