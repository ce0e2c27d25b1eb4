"""Readings as they happen: what a training's noise is now, updated by every probe in constant time and memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from gladstorm.diagnosis.clipping import cut_off, inner_product

READINGS = (
    "noise/variance",
    "noise/gradient2",
    "noise/critical_batch",
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
LEVEL = 0.95
BURN_IN = 16  # looks before the first interval of B: it relies on a law of large numbers
SPREAD = 0.05  # how much squared distances must differ before: their share of variance, between 0 and 1
FLOOR = 0.1  # of the mean noise: a fit counts as no less in a weight
MEMORY = 16  # looks that the averages behind the critical batch size remember


class Sum2(NamedTuple):
    """A symmetric matrix [[a, b], [b, c]]."""

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0

    def plus(self, scale: float, x: float) -> Sum2:
        """With scale · (1, x)(1, x)ᵀ added."""
        return Sum2(self.a + scale, self.b + scale * x, self.c + scale * x * x)

    def times(self, scale: float) -> Sum2:
        """Every entry multiplied."""
        return Sum2(scale * self.a, scale * self.b, scale * self.c)

    @property
    def det(self) -> float:
        """The determinant."""
        return self.a * self.c - self.b**2


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

    def update(self, distance: float, noise: float) -> None:
        """Take the next V, at distance r."""
        x, fitted, w = distance**2, self._mean, 1.0
        if self._R is not None:
            G2, B2 = self._theta()
            fitted = max(G2 + B2 * x, FLOOR * self._mean)
            w = 1 / fitted**2
        if self.looks:
            self._S = self._S.plus(w, x)
            self._relative += (noise / fitted - 1) ** 2 if fitted else 0.0
            self._Q = self._Q.plus((w * (noise - fitted)) ** 2, x)
            self._Sy = (self._Sy[0] + w * noise, self._Sy[1] + w * noise * x)
        self.looks += 1
        self._mean += (noise - self._mean) / self.looks
        spread = self._Q.det > 0 and self._S.det > SPREAD * self._S.a * self._S.c
        if self._R is None and self.looks >= BURN_IN and spread:
            w = 1 / self._mean**2  # the weight that the looks so far would have had
            self._S, self._Q = self._S.times(w), self._Q.times(w**2)
            self._Sy = (w * self._Sy[0], w * self._Sy[1])
            self._R = self._Q

    def interval(self) -> tuple[float, float, float]:
        """B and the ends of its interval now; not a number, 0 and infinite before there is one."""
        if self._R is None:
            return math.nan, 0.0, math.inf
        start, dispersion = self._R, self._relative / (self.looks - 1)
        reach2 = max(self._reach2(self._Q, start), self._reach2(self._S.times(dispersion), start))
        B2, reach = self._theta()[1], math.sqrt(reach2)
        return math.sqrt(max(B2, 0.0)), math.sqrt(max(B2 - reach, 0.0)), math.sqrt(max(B2 + reach, 0.0))

    def _reach2(self, Q: Sum2, R: Sum2) -> float:
        """The squared half-width for B²: (2 log(1/α) + log det(Q + R)/det R) (S⁻¹(Q + R)S⁻¹)₂₂."""
        a, b, _ = self._S
        both = Sum2(Q.a + R.a, Q.b + R.b, Q.c + R.c)
        variance = (b * b * both.a - 2 * a * b * both.b + a * a * both.c) / self._S.det**2
        return (2 * math.log(1 / (1 - LEVEL)) + math.log(both.det / R.det)) * variance

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
    >>> readings = Readings()
    >>> now = readings.update(Probe(0, 0, "start", 0.0, 2, 2, 8.0, 2.0, math.nan, math.nan, math.nan))
    >>> now["noise/critical_batch"], now["noise/signal"]
    (4.0, 0.5)
    """

    def __init__(self, max_norm: float | None = None) -> None:
        self.growth, self._max_norm = GrowthSequence(), max_norm
        self._noise = self._gradient2 = 0.0  # exponential averages, all too small by the same factor
        self._moved = self._inner = 0.0  # of what clipping takes away, and of ⟨A, B⟩

    def update(self, probe: Measured, batch: int | None = None, **others: float) -> dict[str, float]:
        """Take a probe and return what is known now.

        Args:
            probe: A `Probe`, or what `gladstorm.optax.read_noise` returns.
            batch: Samples in a mini-batch of the training; those of the probe if not given.
            others: Readings that are known elsewhere, such as step/length.
        """
        distance, noise, gradient2 = (float(each) for each in (probe.distance, probe.noise, probe.gradient2))
        self.growth.update(distance, noise)
        self._noise += (noise - self._noise) / MEMORY
        self._gradient2 += (gradient2 - self._gradient2) / MEMORY
        critical = self._noise / self._gradient2 if self._gradient2 > 0 else math.nan
        B, low, high = self.growth.interval()
        if self._max_norm is not None and math.isfinite(probe.first):
            mean2 = gradient2 + noise / (int(probe.groups) * int(probe.samples))
            others["clip/bias"] = self._bias(mean2, float(probe.first), float(probe.second), self._max_norm)
        now = {
            "noise/variance": noise,
            "noise/gradient2": gradient2,
            "noise/critical_batch": critical,
            "noise/distance": distance,
            "noise/growth": B,
            "noise/growth_low": low,
            "noise/growth_high": high,
            "noise/signal": 1 / (1 + critical / (batch or int(probe.groups) * int(probe.samples))),
        }
        return {**dict.fromkeys(READINGS, math.nan), **now, **others}

    def _bias(self, mean2: float, first: float, second: float, max_norm: float) -> float:
        """‖E clip(g) − ∇f‖/‖∇f‖ over about 16 looks, as in `clipping`."""
        inner = inner_product(mean2, first, second)
        taken = cut_off(first, max_norm) * cut_off(second, max_norm) * inner
        self._inner += (inner - self._inner) / MEMORY
        self._moved += (taken - self._moved) / MEMORY
        return math.sqrt(max(self._moved, 0.0) / self._inner) if self._inner > 0 else math.nan


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
