"""A step along v, cut to a length."""

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
class Clipped(Memoryless):
    """x^{k+1} = x^k − γ min{1, c/‖v^k‖} v^k (Zhang et al. 2019)."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    c: Number = leaf(NEVER_ZERO)  #: the length of v, > 0, above which it is cut

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        scale = self.gamma * jnp.minimum(1, self.c / length(v))
        return jax.tree.map(lambda x, v: x - scale * v, x, v)
