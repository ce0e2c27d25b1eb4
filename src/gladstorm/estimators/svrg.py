"""SVRG in loops."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import COUNT


class Reference(NamedTuple):
    """v, and the point it is corrected with."""

    v: Any
    snapshot: Any  # x̃
    gradient: Any  # μ, of a large batch at x̃


class FromReference(Estimator):
    """v = ∇f(x; ξ) − ∇f(x̃; ξ) + μ; where it starts afresh x̃ = x and v = μ = ∇f(x; ξ)."""

    queries: ClassVar[int] = 2

    def init(self, grad: Grad, point: Any) -> Reference:
        """A new snapshot."""
        gradient = grad(point)
        return Reference(gradient, point, gradient)

    def update(self, state: Reference, grad: Grad, previous: Any, point: Any) -> Reference:  # noqa: ARG002 - shared
        """See the class."""
        v = jax.tree.map(lambda g, old, mu: g - old + mu, grad(point), grad(state.snapshot), state.gradient)
        return state._replace(v=v)

    def direction(self, state: Reference) -> Any:
        """v."""
        return state.v


@part
class Svrg(FromReference):
    """v^{k+1} = ∇f(x^{k+1}; ξ) − ∇f(x̃; ξ) + μ; every q steps x̃ = x^{k+1} and v = μ = a fresh gradient there.

    Johnson and Zhang 2013. Their μ is the exact gradient of a finite sum; on a stream it is that of the rule's batch.
    """

    q: Number = leaf(COUNT)

    def refreshes(self, state: Reference, k: Array, coin: Any) -> Any:  # noqa: ARG002 - shared signature
        """Every q-th step."""
        return k % self.q == 0
