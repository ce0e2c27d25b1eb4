"""Means over seeds with Student's intervals, and methods relative to each other, seed by seed on the same noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from gladstorm.core.statistics import finite_list, mean_of

CONFIDENCE = 0.95


def interval(values: np.ndarray, comparisons: int = 1) -> dict[str, Any]:
    """The mean over seeds with Student's interval, as JSON-ready data; None where a seed's number is not finite.

    One seed has a mean and no interval: how far it is from the mean over all seeds cannot be told.

    With several comparisons all intervals are valid at the same time with 95 % confidence (Bonferroni).

    >>> interval(np.array([1.0, 3.0]))["mean"]
    2.0
    """
    values = np.asarray(values, float)
    if not np.all(np.isfinite(values)):
        return {"mean": None, "low": None, "high": None}
    mean = float(values.mean())
    if values.size == 1:
        return {"mean": mean, "low": None, "high": None}
    low, high = mean_of(values).interval(1 - (1 - CONFIDENCE) / comparisons)
    return {"mean": mean, "low": low, "high": high}


def ratio(scores: np.ndarray, reference: np.ndarray, comparisons: int = 1) -> dict[str, Any]:
    """The geometric mean of scores/reference, seed by seed on the same noise, with its interval: below 1 is better.

    >>> ratio(np.array([1.0, 2.0]), np.array([2.0, 4.0]))["mean"]
    0.5
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = interval(np.log(scores) - np.log(reference), comparisons)
    return {name: None if value is None else float(np.exp(value)) for name, value in logs.items()}


def per_seed(values: np.ndarray) -> dict[str, Any]:
    """The interval, and the values it is made of."""
    return interval(values) | {"per_seed": finite_list(values)}
