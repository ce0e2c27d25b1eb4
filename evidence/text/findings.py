"""What follows from the results: losses of reported runs, intervals over seeds, differences seed by seed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gladstorm.core.statistics import mean_of

from .setting import ARMS, Arm
from .study import Size, name_of, picked

Results = dict[str, Any]

LEVEL = 0.95


class Interval(NamedTuple):
    """A mean over seeds and half the width of its interval, Student's."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half_width:.3f}" if np.isfinite(self.mean) else "diverged"

    @property
    def sign(self) -> int:
        """Which side of 0 all of it lies on; 0 if 0 lies inside."""
        return int(np.sign(self.mean)) if abs(self.mean) > self.half_width else 0


def interval(values: list[float]) -> Interval:
    """Of their mean; without a width if a run diverged."""
    if not np.isfinite(values).all():
        return Interval(float(np.mean(values)), 0.0)
    mean = mean_of(np.array(values))
    return Interval(mean.value, mean.interval(LEVEL)[1] - mean.value)


def size_of(results: Results) -> Size:
    """How much was run."""
    s = results["settings"]
    return Size(s["evaluations"], s["rates"], s["measurements"], s["tuning_seed"], tuple(s["seeds"]))


def reported(results: Results, arm: Arm) -> list[dict[str, Any]]:
    """The runs of an arm at its learning rate, seed by seed."""
    size = size_of(results)
    lr = picked(results, arm, size)
    return [results["runs"][name_of(arm, lr, seed)] for seed in size.seeds]


def losses(results: Results, arm: Arm) -> list[float]:
    """On the test text at the end of each run; infinite where it diverged."""
    return [_number(run["curve"][-1][1]) for run in reported(results, arm)]


def curves(results: Results, arm: Arm) -> tuple[list[int], np.ndarray]:
    """Gradients computed, and the loss on the test text, a row for each seed."""
    runs = reported(results, arm)
    return [count for count, _ in runs[0]["curve"]], np.array([[_number(v) for _, v in run["curve"]] for run in runs])


def tuning(results: Results, arm: Arm) -> list[tuple[float, float]]:
    """Learning rates that were tried, and the validation loss of each."""
    size = size_of(results)
    names = {lr: name_of(arm, lr, size.tuning_seed) for lr in size.grid(arm.method)}
    return [(lr, _number(results["runs"][name]["validation"])) for lr, name in names.items() if name in results["runs"]]


def difference(results: Results, this: Arm, that: Arm) -> Interval:
    """Test loss of one arm minus that of another, seed by seed."""
    return interval([a - b for a, b in zip(losses(results, this), losses(results, that), strict=True)])


def ranked(results: Results) -> list[Arm]:
    """From the lowest mean test loss on."""
    return sorted(ARMS, key=lambda arm: float(np.mean(losses(results, arm))))


def _number(value: float | None) -> float:
    return float("inf") if value is None else value
