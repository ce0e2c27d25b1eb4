"""SPIDER and SpiderBoost: the same estimator, with a normalized and a plain step."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import COUNT
from gladstorm.methods.estimators.estimator import Estimator, Grad


class Recursive(Estimator):
    """v^{k+1} = v^k + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ), the recursion of SPIDER, SARAH and PAGE, and now and then afresh."""

    queries: ClassVar[int] = 2
    starts_afresh: ClassVar[bool] = True

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        return jax.tree.map(lambda v, g, stale: v + g - stale, state, grad(point), grad(previous))


@part
class Spider(Recursive):
    """v^{k+1} = v^k + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ), and a fresh gradient every q steps (Fang et al. 2018)."""

    q: Number = leaf(COUNT)  #: steps from one fresh gradient to the next, ≥ 1

    @override
    def refreshes(self, state: Any, k: Array, coin: Array) -> Array:
        """True at every q-th step."""
        return k % self.q == 0
