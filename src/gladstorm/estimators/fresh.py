"""The gradient of the current sample."""

from __future__ import annotations

from typing import Any, ClassVar

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.parts import part


@part
class Fresh(Estimator):
    """v^{k+1} = ∇f(x^{k+1}; ξ^{k+1})."""

    queries: ClassVar[int] = 1

    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:  # noqa: ARG002 - shared signature
        """See the class."""
        return grad(point)
