"""Generalized SignSGD: between a sign step and Adam's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import BELOW_ONE, STEP_SIZE
from gladstorm.methods.steps.step import Step


@part
class GeneralizedSign(Step):
    """u ← β₂ u + (1 − β₂) v², x ← x − γ v/√u, coordinate by coordinate, starting with u = 0, and 0/0 = 0.

    Crawshaw et al. 2022; their code adds 1e-8 to √u. With β₂ = 0 it is a sign step.
    """

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    beta2: Number = leaf(BELOW_ONE, default=0.999)  #: β₂ in [0, 1)

    @override
    def init(self, x: Any) -> Any:
        """u = 0."""
        return jax.tree.map(jnp.zeros_like, x)

    @override
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        u = jax.tree.map(lambda u, v: self.beta2 * u + (1 - self.beta2) * v**2, memory, v)
        return jax.tree.map(lambda x, v, u: x - self.gamma * v / jnp.where(u == 0, 1, jnp.sqrt(u)), x, v, u), u
