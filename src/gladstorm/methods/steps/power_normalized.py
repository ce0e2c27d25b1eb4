"""Between a plain and a normalized step."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import STEP_SIZE, UNIT_INTERVAL
from gladstorm.methods.norms import length, unit
from gladstorm.methods.steps.step import Memoryless


@part
class PowerNormalized(Memoryless):
    """x^{k+1} = x^k − γ v^k/‖v^k‖^β: β = 0 is a plain step, β = 1 a normalized one (Chen et al. 2023)."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    beta: Number = leaf(UNIT_INTERVAL)  #: β in [0, 1]

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        scale = self.gamma * length(v) ** (1 - self.beta)
        return jax.tree.map(lambda x, u: x - scale * u, x, unit(v))
