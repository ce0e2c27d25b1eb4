"""Whether a fit is likely to be the best of its family: what the end of its run, its starts and its draws say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gladstorm.core.parts import Array
from gladstorm.variational.gaussians import Triangular
from gladstorm.variational.run import Outcome

NATS = 1.0  # starts whose ELBOs differ by more disagree
SAME = 0.1  # nats: starts that differ by less are at the same optimum
STILL_GAINING = 0.3  # nats: a last stage that gains more had not arrived
SKIPPED = 0.01  # of the gradients
ROUNDING = 0.1  # nats
WIDER, END = 3.0, 4.0  # times as wide, to see whether the ELBO grows; where q ends, in standard deviations
CLEARLY = 2.0  # standard errors


def judge(outcome: Outcome, weights: np.ndarray, rounding: float, by_widening: float = 0.0) -> tuple[str, ...]:
    """Reasons to doubt a fit, as sentences; none if there is nothing to say.

    Args:
        outcome: What the run found.
        weights: log p − log q at draws of the best start.
        rounding: The relative error of a number.
        by_widening: What the ELBO gains where q is made wider, by `wider`.
    """
    said = []
    elbos, best = outcome.elbos[:, -1], outcome.best
    if not np.isfinite(weights).all():
        said.append("The log density is not finite at some draws of the fit.")
    within_reach = _within_reach(outcome, best)
    if within_reach > STILL_GAINING:
        said.append(
            f"The budget was too short: the ELBO was still growing at the end, by about {within_reach:.2g} nats. "
            "Take more steps."
        )
    if by_widening > STILL_GAINING:
        said.append(
            f"The fit is too narrow: one {WIDER:g} times as wide in one direction is better by {by_widening:.2g} nats. "
            "Take more steps. If this stays, the density hardly falls there and may have no integral: give it a proper "
            "prior."
        )
    others = np.delete(elbos, best)
    if others.size and not _confirmed(elbos[best], others):
        said.append(
            f"Too few starts came near the best one: {np.sum(others > elbos[best] - NATS)} of {others.size} within "
            f"{NATS:g} nat. It has an ELBO of {elbos[best]:.2f}, the next {others.max():.2f}. There may be "
            "a better one still: take more steps or more starts."
        )
    share = outcome.skipped[best] / outcome.steps[-1]
    if share > SKIPPED:
        said.append(f"{100 * share:.0f} % of the gradients were not finite; the run stepped back each time.")
    rounded = float(np.abs(weights).max()) * rounding
    if np.isfinite(rounded) and rounded > ROUNDING:
        said.append(
            f"The log density is so large that it is rounded by {rounded:.1g} nats: switch to double precision, with "
            "numpyro.enable_x64() or JAX's jax_enable_x64, before anything else."
        )
    return tuple(said)


def wider(weights: np.ndarray, z: np.ndarray, q: Any, log_densities: Callable[[Any], Array]) -> float:
    """What the ELBO gains, at least, if q is made three times as wide along one axis, in nats.

    ∂ELBO/∂log s of an axis is the covariance of log p − log q with ε², ε the draw along it, and ∂ELBO/∂m that with ε:
    both are 0 at the optimum. The axis where they are largest is tried, with the centre or one end of q held in place.
    A density that has no integral because it is flat, or grows, in some direction gains log 3 or more.

    Args:
        weights: log p − log q at draws of q.
        z: These draws, (draw, d).
        q: The Gaussian.
        log_densities: log p of several points, (point, d).
    """
    off = z - np.asarray(q.loc)
    if isinstance(q, Triangular):
        axes, lengths, _ = np.linalg.svd(np.asarray(q.tril))
        draws = off @ axes / lengths
    else:  # coordinates: of a low rank there may be too many for their axes
        lengths = np.linalg.norm(np.asarray(q.scale_tril()), axis=1)
        draws = off / lengths
    deviation = weights - weights.mean()
    slopes = np.abs(deviation @ draws) + np.maximum(deviation @ draws**2 - deviation.sum(), 0.0)
    at = int(np.argmax(slopes))
    axis = axes[:, at] * lengths[at] if isinstance(q, Triangular) else np.eye(1, off.shape[1], at)[0] * lengths[at]
    level, gains = np.asarray(log_densities(z)), []
    for held in (-END, 0.0, END):
        moved = np.asarray(log_densities(z + (WIDER - 1) * (draws[:, at, None] - held) * axis))
        gain = moved - level + np.log(WIDER)
        gains.append(gain.mean() - CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)))
    return float(np.max(np.nan_to_num(gains, nan=-np.inf)))


def _confirmed(best: float, others: np.ndarray) -> bool:
    """Whether half of the other starts came near, or one to the same optimum."""
    near = np.sum(others > best - NATS)
    return bool(near >= others.size / 2 or np.any(others > best - SAME))


def _within_reach(outcome: Outcome, best: int) -> float:
    """What the last stage gained on the one before or, if there is one stage, how far it was from its limit."""
    stages = outcome.elbos.shape[1]
    if stages == 1 or outcome.gaps[best, -1] > 0:
        return float(outcome.gaps[best, -1])
    with np.errstate(invalid="ignore"):  # −∞ after −∞ gained nothing that one could tell
        return float(outcome.elbos[best, -1] - outcome.elbos[best, -2])
