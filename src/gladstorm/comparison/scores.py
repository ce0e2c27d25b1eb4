"""How runs are scored, by ‖∇f‖ at what a method reports within a budget, and how sure scores are over seeds.

Rows are configurations, columns are seeds. Intervals are Student's; methods are compared seed by seed on one noise.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from gladstorm.core.estimate import Estimate
from gladstorm.simulation.record import Record

CONFIDENCE = 0.95


def within(record: Record, sfo: int) -> np.ndarray:
    """Per run the index of the last recorded step that had spent at most `sfo` stochastic gradients."""
    return np.asarray(np.maximum((record.sfo <= sfo).sum(axis=-1) - 1, 0))


def at(curve: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The value of each run's curve at an index of its own."""
    return np.asarray(np.take_along_axis(curve, ends[..., None], axis=-1)[..., 0])


def failed(record: Record, ends: np.ndarray) -> np.ndarray:
    """Per run whether it had diverged by the recorded step of an index of its own."""
    return np.asarray((record.diverged >= 0) & (record.diverged <= record.steps[ends]))


def reported(record: Record, budget: int) -> np.ndarray:
    """‖∇f‖ at what each run reports when the budget is spent; not finite if it diverged."""
    return at(record.reported_grad_norm, within(record, budget))


def reported_scores(record: Record, budget: int) -> np.ndarray:
    """Per configuration the mean of `reported` over seeds; ∞ if a run diverged."""
    with np.errstate(invalid="ignore", over="ignore"):
        values = reported(record, budget).mean(axis=-1)
    return np.asarray(np.where(np.isfinite(values), values, np.inf))


def at_edge(chosen: float, grid: Collection[float]) -> bool:
    """Whether the number chosen is the smallest or largest of several: a wider grid may do better."""
    return min(grid) < max(grid) and chosen in (min(grid), max(grid))


def interval(values: np.ndarray, comparisons: int = 1) -> Estimate:
    """Estimate the mean over seeds, with Student's interval.

    With several comparisons all intervals are valid at the same time with 95 % confidence (Bonferroni).
    """
    return Estimate.of_mean(values, 1 - (1 - CONFIDENCE) / comparisons)


def positive_interval(values: np.ndarray) -> Estimate:
    """The interval for numbers that are never negative, such as norms: mean · exp(± t·s/(√n·mean)), always above 0.

    It is Student's interval for log(mean), by the delta method. Numbers of which one is 0 or less have Student's own.
    """
    student = interval(values)
    if student.value is None or student.high is None or np.min(values) <= 0:
        return student
    factor = float(np.exp(min((student.high - student.value) / student.value, 700.0)))
    return replace(student, low=student.value / factor, high=student.value * factor)


def ratio(scores: np.ndarray, reference: np.ndarray, comparisons: int = 1) -> Estimate:
    """The geometric mean of scores/reference, seed by seed on the same noise, with its interval: below 1 is better."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(scores) - np.log(reference)
    return interval(logs, comparisons).map(lambda end: float(np.exp(end)))


def in_json(estimate: Estimate) -> dict[str, float | None]:
    """Return an estimate with the names that the JSON of a comparison has."""
    return {"mean": estimate.value, "low": estimate.low, "high": estimate.high}
