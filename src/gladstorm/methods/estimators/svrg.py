"""SVRG: every sample is corrected by its gradient at a reference point."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import COUNT
from gladstorm.methods.estimators.estimator import Estimator, Grad


class AtReference(NamedTuple):
    """v, and the point it is corrected with."""

    v: Any
    snapshot: Any  # x̃
    gradient: Any  # μ, of a large batch at x̃


@part
class Svrg(Estimator):
    """v^{k+1} = ∇f(x^{k+1}; ξ) − ∇f(x̃; ξ) + μ; every q steps x̃ = x^{k+1} and v = μ = a fresh gradient there.

    Johnson and Zhang 2013. There μ is the exact gradient of a finite sum; on a stream it is the gradient of a large
    batch.
    """

    q: Number = leaf(COUNT)  #: steps from one fresh gradient to the next, ≥ 1
    queries: ClassVar[int] = 2
    starts_afresh: ClassVar[bool] = True

    @override
    def init(self, grad: Grad, point: Any) -> AtReference:
        """The state with a new reference point x̃."""
        gradient = grad(point)
        return AtReference(gradient, point, gradient)

    @override
    def update(self, state: AtReference, grad: Grad, previous: Any, point: Any) -> AtReference:
        v = jax.tree.map(lambda g, old, mu: g - old + mu, grad(point), grad(state.snapshot), state.gradient)
        return state._replace(v=v)

    @override
    def direction(self, state: AtReference) -> Any:
        return state.v

    @override
    def refreshes(self, state: AtReference, k: Array, coin: Array) -> Array:
        """True at every q-th step."""
        return k % self.q == 0
