"""An exponential mean of gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import SHARE
from gladstorm.methods.estimators.estimator import Estimator, Grad


@part
class Momentum(Estimator):
    """v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1}; ξ^{k+1})."""

    eta: Number = leaf(SHARE)  #: η in (0, 1], the weight of the newest gradient
    queries: ClassVar[int] = 1

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        return jax.tree.map(lambda v, g: (1 - self.eta) * v + self.eta * g, state, grad(point))
