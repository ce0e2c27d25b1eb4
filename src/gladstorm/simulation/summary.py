"""What a record amounts to: per configuration the numbers people ask for first."""

from __future__ import annotations

from typing import Any

import numpy as np

from gladstorm.core.statistics import over_seeds
from gladstorm.simulation.record import Record


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
        "reported_grad_norm": over_seeds(record.reported_grad_norm[row, :, -1]),
        "reported_value": over_seeds(record.reported_value[row, :, -1]),
        "drift2": over_seeds(record.drift2[row, :, -1]),
        "sfo": int(sfo[0]) if np.all(sfo == sfo[0]) else float(sfo.mean()),
        "max_batch": int(record.max_batch[row].max()),
        "diverged": int(np.sum(diverged >= 0)),
        "diverged_at": [int(step) if step >= 0 else None for step in diverged],
    }
