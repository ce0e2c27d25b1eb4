"""The five methods the paper compares, by the names its figures give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gladstorm.methods import Method, sgd, storm
from gladstorm.methods.batches import GrowWithDistance

NSGDM: Final = "NSGDM"
NSTORM: Final = "NSTORM"
SGD: Final = "SGD"
SGD_DYNAMIC: Final = "SGD, dynamic batch"
STORM_DYNAMIC: Final = "STORM, dynamic batch"

STORM_ETA: Final = 0.1  # η of the tuned STORM, which the paper does not state

# The methods whose step size is searched for: step sizes, and the rule of batches that grow, to a method.
TUNED: Final[dict[str, Callable[[list[float], GrowWithDistance], Method]]] = {
    SGD: lambda gammas, _: sgd(gammas),
    SGD_DYNAMIC: lambda gammas, growing: sgd(gammas, batch=growing),
    STORM_DYNAMIC: lambda gammas, growing: storm(gammas, STORM_ETA, batch=growing),
}
NORMALIZED: Final = (NSGDM, NSTORM)
DYNAMIC: Final = (SGD_DYNAMIC, STORM_DYNAMIC)
COMPARED: Final = (*NORMALIZED, *TUNED)
