"""Norms in which a step has length 1.

What is imported here is found by its name, by the command line and by the tests that every norm has to pass.
"""

from __future__ import annotations

from gladstorm.core.parts import parts_of
from gladstorm.methods.norms.matrices import Columns as Columns
from gladstorm.methods.norms.matrices import Layers as Layers
from gladstorm.methods.norms.matrices import NewtonSchulz as NewtonSchulz
from gladstorm.methods.norms.matrices import Rows as Rows
from gladstorm.methods.norms.matrices import Spectral as Spectral
from gladstorm.methods.norms.norm import Axes as Axes
from gladstorm.methods.norms.norm import Euclid as Euclid
from gladstorm.methods.norms.norm import PerLayer as PerLayer
from gladstorm.methods.norms.norm import Scaled as Scaled
from gladstorm.methods.norms.norm import Sign as Sign
from gladstorm.methods.norms.norm import Stacked as Stacked
from gladstorm.methods.norms.norm import StepNorm as StepNorm
from gladstorm.methods.norms.norm import is_finite as is_finite
from gladstorm.methods.norms.norm import length as length
from gladstorm.methods.norms.norm import unit as unit


def registry() -> dict[str, type[StepNorm]]:
    """The classes of all norms, by their names on the command line."""
    return dict(sorted(parts_of(globals(), StepNorm).items()))


__all__ = ["PerLayer", "StepNorm", "registry", *(cls.__name__ for cls in registry().values())]
