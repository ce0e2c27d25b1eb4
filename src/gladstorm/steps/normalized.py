"""A step of fixed length along v."""

from __future__ import annotations

from typing import Any

import jax

from gladstorm.norms import unit
from gladstorm.parts import Number, leaf, part
from gladstorm.rules import POSITIVE
from gladstorm.steps.step import Memoryless


@part
class Normalized(Memoryless):
    """x^{k+1} = x^k − γ v^k/‖v^k‖, one norm over all of v; x stays where v = 0."""

    gamma: Number = leaf(POSITIVE)  # γ

    def __call__(self, x: Any, v: Any) -> Any:
        """See the class."""
        return jax.tree.map(lambda x, u: x - self.gamma * u, x, unit(v))
