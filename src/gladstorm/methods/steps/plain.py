"""A step along v."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import STEP_SIZE
from gladstorm.methods.steps.step import Memoryless


@part
class Plain(Memoryless):
    """x^{k+1} = x^k − γ v^k."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        return jax.tree.map(lambda x, v: x - self.gamma * v, x, v)
