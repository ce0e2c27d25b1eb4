"""Polyak's step, from a lower bound of f."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gladstorm.norms import length
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import COUNT, FINITE
from gladstorm.steps.step import Step


@part
class Polyak(Step):
    """x^{k+1} = x^k − (f(x^k) − l)/(√T ‖v^k‖²) v^k, from the exact value of f (Takezawa et al. 2024).

    T is the horizon of their inexact form, for a lower bound l below inf f; T = 1 and l = inf f is Polyak's own.
    """

    lower: Number = leaf(FINITE)  # l
    horizon: Number = leaf(COUNT, default=1)  # T

    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        """See the class."""
        size = length(v)
        scale = (f(x) - self.lower) / (jnp.sqrt(self.horizon) * jnp.where(size == 0, 1, size) ** 2)
        return jax.tree.map(lambda x, v: x - scale * v, x, v), memory
