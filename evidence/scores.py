"""The paper's score of a run: the mean of ‖∇f‖ over the last tenth of its iterates."""

import numpy as np

from gladstorm.comparison.scores import at, within
from gladstorm.simulation.record import Record


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
