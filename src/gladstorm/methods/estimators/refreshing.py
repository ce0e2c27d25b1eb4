"""Estimators that start afresh with a large batch now and then: SPIDER, PAGE, SARAH and SVRG."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import COUNT, FRACTION, NON_NEGATIVE
from gladstorm.methods.estimators.estimator import Estimator, Grad
from gladstorm.methods.norms import length


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
        return k % self.q == 0


@part
class Page(Recursive):
    """With probability p a fresh gradient, else v^{k+1} = v^k + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ) (Li et al. 2021)."""

    p: Number = leaf(FRACTION)  #: the probability in (0, 1] of a fresh gradient
    flips: ClassVar[bool] = True

    @override
    def refreshes(self, state: Any, k: Array, coin: Array) -> Array:
        return coin < self.p


class Loop(NamedTuple):
    """One pass of the loop."""

    v: Any
    first: Array  # ‖v‖ where the loop began
    age: Array | int  # steps since


@part
class Sarah(Recursive):
    """SPIDER's recursion for m steps, or until ‖v‖² ≤ c ‖v at the loop's start‖²; then a fresh gradient.

    c = 0 is SARAH and c = 1/8 is SARAH+ (Nguyen et al. 2017). There a loop starts at a random iterate of the loop
    before; here it starts where that loop ended, since an estimator does not move x and no paid step is thrown away.
    """

    m: Number = leaf(COUNT)  #: the most steps of a loop, ≥ 1
    shrink: Number = leaf(NON_NEGATIVE, default=0.0)  #: c ≥ 0

    @override
    def init(self, grad: Grad, point: Any) -> Loop:
        v = grad(point)
        return Loop(v, length(v), 0)

    @override
    def update(self, state: Loop, grad: Grad, previous: Any, point: Any) -> Loop:
        return Loop(super().update(state.v, grad, previous, point), state.first, state.age + 1)

    @override
    def direction(self, state: Loop) -> Any:
        return state.v

    @override
    def refreshes(self, state: Loop, k: Array, coin: Array) -> Array:
        return (state.age >= self.m) | (length(state.v) ** 2 <= self.shrink * state.first**2)


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
        return k % self.q == 0
