"""SPIDER and SpiderBoost: the same estimator, with a normalized and a plain step."""

from __future__ import annotations

from typing import Any, ClassVar

import jax

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import COUNT


@part
class Spider(Estimator):
    """v^{k+1} = v^k + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ), and every q steps a fresh gradient (Fang et al. 2018)."""

    q: Number = leaf(COUNT)
    queries: ClassVar[int] = 2

    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        """See the class."""
        return recursive(state, grad, previous, point)

    def refreshes(self, state: Any, k: Array, coin: Any) -> Any:  # noqa: ARG002 - shared signature
        """Every q-th step."""
        return k % self.q == 0


def recursive(v: Any, grad: Grad, previous: Any, point: Any) -> Any:
    """v + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ): the recursion SPIDER, SARAH and PAGE share."""
    return jax.tree.map(lambda v, g, stale: v + g - stale, v, grad(point), grad(previous))
