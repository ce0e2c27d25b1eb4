"""A step along v."""

from __future__ import annotations

from typing import Any

import jax

from gladstorm.parts import Number, leaf, part
from gladstorm.rules import POSITIVE
from gladstorm.steps.step import Memoryless


@part
class Plain(Memoryless):
    """x^{k+1} = x^k − γ v^k."""

    gamma: Number = leaf(POSITIVE)  # γ

    def __call__(self, x: Any, v: Any) -> Any:
        """See the class."""
        return jax.tree.map(lambda x, v: x - self.gamma * v, x, v)
