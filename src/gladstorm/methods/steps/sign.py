"""A step of the same size in every coordinate."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import STEP_SIZE
from gladstorm.methods.steps.step import Memoryless


@part
class Sign(Memoryless):
    """x^{k+1} = x^k − γ sign(v^k), coordinate by coordinate; sign(0) = 0."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        return jax.tree.map(lambda x, v: x - self.gamma * jnp.sign(v), x, v)
