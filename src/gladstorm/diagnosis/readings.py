"""Readings as they happen: what a training's noise is now, updated by every probe in constant time and memory."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from gladstorm.diagnosis.clipping import cut_off, inner_product
from gladstorm.diagnosis.critical_sequence import LEVEL, CriticalSequence
from gladstorm.diagnosis.sums import Sum2, outer

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
    "step/length",
    "step/cosine",
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


class GrowthSequence:
    """B of E V = G² + B² r² with a confidence sequence: all its intervals hold at the same time, with 95 % confidence.

    θ = (G², B²) is fitted by least squares with weights 1/V̂², V̂ the fit before. M = Σ w (1, r²) ε is a martingale and
    Q = Σ w² (1, r²)(1, r²)ᵀ ε² its variation, so that at all looks together

        Mᵀ(Q + R)⁻¹M ≤ 2 log(1/α) + log det(Q + R)/det R,

    by a normal mixture (Peña et al. 2004), R the Q of the first 16 looks. Of this Q and of one with
    errors in proportion to V̂ the one with the wider interval counts, since few looks far out may all be small by
    chance. The level is that of many looks.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._mean = 0.0  # of V
        self._S = self._Q = Sum2()
        self._Sy = (0.0, 0.0)  # Σ w (1, r²) V
        self._R: Sum2 | None = None
        self._relative = 0.0  # Σ (ε/V̂)²

    @np.errstate(all="ignore")
    def update(self, distance: float, noise: float) -> None:
        """Take the next V, at distance r."""
        distance, noise = np.float64(distance), np.float64(noise)  # a float's square raises where it overflows
        x, fitted, w = distance**2, self._mean, 1.0
        if self._R is not None:
            G2, B2 = self._theta()
            fitted = max(G2 + B2 * x, FLOOR * self._mean)
            w = 1 / fitted**2
        if self.looks:
            row, error, relative = outer(1.0, x), w * (noise - fitted), noise / fitted - 1 if fitted else 0.0
            self._S = self._S.plus(row.times(w))
            self._relative += relative**2
            self._Q = self._Q.plus(row.times(error**2))
            self._Sy = (self._Sy[0] + w * noise, self._Sy[1] + w * noise * x)
        self.looks += 1
        self._mean += (noise - self._mean) / self.looks
        spread = self._Q.det > 0 and self._S.det > SPREAD * self._S.a * self._S.c
        if self._R is None and self.looks >= BURN_IN and spread:
            w = 1 / self._mean**2  # the weight that the looks so far would have had
            self._S, self._Q = self._S.times(w), self._Q.times(w**2)
            self._Sy = (w * self._Sy[0], w * self._Sy[1])
            self._R = self._Q

    @np.errstate(all="ignore")
    def interval(self) -> tuple[float, float, float]:
        """B and the ends of its interval now; not a number, 0 and infinite before there is one."""
        if self._R is None:
            return math.nan, 0.0, math.inf
        start, dispersion = self._R, self._relative / (self.looks - 1)
        reach2 = max(self._reach2(self._Q, start), self._reach2(self._S.times(dispersion), start))
        B2, reach = self._theta()[1], np.sqrt(reach2)
        B, low, high = np.sqrt(np.maximum([B2, B2 - reach, B2 + reach], 0.0)).tolist()
        return B, low, high

    def _reach2(self, Q: Sum2, R: Sum2) -> float:
        """The squared half-width for B²: (2 log(1/α) + log det(Q + R)/det R) (S⁻¹(Q + R)S⁻¹)₂₂."""
        a, b, _ = (each / self._S.det for each in self._S)
        both = Q.plus(R)
        variance = b * b * both.a - 2 * a * b * both.b + a * a * both.c
        return float((2 * math.log(1 / (1 - LEVEL)) + np.log(both.det / R.det)) * variance)

    def _theta(self) -> tuple[float, float]:
        (a, b, c), (y0, y1) = self._S, self._Sy
        return (c * y0 - b * y1) / self._S.det, (a * y1 - b * y0) / self._S.det


class Measured(Protocol):
    """A `Probe`, or a `gladstorm.optax.Reading`."""

    @property
    def distance(self) -> Any:
        """r = ‖x − x⁰‖."""

    @property
    def noise(self) -> Any:
        """V, the variance of one sample's gradient."""

    @property
    def gradient2(self) -> Any:
        """An estimate of ‖∇f(x)‖²."""

    @property
    def groups(self) -> Any:
        """The groups of the mini-batch."""

    @property
    def samples(self) -> Any:
        """The samples in a group."""

    @property
    def first(self) -> Any:
        """‖g‖ of the first half of the groups; not a number where it was not taken."""

    @property
    def second(self) -> Any:
        """‖g‖ of the second half."""


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
    def update(self, probe: Measured, batch: int | None = None, **others: float) -> dict[str, float]:
        """Take a probe and return what is known now.

        Args:
            probe: A `Probe`, or what `gladstorm.optax.read_noise` returns.
            batch: Samples in a mini-batch of the training; those of the probe if not given.
            others: Readings that are known elsewhere, such as step/length.
        """
        distance, noise, gradient2 = map(np.float64, (probe.distance, probe.noise, probe.gradient2))
        self.growth.update(distance, noise)
        critical = self.critical.update(noise, gradient2)
        B, low, high = self.growth.interval()
        if self._max_norm is not None and math.isfinite(probe.first):
            mean2 = gradient2 + noise / (int(probe.groups) * int(probe.samples))
            others["clip/bias"] = self._bias(mean2, np.float64(probe.first), np.float64(probe.second), self._max_norm)
        now = {
            "noise/variance": noise,
            "noise/gradient2": gradient2,
            "noise/critical_batch": critical.estimate,
            "noise/critical_batch_low": critical.low,
            "noise/critical_batch_high": critical.high,
            "noise/distance": distance,
            "noise/growth": B,
            "noise/growth_low": low,
            "noise/growth_high": high,
            "noise/signal": 1 / (1 + critical.estimate / (batch or int(probe.groups) * int(probe.samples))),
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
