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


@part
class Svrg(Estimator):
    """v^{k+1} = ∇f(x^{k+1}; ξ) − ∇f(x̃; ξ) + μ; every q steps x̃ = x^{k+1} and v = μ = a fresh gradient there.

    Johnson and Zhang 2013. Their μ is the exact gradient of a finite sum; on a stream it is that of the rule's batch.
    """

    q: Number = leaf(COUNT)
    queries: ClassVar[int] = 2

    def init(self, grad: Grad, point: Any) -> Reference:
        """A new snapshot."""
        return snapshot(grad, point)

    def update(self, state: Reference, grad: Grad, previous: Any, point: Any) -> Reference:  # noqa: ARG002 - shared
        """See the class."""
        return corrected(state, grad, point)

    def direction(self, state: Reference) -> Any:
        """v."""
        return state.v

    def refreshes(self, state: Reference, k: Array, coin: Any) -> Any:  # noqa: ARG002 - shared signature
        """Every q-th step."""
        return k % self.q == 0


def snapshot(grad: Grad, point: Any) -> Reference:
    """x̃ = x, v = μ = ∇f(x; ξ)."""
    gradient = grad(point)
    return Reference(gradient, point, gradient)


def corrected(state: Reference, grad: Grad, point: Any) -> Reference:
    """v = ∇f(x; ξ) − ∇f(x̃; ξ) + μ."""
    v = jax.tree.map(lambda g, old, mu: g - old + mu, grad(point), grad(state.snapshot), state.gradient)
    return Reference(v, state.snapshot, state.gradient)
