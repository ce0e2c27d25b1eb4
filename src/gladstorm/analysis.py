"""What follows from a record: numbers to report."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from gladstorm.record import Record


def summary(record: Record) -> dict[str, dict[str, Any]]:
    """Per label what the paper talks about, JSON-ready: over seeds the mean, the standard deviation and every value.

    Numbers that are not finite become None, and so does a mean over seeds of which one diverged.
    """
    return {label: _summary(record, row) for row, label in enumerate(record.labels)}


def _summary(record: Record, row: int) -> dict[str, Any]:
    sfo = record.sfo[row, :, -1]
    diverged = record.diverged[row]
    return {
        "mean_grad_norm": over_seeds(record.mean_grad_norm[row, :, -1]),
        "final_grad_norm": over_seeds(record.grad_norm[row, :, -1]),
        "best_grad_norm": over_seeds(record.best_grad_norm[row, :, -1]),
        "drift2": over_seeds(record.drift2[row, :, -1]),
        "sfo": int(sfo[0]) if np.all(sfo == sfo[0]) else float(sfo.mean()),
        "max_batch": int(record.max_batch[row].max()),
        "diverged": int(np.sum(diverged >= 0)),
        "diverged_at": [int(step) if step >= 0 else None for step in diverged],
    }


def over_seeds(values: np.ndarray) -> dict[str, Any]:
    """Mean, sample standard deviation (0 for one seed) and the values.

    >>> over_seeds(np.array([1.0, 3.0]))
    {'mean': 2.0, 'std': 1.4142135623730951, 'per_seed': [1.0, 3.0]}
    """
    with np.errstate(invalid="ignore", over="ignore"):
        deviation = values.std(ddof=1) if values.size > 1 else 0.0
        return {"mean": _finite(values.mean()), "std": _finite(deviation), "per_seed": [_finite(v) for v in values]}


def half_width(values: np.ndarray, confidence: float = 0.95) -> float:
    """Half of Student's interval for the mean over seeds; there must be two seeds or more.

    >>> round(half_width(np.array([1.0, 3.0])), 4)
    12.7062
    """
    quantile = special.stdtrit(values.size - 1, (1 + confidence) / 2)
    return float(quantile * values.std(ddof=1) / np.sqrt(values.size))


def share_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's exact interval for a probability, from how often it came true.

    >>> [round(end, 4) for end in share_interval(3, 3)]
    [0.2924, 1.0]
    """
    tail = (1 - confidence) / 2
    low = special.betaincinv(count, of - count + 1, tail) if count else 0.0
    high = special.betainccinv(count + 1, of - count, tail) if count < of else 1.0
    return float(low), float(high)


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
