"""Recursive momentum: STORM."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import SHARE
from gladstorm.methods.estimators.estimator import Estimator, Grad


@part
class Storm(Estimator):
    """v^{k+1} = ∇f(x^{k+1}; ξ^{k+1}) + (1 − η) (v^k − ∇f(x^k; ξ^{k+1})): one sample at two points."""

    eta: Number = leaf(SHARE)  #: η in (0, 1], the weight of the newest gradient
    queries: ClassVar[int] = 2

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        return jax.tree.map(lambda g, v, stale: g + (1 - self.eta) * (v - stale), grad(point), state, grad(previous))
