"""Polyak's step, from a lower bound of f."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import COUNT, FINITE
from gladstorm.methods.norms import length
from gladstorm.methods.steps.step import Step


@part
class Polyak(Step):
    """x^{k+1} = x^k − (f(x^k) − l)/(√T ‖v^k‖²) v^k, from the exact value of f (Takezawa et al. 2024).

    With T = 1 and l = inf f this is Polyak's own step. T is the horizon of the inexact form, whose l may be below inf
    f.
    """

    lower: Number = leaf(FINITE)  #: l, a lower bound of f
    horizon: Number = leaf(COUNT, default=1)  #: T ≥ 1

    @override
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        size = length(v)
        scale = (f(x) - self.lower) / (jnp.sqrt(self.horizon) * jnp.where(size == 0, 1, size) ** 2)
        return jax.tree.map(lambda x, v: x - scale * v, x, v), memory
