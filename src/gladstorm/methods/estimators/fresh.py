"""The gradient of the current sample."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from gladstorm.core.parts import part
from gladstorm.methods.estimators.estimator import Estimator, Grad


@part
class Fresh(Estimator):
    """v^{k+1} = ∇f(x^{k+1}; ξ^{k+1})."""

    queries: ClassVar[int] = 1

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        return grad(point)
