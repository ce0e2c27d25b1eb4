"""A step of the same size in every coordinate."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gladstorm.parts import Number, leaf, part
from gladstorm.rules import POSITIVE
from gladstorm.steps.step import Memoryless


@part
class Sign(Memoryless):
    """x^{k+1} = x^k − γ sign(v^k), coordinate by coordinate; sign(0) = 0."""

    gamma: Number = leaf(POSITIVE)  # γ

    def __call__(self, x: Any, v: Any) -> Any:
        """See the class."""
        return jax.tree.map(lambda x, v: x - self.gamma * jnp.sign(v), x, v)
