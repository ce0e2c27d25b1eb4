"""Numbers over seeds and problems. What fails is part of them: it has the score ∞, or the time ∞."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

TARGET = 2.0  # times the best score on a problem: what is to be reached


def geometric_mean(values: np.ndarray) -> float:
    """The score of a row on a case: over seeds, of which none may have diverged; else ∞."""
    if not np.all(np.isfinite(values)):
        return float("inf")
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(values).mean()))


def to_best(scores: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    """Per row the ratio of its score to the best of all rows, case by case; ∞ where it failed."""
    table = np.array(list(scores.values()), float)
    best = table.min(axis=0)
    with np.errstate(invalid="ignore"):
        ratios = np.where(np.isfinite(table), table / best, np.inf)
    return dict(zip(scores, ratios, strict=True))


def profile(ratios: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The share of all cases in which a row is within each factor of the best (Dolan and Moré 2002)."""
    return np.asarray((ratios[:, None] <= factors).mean(axis=0))


def over_cases(result: Mapping[str, Any], factors: np.ndarray, shares: np.ndarray) -> dict[str, list[np.ndarray]]:
    """Per row its `profile` over all cases, and its `reaching` over all runs with the largest budget."""
    cases, longest = result["cases"], max(result["config"]["budgets"])
    curves = {}
    for row in result["methods"]:
        ratios = _array(case["rows"][row]["to_best"] for case in cases)
        late = [case["rows"][row]["reached"] for case in cases if case["budget"] == longest]
        times = _array(time for times in late for time in times)
        curves[row] = [profile(ratios, factors), reaching(times, shares, longest)]
    return curves


def _array(values: Iterable[float | None]) -> np.ndarray:
    return np.array([np.inf if value is None else value for value in values], float)


def reached(grad_norm: np.ndarray, sfo: np.ndarray, budget: int, target: float) -> np.ndarray:
    """Per run the stochastic gradients after which ‖∇f‖ is at most the target at every recorded step; ∞ if at none.

    Not the first time it is: a noisy iterate that passes a solution is there by chance, and leaves.
    """
    inside = sfo <= budget
    there = (grad_norm <= target) | ~inside
    for_good = np.flip(np.logical_and.accumulate(np.flip(there, -1), -1), -1) & inside
    first = np.argmax(for_good, axis=-1)[..., None]
    times = np.take_along_axis(sfo, first, -1)[..., 0].astype(float)
    return np.where(for_good.any(axis=-1), times, np.inf)


def reaching(times: np.ndarray, shares: np.ndarray, budget: int) -> np.ndarray:
    """The share of all runs, those that never reach their target included, that have by each share of the budget."""
    return np.asarray((times[:, None] <= shares * budget).mean(axis=0))
