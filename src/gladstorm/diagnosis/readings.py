"""Readings as they happen: what a training's noise is now, updated by every probe in constant time and memory."""

import math
from typing import Any

import numpy as np

from gladstorm.diagnosis.clipping import cut_off, inner_product
from gladstorm.diagnosis.sequences import CriticalSequence, GrowthSequence

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
