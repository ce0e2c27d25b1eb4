"""A step along v, shorter the longer v is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import NEVER_ZERO, STEP_SIZE
from gladstorm.methods.norms import length
from gladstorm.methods.steps.step import Memoryless


@part
class ThreeWayClipped(Memoryless):
    """x^{k+1} = x^k − γ min{1, c₀/‖v^k‖, c₁/‖v^k‖²} v^k (Reisizadeh et al. 2025)."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    c0: Number = leaf(NEVER_ZERO)  #: > 0
    c1: Number = leaf(NEVER_ZERO)  #: > 0

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        size = length(v)
        scale = self.gamma * jnp.minimum(1, jnp.minimum(self.c0 / size, self.c1 / size**2))
        return jax.tree.map(lambda x, v: x - scale * v, x, v)
