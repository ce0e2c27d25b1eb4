"""A step of fixed length along v."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import STEP_SIZE
from gladstorm.methods.norms import unit
from gladstorm.methods.steps.step import Memoryless


@part
class Normalized(Memoryless):
    """x^{k+1} = x^k − γ v^k/‖v^k‖, with one norm over all of v; x does not move if v = 0."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        return jax.tree.map(lambda x, u: x - self.gamma * u, x, unit(v))
