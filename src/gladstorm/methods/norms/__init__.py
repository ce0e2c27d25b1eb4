"""Norms in which a step has length 1; `lengths` has Euclid's for trees of any size, also cut over devices.

What is imported here is found by its name, by the command line and by the tests that every norm has to pass.
"""

from __future__ import annotations

from gladstorm.core.parts import parts_of
from gladstorm.methods.norms.lengths import Axes as Axes
from gladstorm.methods.norms.lengths import is_finite as is_finite
from gladstorm.methods.norms.lengths import length as length
from gladstorm.methods.norms.lengths import unit as unit
from gladstorm.methods.norms.matrices import Columns as Columns
from gladstorm.methods.norms.matrices import Layers as Layers
from gladstorm.methods.norms.matrices import NewtonSchulz as NewtonSchulz
from gladstorm.methods.norms.matrices import Rows as Rows
from gladstorm.methods.norms.matrices import Spectral as Spectral
from gladstorm.methods.norms.norm import ByTensor as ByTensor
from gladstorm.methods.norms.norm import Euclid as Euclid
from gladstorm.methods.norms.norm import PerLayer as PerLayer
from gladstorm.methods.norms.norm import Scaled as Scaled
from gladstorm.methods.norms.norm import Sign as Sign
from gladstorm.methods.norms.norm import Stacked as Stacked
from gladstorm.methods.norms.norm import StepNorm as StepNorm


def registry() -> dict[str, type[StepNorm]]:
    """The classes of all norms, by their names on the command line."""
    return dict(sorted(parts_of(globals(), StepNorm).items()))


__all__ = ["ByTensor", "PerLayer", "StepNorm", "registry", *(cls.__name__ for cls in registry().values())]
