"""How runs are scored: by ‖∇f‖ over the last tenth of the iterates, or at what a method reports within a budget.

The reproduction scores as the paper does, by iterates; comparisons score what a user would be given at the end. Rows
of what these functions return are configurations, columns are seeds.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gladstorm.simulation.record import Record


def within(record: Record, sfo: int) -> np.ndarray:
    """Per run the index of the last recorded step that had spent at most `sfo` stochastic gradients."""
    return np.asarray(np.maximum((record.sfo <= sfo).sum(axis=-1) - 1, 0))


def at(curve: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The value of each run's curve at an index of its own."""
    return np.asarray(np.take_along_axis(curve, ends[..., None], axis=-1)[..., 0])


def failed(record: Record, ends: np.ndarray) -> np.ndarray:
    """Per run whether it had diverged by the recorded step of an index of its own."""
    return np.asarray((record.diverged >= 0) & (record.diverged <= record.steps[ends]))


def last_tenth(record: Record, ends: np.ndarray | None = None) -> np.ndarray:
    """The mean of ‖∇f‖ over the last tenth of the iterates, per run.

    It is exact: running means over all iterates are recorded. `ends` are indices into `record.steps`, one per run, of
    the last iterate that counts; without it that is the last.
    """
    if ends is None:
        ends = np.full(record.grad_norm.shape[:2], record.steps.size - 1)
    starts = np.searchsorted(record.steps, 0.9 * record.steps[ends])
    starts = np.minimum(starts, np.maximum(ends - 1, 0))
    sums = record.mean_grad_norm * (record.steps + 1)
    count = record.steps[ends] - record.steps[starts]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = (at(sums, ends) - at(sums, starts)) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, at(record.grad_norm, ends)))


def scores(record: Record, budget: int | None = None) -> np.ndarray:
    """Per configuration the mean of `last_tenth` over seeds, within a budget if there is one; ∞ if a run diverged."""
    values = last_tenth(record, None if budget is None else within(record, budget)).mean(axis=-1)
    return np.asarray(np.where(np.isfinite(values), values, np.inf))


def best(record: Record, budget: int | None = None) -> int:
    """The row of the best score."""
    return int(np.argmin(scores(record, budget)))


def reported(record: Record, budget: int) -> np.ndarray:
    """‖∇f‖ at what each run reports when the budget is spent; not finite if it diverged."""
    return at(record.reported_grad_norm, within(record, budget))


def reported_scores(record: Record, budget: int) -> np.ndarray:
    """Per configuration the mean of `reported` over seeds; ∞ if a run diverged."""
    with np.errstate(invalid="ignore", over="ignore"):
        values = reported(record, budget).mean(axis=-1)
    return np.asarray(np.where(np.isfinite(values), values, np.inf))


def at_edge(chosen: float, tried: Collection[float]) -> bool:
    """Whether the number chosen is the smallest or largest of several: a wider grid may do better.

    >>> at_edge(1.0, [1.0, 10.0, 100.0]), at_edge(10.0, [1.0, 10.0, 100.0]), at_edge(1.0, [1.0, 1.0])
    (True, False, False)
    """
    return min(tried) < max(tried) and chosen in (min(tried), max(tried))
