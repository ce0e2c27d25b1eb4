"""Whether a fit is likely to be the best of its family, and close to the density: looks, warnings and k-hat."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from gladstorm.variational.families import Triangular

if TYPE_CHECKING:
    from gladstorm.variational.driver import Starts

NATS = 1.0  # starts whose ELBOs differ by more disagree
SAME = 0.1  # nats: starts that differ by less are at the same optimum
STILL_GAINING = 0.3  # nats: a last update that gains more had not arrived
SKIPPED = 0.01  # of the gradients
ROUNDING = 0.1  # nats
WIDER, END = 3.0, 4.0  # times as wide, to see whether the ELBO grows; where q ends, in standard deviations
CLEARLY = 2.0  # standard errors
GOOD_ESS, USABLE_ESS = 0.5, 0.1  # shares of all draws that the weights are worth
LEAST_GAIN, ERROR = 0.001, 0.05  # nats that are not worth the rest of a run; how often a look may be wrong about it
GOOD, USABLE = 0.5, 0.7  # values of k-hat
ALIKE = 1.01  # the largest weight by their mean: what differs is rounding


class Looks:
    """Decide at the end of every block whether there is anything left to gain, right at all of them together.

    An average of k iterates is about c/k nats below its limit. Between two looks Δ steps apart it then gains
    cΔ/(k(k − Δ)), so the gain tells c. The run stops when an upper confidence bound of what the other K − k steps would
    gain, c(K − k)/(kK), is below 0.001 nats for every start. Look j has error probability 0.05/(j(j + 1)): these add up
    to 0.05 over any number of looks, so that it does not matter when one stops.
    """

    def __init__(self, steps: int) -> None:
        self._steps, self._at, self._count = steps, 0, 0
        self._before: np.ndarray | None = None
        self.gap: np.ndarray | None = None  # c/k: how far every start is below its limit, by this rule

    def nothing_left(self, at: int, weights: np.ndarray) -> bool:
        """Return whether to stop at this step, from log p − log q at the same draws as before, (start, draw)."""
        before, previous, self._before, self._at = self._before, self._at, weights, at
        if before is None or not np.isfinite(weights).all():
            return False
        self._count += 1
        gains, per_gain = weights - before, previous / (at - previous)
        error = gains.std(axis=1, ddof=1) / math.sqrt(gains.shape[1])
        self.gap = per_gain * np.maximum(gains.mean(axis=1) - CLEARLY * error, 0.0)
        quantile = NormalDist().inv_cdf(1 - ERROR / (self._count * (self._count + 1)))
        most = per_gain * (np.abs(gains.mean(axis=1)) + quantile * error)
        return bool(most.max() * (1 - at / self._steps) < LEAST_GAIN)


def judge(starts: Starts, weights: np.ndarray, rounding: float, by_widening: float = 0.0) -> tuple[str, ...]:
    """List reasons to doubt a fit, as sentences; none if there is nothing to doubt.

    Args:
        starts: What every start reached.
        weights: log p − log q at draws of the best start.
        rounding: The relative error of a number.
        by_widening: What the ELBO gains where q is made wider, by `gain_by_widening`.
    """
    warnings = []
    elbos, best = starts.elbos[:, -1], starts.best
    if not np.isfinite(weights).all():
        warnings.append("The log density is not finite at some draws of the fit.")
    within_reach = _within_reach(starts, best)
    if within_reach > STILL_GAINING:
        warnings.append(
            f"The budget was too short: the ELBO was still growing at the end, by about {within_reach:.2g} nats. "
            "Take more steps."
        )
    if by_widening == math.inf:
        warnings.append(
            "The fit grew without end in some direction: the density hardly falls there and may have no integral. Give "
            "it a proper prior."
        )
    elif by_widening > STILL_GAINING:
        warnings.append(
            f"The fit is too narrow: one {WIDER:g} times as wide in one direction is better by {by_widening:.2g} nats. "
            "Take more steps. If this stays, the density hardly falls there and may have no integral: give it a proper "
            "prior."
        )
    others = np.delete(elbos, best)
    if others.size and not _confirmed(elbos[best], others):
        warnings.append(
            f"Too few starts came near the best one: {np.sum(others > elbos[best] - NATS)} of {others.size} within "
            f"{NATS:g} nat. It has an ELBO of {elbos[best]:.2f}, the next {others.max():.2f}. There may be "
            "a better one still: take more steps or more starts."
        )
    share = starts.skipped[best] / starts.steps[-1]
    if share > SKIPPED:
        warnings.append(f"{100 * share:.0f} % of the gradients were not finite; the run stepped back each time.")
    rounded = float(np.abs(weights).max()) * rounding
    if np.isfinite(rounded) and rounded > ROUNDING:
        warnings.append(
            f"The log density is so large that it is rounded by {rounded:.1g} nats: switch to double precision, with "
            "numpyro.enable_x64() or JAX's jax_enable_x64, before anything else."
        )
    return tuple(warnings)


def gain_by_widening(weights: np.ndarray, z: np.ndarray, q: Any, log_densities: Callable[[Any], Any]) -> float:
    """Return what the ELBO gains, at least, in nats, if q is made three times as wide along one axis.

    ∂ELBO/∂log s of an axis is the covariance of log p − log q with ε², ε the draw along it, and ∂ELBO/∂m that with ε:
    both are 0 at the optimum. The axis where they are largest is tried, with the centre or one end of q held in place.
    A density that has no integral because it is flat, or grows, in some direction gains log 3 or more. An infinite q
    gains ∞.

    Args:
        weights: log p − log q at draws of q.
        z: These draws, (draw, d).
        q: The Gaussian.
        log_densities: log p of several points, (point, d).
    """
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(q)):
        return math.inf
    off = z - np.asarray(q.loc)
    if isinstance(q, Triangular):
        axes, lengths, _ = np.linalg.svd(np.asarray(q.tril))
        draws = off @ axes / lengths
    else:  # coordinates: of a low rank there may be too many for their axes
        lengths = np.asarray(q.sds)
        draws = off / lengths
    deviation = weights - weights.mean()
    slopes = np.abs(deviation @ draws) + np.maximum(deviation @ draws**2 - deviation.sum(), 0.0)
    at = int(np.argmax(slopes))
    axis = axes[:, at] * lengths[at] if isinstance(q, Triangular) else np.eye(1, off.shape[1], at)[0] * lengths[at]
    level, gains = np.asarray(log_densities(z)), []
    for held in (-END, 0.0, END):
        wide = np.asarray(log_densities(z + (WIDER - 1) * (draws[:, at, None] - held) * axis))
        gain = wide - level + np.log(WIDER)
        gains.append(gain.mean() - CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)))
    return float(np.max(np.nan_to_num(gains, nan=-np.inf)))


def _confirmed(best: float, others: np.ndarray) -> bool:
    """Return whether half of the other starts came near, or one to the same optimum."""
    near = np.sum(others > best - NATS)
    return bool(near >= others.size / 2 or np.any(others > best - SAME))


def _within_reach(starts: Starts, best: int) -> float:
    """Return the gain of the last update over the one before; of a single update, how far it was from its limit."""
    if starts.elbos.shape[1] == 1 or starts.gaps[best, -1] > 0:
        return float(starts.gaps[best, -1])
    with np.errstate(invalid="ignore"):  # −∞ after −∞ gained nothing that one could tell
        return float(starts.elbos[best, -1] - starts.elbos[best, -2])


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


def khat_in_words(k: float | None, share: float | None = None, remedy: str = "guide=Flow()") -> str:
    """Explain what k-hat and the efficiency of importance weights say about a fit, and what to do."""
    if k is None:
        return "k-hat is not known: subsampled data, or a guide that is a point, have no importance weights."
    numbers = f"k-hat = {k:.2f}" + ("" if share is None else f", {_percent(share)} of importance draws are effective")
    if k < GOOD or (k < USABLE and share is not None and share > GOOD_ESS):
        return f"{numbers}: the fit is close to the posterior where its draws are; importance weights correct the rest."
    if k < USABLE and (share is None or share > USABLE_ESS):
        return f"{numbers}: the fit is usable, and importance weights improve it."
    return (
        f"{numbers}: the posterior has parts that the fit does not reach, so its means may be right and its standard "
        f"deviations are probably too small; try {remedy}, other parameters, or MCMC with fit.mass_matrix()."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
