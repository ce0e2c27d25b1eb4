"""How runs are scored, by ‖∇f‖ at what a method reports within a budget, and how sure scores are over seeds.

Rows are configurations, columns are seeds. Intervals are Student's; methods are compared seed by seed on one noise.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gladstorm.core.statistics import finite, finite_list, mean_of
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


def at_edge(chosen: float, tried: Collection[float]) -> bool:
    """Whether the number chosen is the smallest or largest of several: a wider grid may do better."""
    return min(tried) < max(tried) and chosen in (min(tried), max(tried))


def interval(values: np.ndarray, comparisons: int = 1) -> dict[str, Any]:
    """The mean over seeds with Student's interval, as JSON-ready data; None where a seed's number is not finite.

    One seed has a mean and no interval: how far it is from the mean over all seeds cannot be told.

    With several comparisons all intervals are valid at the same time with 95 % confidence (Bonferroni).
    """
    values = np.asarray(values, float)
    if not np.all(np.isfinite(values)) or values.size == 1:
        return {"mean": finite(values.mean()) if values.size == 1 else None, "low": None, "high": None}
    low, high = mean_of(values).interval(1 - (1 - CONFIDENCE) / comparisons)
    return {"mean": float(values.mean()), "low": low, "high": high}


def positive_interval(values: np.ndarray) -> dict[str, Any]:
    """The interval for numbers that are never negative, such as norms: mean · exp(± t·s/(√n·mean)), always above 0.

    It is Student's interval for log(mean), by the delta method. Numbers of which one is 0 or less have Student's own.
    """
    student = interval(values)
    if student["low"] is None or np.min(values) <= 0:
        return student
    factor = float(np.exp(min((student["high"] - student["mean"]) / student["mean"], 700.0)))
    return student | {"low": student["mean"] / factor, "high": student["mean"] * factor}


def ratio(scores: np.ndarray, reference: np.ndarray, comparisons: int = 1) -> dict[str, Any]:
    """The geometric mean of scores/reference, seed by seed on the same noise, with its interval: below 1 is better."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = interval(np.log(scores) - np.log(reference), comparisons)
    return {name: None if value is None else float(np.exp(value)) for name, value in logs.items()}


def per_seed(values: np.ndarray) -> dict[str, Any]:
    """The interval, which stays above 0 if all values do, and the values it is made of."""
    return positive_interval(values) | {"per_seed": finite_list(values)}


def interval_text(ends: Mapping[str, Any], form: str = "{mean:.4g} [{low:.3g}, {high:.3g}]") -> str:
    """Mean, low and high in this form, whose first word is the mean: that alone where there is no interval."""
    if ends["mean"] is None:
        return "not finite"
    return (form.partition(" ")[0] if ends["low"] is None else form).format(**ends)
