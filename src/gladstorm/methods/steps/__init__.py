"""How x moves along the direction v. One file per step, as in `estimators`."""

from __future__ import annotations

from gladstorm.core.parts import discover
from gladstorm.methods.steps.anchored import Anchored
from gladstorm.methods.steps.clipped import Clipped
from gladstorm.methods.steps.cube_root import CubeRoot
from gladstorm.methods.steps.from_optax import FromOptax
from gladstorm.methods.steps.generalized_sign import GeneralizedSign
from gladstorm.methods.steps.normalized import Normalized
from gladstorm.methods.steps.plain import Plain
from gladstorm.methods.steps.polyak import Polyak
from gladstorm.methods.steps.power_normalized import PowerNormalized
from gladstorm.methods.steps.sign import Sign
from gladstorm.methods.steps.steered import Steered
from gladstorm.methods.steps.step import Memoryless, Step
from gladstorm.methods.steps.three_way_clipped import ThreeWayClipped

__all__ = [
    "Anchored",
    "Clipped",
    "CubeRoot",
    "FromOptax",
    "GeneralizedSign",
    "Memoryless",
    "Normalized",
    "Plain",
    "Polyak",
    "PowerNormalized",
    "Sign",
    "Steered",
    "Step",
    "ThreeWayClipped",
    "registry",
]


def registry() -> dict[str, type[Step]]:
    """The classes of all steps, by their names on the command line.

    >>> registry()["plain"].__name__
    'Plain'
    """
    return discover(__name__, Step)
