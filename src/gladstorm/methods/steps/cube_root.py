"""STORM+'s step, whose length comes from the directions so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import FRACTION, STEP_SIZE
from gladstorm.methods.norms import length
from gladstorm.methods.steps.step import Step


@part
class CubeRoot(Step):
    """S ← S + ‖v^k‖²/η, x^{k+1} = x^k − γ v^k/S^{1/3}, starting with S = 0, and 0/0 = 0 (Levy et al. 2021, γ = 1)."""

    gamma: Number = leaf(STEP_SIZE)  #: γ > 0, a factor of the step size
    eta: Number = leaf(FRACTION)  #: η in (0, 1] of the estimate that follows

    @override
    def init(self, x: Any) -> Array:
        """S = 0."""
        return jnp.zeros(())

    @override
    def move(self, memory: Array, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Array]:
        total = memory + length(v) ** 2 / self.eta
        scale = self.gamma / jnp.cbrt(jnp.where(total == 0, 1, total))
        return jax.tree.map(lambda x, v: x - scale * v, x, v), total
