"""Readings as they happen: what a training's noise is now, each interval of which holds at every look.

All intervals of a run hold together, with 95 % confidence: M a martingale and Q its variation, at all looks

    Mᵀ(Q + R)⁻¹M ≤ 2 log(1/α) + log det(Q + R)/det R,

by a normal mixture (Peña et al. 2004). A look costs constant time and memory.
"""

import math
from typing import Any

import numpy as np

from gladstorm.diagnosis.clipping import cut_off, inner_product
from gladstorm.diagnosis.resampling import LEVEL, Interval

READINGS = (
    "noise/variance",
    "noise/gradient2",
    "noise/critical_batch",
    "noise/critical_batch_low",
    "noise/critical_batch_high",
    "noise/distance",
    "noise/growth",
    "noise/growth_low",
    "noise/growth_high",
    "noise/signal",
    "clip/share",
    "clip/bias",
    "skipped",
)
AXIS = "noise/distance"
GROWTH = ("noise/growth", "noise/growth_low", "noise/growth_high")
MEMORY = 16  # looks that the averages behind the bias of clipping remember
BURN_IN = 16  # looks before the first interval of B: it relies on a law of large numbers
SPREAD = 0.05  # how much squared distances must differ before: their share of variance, between 0 and 1
FLOOR = 0.1  # of the mean noise: a fit counts as no less in a weight
STRIDE = 8  # looks from the opening of a window to the next; so many also make the first scale
EXPECTING = 4  # looks that lead to expect the next


class Readings:
    """Turns probes into dicts of floats with the names of `READINGS`; what is not known yet is not a number.

    With `max_norm`, the threshold of the training's clipping, it has the bias of that too.

    >>> from gladstorm.diagnosis import Probe
    >>> readings, nothing = Readings(), (math.nan, math.nan, math.nan)
    >>> for i in range(2):
    ...     now = readings.update(Probe(i, i, "start", 0.0, 2, 2, 8.0, 2.0, *nothing))
    >>> now["noise/critical_batch"], now["noise/signal"]
    (4.0, 0.5)
    """

    def __init__(self, max_norm: float | None = None) -> None:
        self.growth, self.critical, self._max_norm = GrowthSequence(), CriticalSequence(), max_norm
        self._moved = self._inner = 0.0  # of what clipping takes away, and of ⟨A, B⟩

    @np.errstate(all="ignore")
    def update(self, probe: Any, batch: int | None = None, **others: float) -> dict[str, float]:
        """Take a probe and return what is known now.

        Args:
            probe: A `Probe`, or what `gladstorm.optax.read_noise` returns.
            batch: Samples in a mini-batch of the training; those of the probe if not given.
            others: Readings that are known elsewhere, such as clip/share.
        """
        distance, noise, gradient2 = map(np.float64, (probe.distance, probe.noise, probe.gradient2))
        self.growth.update(distance, noise)
        critical = self.critical.update(noise, gradient2)
        B = self.growth.interval()
        if self._max_norm is not None and math.isfinite(probe.first):
            mean2 = gradient2 + noise / (int(probe.groups) * int(probe.samples))
            others["clip/bias"] = self._bias(mean2, np.float64(probe.first), np.float64(probe.second), self._max_norm)
        now = {
            "noise/variance": noise,
            "noise/gradient2": gradient2,
            "noise/critical_batch": critical.value,
            "noise/critical_batch_low": critical.low,
            "noise/critical_batch_high": critical.high,
            "noise/distance": distance,
            "noise/growth": B.value,
            "noise/growth_low": B.low,
            "noise/growth_high": B.high,
            "noise/signal": 1 / (1 + critical.value / (batch or int(probe.groups) * int(probe.samples))),
        }
        return {**dict.fromkeys(READINGS, math.nan), **{name: float(n) for name, n in now.items()}, **others}

    def _bias(self, mean2: float, first: float, second: float, max_norm: float) -> float:
        """‖E clip(g) − ∇f‖/‖∇f‖ over about 16 looks, as in `clipping`."""
        inner = inner_product(mean2, first, second)
        taken = cut_off(first, max_norm) * cut_off(second, max_norm) * inner
        self._inner += (inner - self._inner) / MEMORY
        self._moved += (taken - self._moved) / MEMORY
        return float(np.sqrt(np.maximum(self._moved, 0.0) / self._inner)) if self._inner > 0 else math.nan


