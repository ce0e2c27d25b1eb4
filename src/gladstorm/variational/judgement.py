"""Whether a fit is likely to be the best of its family: what its starts and the end of its run say."""

from __future__ import annotations

import numpy as np

from gladstorm.variational.run import Outcome

NATS = 1.0  # starts whose ELBOs differ by more disagree


def judge(outcome: Outcome, weights: np.ndarray) -> tuple[str, ...]:
    """Reasons to doubt a fit, as sentences; none if there is nothing to say."""
    said = []
    best = outcome.elbos.max()
    near = int(np.sum(outcome.elbos > best - NATS))
    if not np.isfinite(weights).all():
        said.append("The log density is not finite at some draws of the fit.")
    if len(outcome.elbos) > 1 and near == 1:
        second = np.sort(outcome.elbos)[-2]
        said.append(
            f"No other start came within {NATS:g} nat of the best one ({best:.2f}; the next is {second:.2f}): "
            "there may be better ones. Try more steps."
        )
    share = outcome.skipped.max() / outcome.steps[-1]
    if share > 0.01:
        said.append(f"{100 * share:.0f} % of the gradients of a start were not finite; the run stepped back each time.")
    return tuple(said)
