"""k-hat: how heavy the tail of importance weights is (Vehtari et al. 2024)."""

from __future__ import annotations

import math

import numpy as np

GOOD, USABLE = 0.5, 0.7


def khat(log_weights: np.ndarray) -> float:
    """The shape k of a generalized Pareto distribution fitted to the largest weights, by Zhang and Stephens 2009.

    >>> weights = np.random.default_rng(0).pareto(2.0, 4000) + 1  # whose tail has k = 1/2
    >>> 0.35 < khat(np.log(weights)) < 0.65
    True
    """
    n = len(log_weights)
    tail = math.ceil(min(0.2 * n, 3 * math.sqrt(n)))
    weights = np.exp(np.sort(log_weights.astype(float)) - np.max(log_weights))
    x = weights[-tail:] - weights[-tail - 1]
    x = x[x > 0]
    m = len(x)
    if m < 5:  # all weights are alike, or a few draws have all the weight
        return 0.0 if weights.max() < 10 * weights.mean() else math.inf
    points = 30 + int(math.sqrt(m))
    b = 1 / x[-1] + (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (3 * x[int(m / 4 + 0.5) - 1])
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    profile = m * (np.log(-b / k) - k - 1)
    share = 1 / np.exp(np.minimum(profile - profile[:, None], 700)).sum(axis=1)
    best = np.sum(b * share) / share.sum()
    return float((m * np.log1p(-best * x).mean() + 5) / (m + 10))  # a prior of ten draws at k = ½


def khat_in_words(k: float | None) -> str:
    """What a k-hat says about a fit."""
    if k is None:
        return "k-hat is not known: subsampled data make the weights of draws noisy."
    if k < GOOD:
        return f"k-hat = {k:.2f}: the fit is close to the posterior, and importance weights correct the rest."
    if k < USABLE:
        return f"k-hat = {k:.2f}: the fit is usable, and importance weights improve it."
    return (
        f"k-hat = {k:.2f}: the posterior has parts that the fit does not reach, so its means may be right and its "
        "standard deviations are probably too small; try a larger family, other parameters, or MCMC."
    )
