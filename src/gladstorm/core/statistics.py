"""Means, spreads and confidence intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Key = TypeVar("Key")


@dataclass(frozen=True)
class Mean:
    """A mean over n independent seeds and their sample standard deviation."""

    value: float
    deviation: float
    n: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Student's two-sided interval; with no deviation it has length 0, so one seed must be told apart before."""
        if self.deviation == 0:
            return self.value, self.value
        from scipy.special import stdtrit  # a fifth of a second that only intervals should take

        half = float(stdtrit(self.n - 1, (1 + confidence) / 2) * self.deviation / math.sqrt(self.n))
        return self.value - half, self.value + half


def mean_of(values: np.ndarray) -> Mean:
    """The mean over seeds, of which there must be two or more.

    >>> mean_of(np.array([1.0, 3.0]))
    Mean(value=2.0, deviation=1.4142135623730951, n=2)
    >>> [round(end, 4) for end in mean_of(np.array([1.0, 3.0])).interval()]
    [-10.7062, 14.7062]
    """
    return Mean(float(values.mean()), float(values.std(ddof=1)), values.size)


def holm(p_values: Mapping[Key, float], error: float = 0.05) -> set[Key]:
    """The hypotheses that Holm's procedure rejects together: from the smallest p on, while p ≤ error/how many are left.

    >>> sorted(holm({"c": 0.04, "a": 0.01, "d": 0.2, "b": 0.016}))  # 4 · 0.01, 3 · 0.016, 2 · 0.04
    ['a', 'b']
    >>> holm({"a": 0.026, "b": 0.026})
    set()
    """
    rejected: set[Key] = set()
    for key in sorted(p_values, key=p_values.__getitem__):
        if p_values[key] * (len(p_values) - len(rejected)) > error:
            break
        rejected.add(key)
    return rejected


def over_seeds(values: np.ndarray) -> dict[str, Any]:
    """Mean, sample standard deviation (None for one seed: it tells nothing about others) and the values.

    >>> over_seeds(np.array([1.0, 3.0]))
    {'mean': 2.0, 'std': 1.4142135623730951, 'per_seed': [1.0, 3.0]}
    """
    with np.errstate(invalid="ignore", over="ignore"):
        deviation = values.std(ddof=1) if values.size > 1 else np.nan
        return {"mean": finite(values.mean()), "std": finite(deviation), "per_seed": finite_list(values)}


def share_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's exact interval for a probability, from how often it came true.

    >>> [round(end, 4) for end in share_interval(3, 3)]
    [0.2924, 1.0]
    """
    from scipy.special import betainccinv, betaincinv

    tail = (1 - confidence) / 2
    low = betaincinv(count, of - count + 1, tail) if count else 0.0
    high = betainccinv(count + 1, of - count, tail) if count < of else 1.0
    return float(low), float(high)


def f_tail(between: int, inside: int, ratio: float) -> float:
    """The probability that an F variable with these degrees of freedom is larger than a ratio.

    >>> round(f_tail(3, 40, 2.2), 6)
    0.103018
    """
    from mpmath import betainc, mpf, workdps  # SciPy has it too, and is more than a diagnosis should need

    with workdps(30):  # the share is close to 1 where the ratio is small
        share = inside / (inside + between * mpf(ratio))
        return float(betainc(inside / 2, between / 2, 0, share, regularized=True))


def log_slope_weights(x: Sequence[float]) -> np.ndarray:
    """The w for which w · y is the least-squares slope of y against log x.

    >>> round(float(log_slope_weights([1, 4, 16]) @ np.log([8, 4, 2])), 12)
    -0.5
    """
    logs = np.log(x)
    centred = logs - logs.mean()
    return np.asarray(centred / np.sum(centred**2))


def finite(value: Any) -> float | None:
    """A number as JSON can hold it: None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def finite_list(values: np.ndarray) -> list[float | None]:
    """Numbers as JSON can hold them."""
    return [finite(value) for value in values]
