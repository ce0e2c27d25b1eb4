"""How x moves along the direction v: one file for each family of steps, found as `estimators` are."""

from __future__ import annotations

from gladstorm.core.parts import parts_of
from gladstorm.methods.steps.step import Anchored as Anchored
from gladstorm.methods.steps.step import Clipped as Clipped
from gladstorm.methods.steps.step import FromOptax as FromOptax
from gladstorm.methods.steps.step import GeneralizedSign as GeneralizedSign
from gladstorm.methods.steps.step import Memoryless as Memoryless
from gladstorm.methods.steps.step import Normalized as Normalized
from gladstorm.methods.steps.step import Plain as Plain
from gladstorm.methods.steps.step import Polyak as Polyak
from gladstorm.methods.steps.step import PowerNormalized as PowerNormalized
from gladstorm.methods.steps.step import Step as Step
from gladstorm.methods.steps.step import ThreeWayClipped as ThreeWayClipped
from gladstorm.methods.steps.step import WeightDecay as WeightDecay
from gladstorm.methods.steps.untuned import Untuned as Untuned


def registry() -> dict[str, type[Step]]:
    """The classes of all steps, by their names on the command line."""
    return dict(sorted(parts_of(globals(), Step).items()))


__all__ = ["Memoryless", "Step", "registry", *(cls.__name__ for cls in registry().values())]
