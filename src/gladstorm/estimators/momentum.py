"""An exponential mean of gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import jax

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.parts import Number, leaf, part
from gladstorm.rules import FRACTION


@part
class Momentum(Estimator):
    """v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1}; ξ^{k+1})."""

    eta: Number = leaf(FRACTION)  # η
    queries: ClassVar[int] = 1

    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:  # noqa: ARG002 - shared signature
        """See the class."""
        return jax.tree.map(lambda v, g: (1 - self.eta) * v + self.eta * g, state, grad(point))
