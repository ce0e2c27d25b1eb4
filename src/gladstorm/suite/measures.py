"""Numbers over seeds and problems. What fails is part of them: it has the score ∞, or the time ∞."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

TARGET = 2.0  # times the best score on a problem: what is to be reached


def geometric_mean(values: np.ndarray) -> float:
    """The score of a row on a case: over seeds, of which none may have diverged; else ∞.

    >>> geometric_mean(np.array([1.0, 4.0])), geometric_mean(np.array([1.0, np.nan]))
    (2.0, inf)
    """
    if not np.all(np.isfinite(values)):
        return float("inf")
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(values).mean()))


def to_best(scores: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    """Per row the ratio of its score to the best of all rows, case by case; ∞ where it failed.

    >>> {row: ratios.tolist() for row, ratios in to_best({"a": [1.0, 6.0], "b": [2.0, 3.0]}).items()}
    {'a': [1.0, 2.0], 'b': [2.0, 1.0]}
    """
    table = np.array(list(scores.values()), float)
    best = table.min(axis=0)
    with np.errstate(invalid="ignore"):
        ratios = np.where(np.isfinite(table), table / best, np.inf)
    return dict(zip(scores, ratios, strict=True))


def profile(ratios: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The share of all cases in which a row is within each factor of the best (Dolan and Moré 2002).

    >>> profile(np.array([1.0, 3.0, np.inf]), np.array([1.0, 2.0, 4.0])).round(2).tolist()
    [0.33, 0.33, 0.67]
    """
    return np.asarray((ratios[:, None] <= factors).mean(axis=0))


def reached(grad_norm: np.ndarray, sfo: np.ndarray, budget: int, target: float) -> np.ndarray:
    """Per run the stochastic gradients after which ‖∇f‖ is at most the target at every recorded step; ∞ if at none.

    Not the first time it is: a noisy iterate that passes a solution is there by chance, and leaves.

    >>> sfo = np.array([[1, 2, 3, 4]])
    >>> [reached(np.array([run]), sfo, 4, 1.0).item() for run in ([9, 1, 9, 1], [9, 9, 1, 0], [1, 1, 1, 2])]
    [4.0, 3.0, inf]
    """
    inside = sfo <= budget
    there = (grad_norm <= target) | ~inside
    for_good = np.flip(np.logical_and.accumulate(np.flip(there, -1), -1), -1) & inside
    first = np.argmax(for_good, axis=-1)[..., None]
    times = np.take_along_axis(sfo, first, -1)[..., 0].astype(float)
    return np.where(for_good.any(axis=-1), times, np.inf)


def reaching(times: np.ndarray, shares: np.ndarray, budget: int) -> np.ndarray:
    """The share of all runs, those that never reach their target included, that have by each share of the budget.

    >>> reaching(np.array([10.0, 50.0, np.inf, np.inf]), np.array([0.1, 1.0]), 100).tolist()
    [0.25, 0.5]
    """
    return np.asarray((times[:, None] <= shares * budget).mean(axis=0))
