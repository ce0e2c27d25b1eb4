"""Whether a fit is likely to be the best of its family: what the end of its run and its starts say."""

from __future__ import annotations

import numpy as np

from gladstorm.variational.run import Outcome

NATS = 1.0  # starts whose ELBOs differ by more disagree
STILL_GAINING = 0.3  # nats: a last stage that gains more had not arrived
SKIPPED = 0.01  # of the gradients
ROUNDING = 0.1  # nats


def judge(outcome: Outcome, weights: np.ndarray, rounding: float) -> tuple[str, ...]:
    """Reasons to doubt a fit, as sentences; none if there is nothing to say.

    Args:
        outcome: What the run found.
        weights: log p − log q at draws of the best start.
        rounding: The relative error of a number.
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
    others = np.sort(np.delete(elbos, best))
    if others.size and not others[-1] > elbos[best] - NATS:
        said.append(
            f"No other start came within {NATS:g} nat of the best one: it has an ELBO of {elbos[best]:.2f}, the next "
            f"{others[-1]:.2f}. There may be a better one still: take more steps or more starts."
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


def _within_reach(outcome: Outcome, best: int) -> float:
    """What the last stage gained on the one before or, if there is one stage, how far it was from its limit."""
    stages = outcome.elbos.shape[1]
    if stages == 1 or outcome.gaps[best, -1] > 0:
        return float(outcome.gaps[best, -1])
    with np.errstate(invalid="ignore"):  # −∞ after −∞ gained nothing that one could tell
        return float(outcome.elbos[best, -1] - outcome.elbos[best, -2])
