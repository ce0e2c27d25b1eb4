"""Growth and critical batch size while a training runs, each with an interval that holds at every look.

All intervals of a run hold together, with 95 % confidence: M a martingale and Q its variation, at all looks

    Mᵀ(Q + R)⁻¹M ≤ 2 log(1/α) + log det(Q + R)/det R,

by a normal mixture (Peña et al. 2004). A look costs constant time and memory.
"""

import math
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
BURN_IN = 16  # looks before the first interval of B: it relies on a law of large numbers
SPREAD = 0.05  # how much squared distances must differ before: their share of variance, between 0 and 1
FLOOR = 0.1  # of the mean noise: a fit counts as no less in a weight
STRIDE = 8  # looks from the opening of a window to the next; so many also make the first scale
EXPECTING = 4  # looks that lead to expect the next


class GrowthSequence:
    """B of E V = G² + B² r² with a confidence sequence.

    θ = (G², B²) is fitted by least squares with weights w = 1/V̂², V̂ the fit before. M = Σ w (1, r²) ε, Q = Σ w² (1, r²)
    (1, r²)ᵀ ε², and R is the Q of the first 16 looks. Of this Q and of one with errors in proportion to V̂ the one with
    the wider interval counts, since few looks far out may all be small by chance.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._mean = 0.0  # of V
        self._S, self._Q, self._Sy = np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2)  # S = Σ w (1, r²)(1, r²)ᵀ
        self._R: np.ndarray | None = None
        self._relative = 0.0  # Σ (ε/V̂)²

    @np.errstate(all="ignore")
    def update(self, distance: float, noise: float) -> None:
        """Take the next V, at distance r."""
        row, fitted, w = np.array([1.0, np.float64(distance) ** 2]), self._mean, 1.0
        if self._R is not None:
            fitted = max(row @ _inverse(self._S) @ self._Sy, FLOOR * self._mean)
            w = 1 / np.float64(fitted) ** 2
        if self.looks:
            self._S = self._S + w * np.outer(row, row)
            self._Q = self._Q + (w * (noise - fitted)) ** 2 * np.outer(row, row)
            self._Sy = self._Sy + w * noise * row
            self._relative += (noise / fitted - 1) ** 2 if fitted else 0.0
        self.looks += 1
        self._mean += (noise - self._mean) / self.looks
        spread = _det(self._Q) > 0 and _det(self._S) > SPREAD * self._S[0, 0] * self._S[1, 1]
        if self._R is None and self.looks >= BURN_IN and spread:
            w = 1 / self._mean**2  # the weight that the looks so far would have had
            self._S, self._Sy, self._Q = w * self._S, w * self._Sy, w**2 * self._Q
            self._R = self._Q

    @np.errstate(all="ignore")
    def interval(self) -> tuple[float, float, float]:
        """B and the ends of its interval now; not a number, 0 and infinite before there is one."""
        if self._R is None:
            return math.nan, 0.0, math.inf
        inverse, dispersion = _inverse(self._S), self._relative / (self.looks - 1)
        reach2 = []
        for Q in (self._Q, dispersion * self._S):
            level = 2 * math.log(1 / (1 - LEVEL)) + np.log(_det(Q + self._R) / _det(self._R))
            reach2.append(level * inverse[1] @ (Q + self._R) @ inverse[1])
        B2, reach = inverse[1] @ self._Sy, np.sqrt(max(reach2))
        B, low, high = np.sqrt(np.maximum([B2, B2 - reach, B2 + reach], 0.0)).tolist()
        return B, low, high


class Ratio(NamedTuple):
    """An estimate of tr Σ/‖∇f‖² with its interval; infinite where ‖∇f‖² seems to be 0, not a number before any."""

    estimate: float = math.nan
    low: float = 0.0
    high: float = math.inf


class CriticalSequence:
    """tr Σ/‖∇f‖² over the latest looks, with an interval at each.

    Every eighth look opens a window. In each, M = Σ w (V − E V, g² − E g²), w one over the V that the looks before lead
    to expect; so that for all θ and all looks together

        (Σ w V − θ Σ w g²)² ≤ (1, −θ)(Q + R)(1, −θ)ᵀ (2 log(1/α_i) + log det(Q + R)/det R),

    with α_i = 5 %/(i (i + 1)) for the i-th window, whose sum is 5 %; R is about the Q of eight looks. The θ ≥ 0 that
    obey it are an interval (Fieller), without an upper end where ‖∇f‖² cannot be told from 0. The window shown is the
    longest of at most half the run whose estimate lies in the intervals of all shorter ones, as in Lepski's method: it
    grows with the run while the ratio stays, and begins anew where that changes. Windows are thinned out, so that there
    are about log₂ as many as looks.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._opened = 0
        self._expected = np.zeros(2)  # V and g² of the next look
        self._windows: list[_Window] = []  # oldest first

    @np.errstate(all="ignore")
    def update(self, noise: float, gradient2: float) -> Ratio:
        """Take the next V and ‖g‖², and return what is known now."""
        look, unit = np.array([noise, gradient2]), self._expected[0]
        if unit > 0:
            if self.looks % STRIDE == 1:
                self._opened += 1
                self._windows.append(_Window(self._opened, self._windows[0].scale() if self._windows else None))
            for window in self._windows:
                window.add(look / unit, self._expected / unit)
        self.looks += 1
        self._expected = self._expected + (look - self._expected) / min(self.looks, EXPECTING)
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
    def __init__(self, number: int, R: np.ndarray | None) -> None:
        self.looks = 0
        self._level = 2 * math.log(number * (number + 1) / (1 - LEVEL))
        self._sums, self._Q, self._R = np.zeros(2), np.zeros((2, 2)), R  # Σ w (V, g²)

    def add(self, look: np.ndarray, expected: np.ndarray) -> None:
        """Take a look beside what was expected, both in units of the noise that was."""
        self.looks += 1
        self._sums = self._sums + look
        self._Q = self._Q + np.outer(look - expected, look - expected)
        if self._R is None and self.looks >= STRIDE and _det(self._Q) > 0:
            self._R = self._Q

    def scale(self) -> np.ndarray | None:
        """The Q of eight looks, for a window that opens now."""
        scaled = self._Q * (STRIDE / max(self.looks, 1))
        return scaled if _det(scaled) > 0 else None

    def ratio(self) -> Ratio:
        """Ratios θ that the inequality allows."""
        V, g2 = np.maximum(self._sums, [-math.inf, 0.0])
        estimate = float(V / g2) if g2 > 0 else math.inf
        if self._R is None or not _det(self._Q + self._R) >= _det(self._R) > 0:  # or beyond what floats hold
            return Ratio(estimate)
        both = self._Q + self._R
        level = self._level + np.log(_det(both) / _det(self._R))
        # a θ² − 2 b θ + c ≤ 0, where c > 0 unless V cannot be told from 0
        a, b, c = g2 * g2 - level * both[1, 1], V * g2 - level * both[0, 1], V * V - level * both[0, 0]
        middle = b + np.sqrt(np.maximum(b * b - a * c, 0.0))
        if not middle > 0:
            return Ratio(estimate)
        return Ratio(estimate, max(float(c / middle), 0.0), float(middle / a) if a > 0 else math.inf)


def _det(matrix: np.ndarray) -> float:
    """The determinant of a symmetric 2 × 2 matrix; infinite or not a number where floats do not hold it."""
    return float(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] ** 2)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    (a, b), (_, c) = matrix
    return np.asarray(np.array([[c, -b], [-b, a]]) / np.float64(_det(matrix)))
