"""Importance weights of a fit: k-hat, which tells how close q is to the density, and what weights correct."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

GOOD_ESS, USABLE_ESS = 0.5, 0.1  # shares of all draws that the weights are worth
USABLE = 0.7  # a value of k-hat
ALIKE = 1.01  # the largest weight by their mean: what differs is rounding


class Tail(NamedTuple):
    """A generalized Pareto distribution of the largest weights, by Zhang and Stephens 2009."""

    weights: np.ndarray  # all, in ascending order, the largest 1
    size: int  # how many are in the tail
    shape: float  # k
    scale: float


def tail_of(log_weights: np.ndarray) -> Tail:
    """Fit the tail of importance weights (Vehtari et al. 2024)."""
    n = len(log_weights)
    size = math.ceil(min(0.2 * n, 3 * math.sqrt(n)))
    weights = np.exp(np.sort(log_weights.astype(float)) - np.max(log_weights))
    x = weights[-size:] - weights[-size - 1]
    x = x[x > 0]
    m = len(x)
    if m < 5 or weights[-1] < ALIKE * weights.mean():  # all weights are alike, or a few draws have all the weight
        return Tail(weights, 0, 0.0 if weights.max() < 10 * weights.mean() else math.inf, 0.0)
    points = 30 + int(math.sqrt(m))
    b = 1 / x[-1] + (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (3 * x[int(m / 4 + 0.5) - 1])
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    profile = m * (np.log(-b / k) - k - 1)
    share = 1 / np.exp(np.minimum(profile - profile[:, None], 700)).sum(axis=1)
    best = np.sum(b * share) / share.sum()
    raw = np.log1p(-best * x).mean()
    return Tail(weights, size, float((m * raw + 5) / (m + 10)), float(-raw / best))  # a prior of ten draws at k = ½


def khat(log_weights: np.ndarray) -> float:
    """Estimate how heavy the tail of importance weights is: the shape k of its generalized Pareto distribution.

    >>> weights = np.random.default_rng(0).pareto(2.0, 4000) + 1  # whose tail has k = 1/2
    >>> 0.35 < khat(np.log(weights)) < 0.65
    True
    """
    return tail_of(log_weights).shape


def smoothed(log_weights: np.ndarray) -> np.ndarray:
    """Return importance weights, of sum 1, with the largest replaced by quantiles of their tail's distribution.

    >>> smoothed(np.log(np.arange(1.0, 5.0)))
    array([0.1, 0.2, 0.3, 0.4])
    """
    tail = tail_of(log_weights)
    weights = tail.weights.copy()
    if tail.size:
        p = (np.arange(tail.size) + 0.5) / tail.size
        above = np.expm1(-tail.shape * np.log1p(-p)) / tail.shape if tail.shape else -np.log1p(-p)
        weights[-tail.size :] = np.minimum(weights[-tail.size - 1] + tail.scale * above, 1.0)
    in_order = np.empty_like(weights)
    in_order[np.argsort(log_weights, kind="stable")] = weights
    return np.asarray(in_order / in_order.sum())


def efficiency(log_weights: np.ndarray) -> float:
    """Return the effective share of importance draws, (Σw)²/(n Σw²): 1 if all weights are alike, 1/n if one has all.

    >>> round(efficiency(np.log([1.0, 1.0, 2.0])), 3), efficiency(np.array([0.0, -np.inf]))
    (0.889, 0.5)
    """
    if not np.isfinite(np.max(log_weights)):
        return 0.0
    weights = np.exp(log_weights - np.max(log_weights))
    return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))


def is_near(k: float, share: float) -> bool:
    """Return whether importance weights with this k-hat and efficiency can correct a fit.

    Where half of the draws count, k-hat is that of a tail with next to no weight: for Student's t with 20 degrees of
    freedom the best Gaussian has a deviation that is 1 % off, an efficiency of 99 % and, by draws, a k-hat of 0.7 or 7.

    >>> is_near(6.7, 0.99), is_near(0.6, 0.3), is_near(0.9, 0.3), is_near(0.3, 0.01)
    (True, True, False, False)
    """
    return share > GOOD_ESS or (k < USABLE and share > USABLE_ESS)


def khat_in_words(k: float | None, share: float | None, remedy: str = "guide=Flow()") -> str:
    """Explain what k-hat and the efficiency of importance weights say about a fit, and what to do."""
    if k is None or share is None:
        return "k-hat is not known: subsampled data, or a guide that is a point, have no importance weights."
    effective = f"{_percent(share)} of importance draws are effective"
    if share > GOOD_ESS:
        return f"{effective}: the fit is close to the posterior where its draws are."
    if is_near(k, share):
        return (
            f"{effective}, k-hat = {k:.2f}: the fit is usable. Its standard deviations may be too small; "
            "fit.resample(n) corrects them."
        )
    return (
        f"{effective}, k-hat = {k:.2f}: the posterior has parts that the fit does not reach, so its means may be right "
        f"and its standard deviations are probably too small; try {remedy}, other parameters, or MCMC with "
        "fit.mass_matrix()."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
