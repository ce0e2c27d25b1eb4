"""The five methods the paper compares, by the names its figures give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gladstorm.batches import BatchRule, GrowWithDistance
from gladstorm.methods import Method, nsgdm, nstorm, sgd, storm
from gladstorm.theory import Schedule

NSGDM: Final = "NSGDM"
NSTORM: Final = "NSTORM"
SGD: Final = "SGD"
SGD_DYNAMIC: Final = "SGD, dynamic batch"
STORM_DYNAMIC: Final = "STORM, dynamic batch"
NORMALIZED: Final = (NSGDM, NSTORM)
DYNAMIC: Final = (SGD_DYNAMIC, STORM_DYNAMIC)
TUNED: Final = (SGD, *DYNAMIC)
METHODS: Final = (*NORMALIZED, *TUNED)

STORM_ETA: Final = 0.1  # η of the tuned STORM, which the paper does not state


def scheduled(name: str, schedule: Schedule, gammas: Sequence[float]) -> Method:
    """A normalized method with a theorem's η and N_init, and the step sizes given."""
    if name == NSGDM:
        return nsgdm(gamma=list(gammas), eta=schedule.eta)
    return nstorm(gamma=list(gammas), eta=schedule.eta, n_init=schedule.n_init)


def tuned(name: str, gammas: Sequence[float], growing: GrowWithDistance) -> Method:
    """A method whose step size is searched for, with single samples or with the batches that grow."""
    batch: int | BatchRule = 1 if name == SGD else growing
    return storm(list(gammas), STORM_ETA, batch=batch) if name == STORM_DYNAMIC else sgd(list(gammas), batch=batch)