def arrange_charts(tracker: Any, prefix: str = "") -> None:
    """Arrange the charts of a tracker that can: in W&B, the noise against the distance; in TensorBoard, B in its band.

    Args:
        tracker: A run of W&B, a SummaryWriter of TensorBoard, or anything else, which is left alone. TensorBoard has no
            x-axes but steps and time.
        prefix: What comes before the names of readings in its logs.
    """
    if hasattr(tracker, "define_metric"):
        tracker.define_metric(prefix + AXIS)
        for name in READINGS:
            if name.startswith("noise/") and name != AXIS:
                tracker.define_metric(prefix + name, step_metric=prefix + AXIS)
    if hasattr(tracker, "add_custom_scalars"):
        band = [prefix + name for name in GROWTH]
        tracker.add_custom_scalars({"noise": {"growth B, with its interval": ["Margin", band]}})


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
    def interval(self) -> Interval:
        """B with its interval now; not a number, from 0 to infinity, before there is one."""
        if self._R is None:
            return Interval(math.nan, 0.0, math.inf)
        inverse, dispersion = _inverse(self._S), self._relative / (self.looks - 1)
        reach2 = []
        for Q in (self._Q, dispersion * self._S):
            level = 2 * math.log(1 / (1 - LEVEL)) + np.log(_det(Q + self._R) / _det(self._R))
            reach2.append(level * inverse[1] @ (Q + self._R) @ inverse[1])
        B2, reach = inverse[1] @ self._Sy, np.sqrt(max(reach2))
        return Interval(*np.sqrt(np.maximum([B2, B2 - reach, B2 + reach], 0.0)).tolist())


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
    def update(self, noise: float, gradient2: float) -> Interval:
        """Take the next V and ‖g‖², and return the ratio now: infinite where ‖∇f‖² seems to be 0."""
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

    def _longest(self) -> Interval:
        """The ratio over the window that is shown; older ones are forgotten, and others thinned out."""
        shown, low, high = Interval(math.nan, 0.0, math.inf), 0.0, math.inf
        for place, window in reversed(list(enumerate(self._windows))):
            ratio = window.ratio()
            if not low <= ratio.value <= high or window.looks > max(2 * STRIDE, self.looks / 2):
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

    def ratio(self) -> Interval:
        """Interval of the ratios θ that the inequality allows."""
        V, g2 = np.maximum(self._sums, [-math.inf, 0.0])
        estimate = float(V / g2) if g2 > 0 else math.inf
        if self._R is None or not _det(self._Q + self._R) >= _det(self._R) > 0:  # or beyond what floats hold
            return Interval(estimate, 0.0, math.inf)
        both = self._Q + self._R
        level = self._level + np.log(_det(both) / _det(self._R))
        # a θ² − 2 b θ + c ≤ 0, where c > 0 unless V cannot be told from 0
        a, b, c = g2 * g2 - level * both[1, 1], V * g2 - level * both[0, 1], V * V - level * both[0, 0]
        middle = b + np.sqrt(np.maximum(b * b - a * c, 0.0))
        if not middle > 0:
            return Interval(estimate, 0.0, math.inf)
        return Interval(estimate, max(float(c / middle), 0.0), float(middle / a) if a > 0 else math.inf)


def _det(matrix: np.ndarray) -> float:
    """The determinant of a symmetric 2 × 2 matrix; infinite or not a number where floats do not hold it."""
    return float(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] ** 2)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    (a, b), (_, c) = matrix
    return np.asarray(np.array([[c, -b], [-b, a]]) / np.float64(_det(matrix)))
