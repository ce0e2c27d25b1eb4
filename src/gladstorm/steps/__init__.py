"""How x moves along the direction v. One file per step, as in `estimators`."""

from __future__ import annotations

from gladstorm.norms import length, unit
from gladstorm.parts import found
from gladstorm.steps.anchored import Anchored
from gladstorm.steps.clipped import Clipped
from gladstorm.steps.from_optax import FromOptax
from gladstorm.steps.generalized_sign import GeneralizedSign
from gladstorm.steps.normalized import Normalized
from gladstorm.steps.plain import Plain
from gladstorm.steps.polyak import Polyak
from gladstorm.steps.power_normalized import PowerNormalized
from gladstorm.steps.sign import Sign
from gladstorm.steps.step import Step
from gladstorm.steps.three_way_clipped import ThreeWayClipped

__all__ = [
    "Anchored",
    "Clipped",
    "FromOptax",
    "GeneralizedSign",
    "Normalized",
    "Plain",
    "Polyak",
    "PowerNormalized",
    "Sign",
    "Step",
    "ThreeWayClipped",
    "length",
    "registry",
    "unit",
]


def registry() -> dict[str, type[Step]]:
    """Every step by its name on the command line.

    >>> registry()["plain"].__name__
    'Plain'
    """
    return found(__name__, Step)
