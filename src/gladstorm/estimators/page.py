"""PAGE: SPIDER's recursion, started afresh by a coin."""

from __future__ import annotations

from typing import Any, ClassVar

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.estimators.spider import recursive
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import FRACTION


@part
class Page(Estimator):
    """With probability p a fresh gradient, else v^{k+1} = v^k + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ) (Li et al. 2021)."""

    p: Number = leaf(FRACTION)
    queries: ClassVar[int] = 2
    flips: ClassVar[bool] = True

    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        """See the class."""
        return recursive(state, grad, previous, point)

    def refreshes(self, state: Any, k: Array, coin: Any) -> Any:  # noqa: ARG002 - shared signature
        """With probability p."""
        return coin < self.p
