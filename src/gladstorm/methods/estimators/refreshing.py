"""Estimators that start afresh with a large batch now and then, SPIDER, PAGE, SARAH, SVRG and SNVRG; and SAGA."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part, static
from gladstorm.core.rules import COUNT, FRACTION, NON_NEGATIVE
from gladstorm.methods.batches import level
from gladstorm.methods.estimators.estimator import Estimator, Grad
from gladstorm.methods.norms import length
from gladstorm.problems.oracles import Oracle


class Recursive(Estimator):
    """v^{k+1} = v^k + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ), the recursion of SPIDER, SARAH and PAGE, and now and then afresh."""

    queries: ClassVar[int] = 2

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

    @override
    def refreshes(self, state: Any, k: Array, coin: Array) -> Array:
        return coin < self.p


class Loop(NamedTuple):
    """State of `Sarah` within one pass of its loop."""

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


class Nest(NamedTuple):
    """Reference points of the levels 0..K−1 and reference gradients of the levels 0..K, stacked."""

    points: Any  # x^(l)
    gradients: Array  # g^(l)
    age: Array | int  # steps since all of it was renewed


@part
class Snvrg(Estimator):
    """v = Σ_l g^(l) over nested levels l = 0..K; loop l runs T_l times inside loop l − 1 (Zhou et al. 2018).

    When the loops below level r end, g^(r) = ∇f(x; ξ) − ∇f(x^(r−1); ξ), x^(l) = x for l ≥ r, and g^(l) = 0 for l > r.
    When all loops have ended, g^(0) is a fresh gradient.
    """

    loops: tuple[int, ...] = static(COUNT, default=(2, 2, 4))  #: T_1..T_K, the runs of each loop in the one before
    queries: ClassVar[int] = 2

    @override
    def init(self, grad: Grad, point: Any) -> Nest:
        g = grad(point)
        levels = len(self.loops)
        points = jax.tree.map(lambda a: jnp.stack([a] * levels), point)
        return Nest(points, jnp.zeros((levels + 1, *g.shape), g.dtype).at[0].set(g), 0)

    @override
    def update(self, state: Nest, grad: Grad, previous: Any, point: Any) -> Nest:
        r = level(state.age + 1, self.loops)
        reference = jax.tree.map(lambda a: a[r - 1], state.points)
        renewed = grad(point) - grad(reference)
        levels = jnp.arange(len(self.loops) + 1)[:, None]
        gradients = jnp.where(levels < r, state.gradients, jnp.where(levels == r, renewed, 0))
        points = jax.tree.map(
            lambda old, new: jnp.where(levels[:-1].reshape(-1, *[1] * jnp.ndim(new)) < r, old, new), state.points, point
        )
        return Nest(points, gradients, state.age + 1)

    @override
    def direction(self, state: Nest) -> Any:
        return state.gradients.sum(0)

    @override
    def refreshes(self, state: Nest, k: Array, coin: Array) -> Array:
        return k % math.prod(self.loops) == 0


class SagaState(NamedTuple):
    """v and a gradient a_i for each example."""

    v: Array
    gradients: Array  # (n, d)


@part
class Saga(Estimator):
    """v = Σ_i w_i (∇f_i(x) − a_i) + mean(a), w_i the share of example i in the batch; then a_i = ∇f_i(x) where w_i > 0.

    Defazio et al. 2014, for batches. At first a_i is ∇f_i(x⁰) for the examples of the first batch, and 0 for the
    others.
    """

    queries: ClassVar[int] = 1

    @override
    def init(self, grad: Any, point: Any) -> SagaState:
        gradients = grad.oracle.examples(point)
        return self._corrected(jnp.zeros_like(gradients), grad.sample, gradients)

    @override
    def update(self, state: SagaState, grad: Any, previous: Any, point: Any) -> SagaState:
        return self._corrected(state.gradients, grad.sample, grad.oracle.examples(point))

    def _corrected(self, table: Array, weights: Array, gradients: Array) -> SagaState:
        v = weights @ (gradients - table) + table.mean(0)
        return SagaState(v, jnp.where(weights[:, None] > 0, gradients, table))

    @override
    def direction(self, state: SagaState) -> Array:
        return state.v

    @override
    def incompatible(self, oracle: Oracle) -> str | None:
        if hasattr(oracle, "examples"):
            return None
        return f"Saga: the oracle must be a FiniteSum, whose examples can be remembered; got {type(oracle).__name__}."
