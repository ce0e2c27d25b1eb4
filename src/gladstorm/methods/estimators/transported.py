"""Implicit gradient transport: the estimator of NIGT."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import FRACTION
from gladstorm.methods.estimators.estimator import Estimator


@part
class Transported(Estimator):
    """v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1} + (1 − η)/η (x^{k+1} − x^k); ξ^{k+1}) (Cutkosky and Mehta 2020)."""

    eta: Number = leaf(FRACTION)  #: η in (0, 1], the weight of the newest gradient
    queries: ClassVar[int] = 1

    @override
    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        ahead = grad.at(point.x + (1 - self.eta) / self.eta * (point.x - previous.x))
        return (1 - self.eta) * state + self.eta * grad(ahead)
