"""Estimators that remember a gradient of every example, or of every client: SAGA, and EF21 with momentum."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, Number, leaf, part, static
from gladstorm.core.rules import COUNT, SHARE
from gladstorm.methods.estimators.estimator import Estimator, Grad
from gladstorm.problems.oracles import Oracle


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


class Clients(NamedTuple):
    """A row per client; no rows if there is only one."""

    momentum: Array  # v_i
    sent: Array  # g_i, what the server knows of v_i


@part
class ErrorFeedback(Estimator):
    """v_i ← (1 − η) v_i + η ∇f(x; ξ_i), g_i ← g_i + C(v_i − g_i); the direction is the mean of the g_i.

    C keeps the k largest entries and sets the others to 0; at first g_i = C(∇f(x⁰; ξ_i)). All n clients sample the
    same f (Khirirat et al. 2025).
    """

    eta: Number = leaf(SHARE)  #: η in (0, 1], the weight of the newest gradient
    k: Number = leaf(COUNT)  #: entries that a client sends per step, ≥ 1
    clients: int = static(COUNT, default=1)  #: n ≥ 1, how many clients there are
    queries: ClassVar[int] = 1

    @property
    @override
    def samples(self) -> int:
        return self.clients

    @override
    def init(self, grad: Grad, point: Any) -> Clients:
        momentum = grad(point)
        return Clients(momentum, largest(momentum, self.k))

    @override
    def update(self, state: Clients, grad: Grad, previous: Any, point: Any) -> Clients:
        momentum = equations.momentum(state.momentum, grad(point), self.eta)
        return Clients(momentum, state.sent + largest(momentum - state.sent, self.k))

    @override
    def direction(self, state: Clients) -> Array:
        return state.sent if self.clients == 1 else state.sent.mean(0)

    @override
    def incompatible(self, oracle: Oracle) -> str | None:
        dim = oracle.objective.start.size
        return f"ErrorFeedback: k must be at most the dimension, {dim}; got k={self.k:g}." if self.k > dim else None


def largest(v: Array, k: Array | float) -> Array:
    """The k entries of v, or of each row, that are largest in size; the others 0.

    >>> largest(jnp.array([1.0, -3.0, 2.0]), 2).tolist()
    [0.0, -3.0, 2.0]
    """
    rank = jnp.argsort(jnp.argsort(-jnp.abs(v), axis=-1), axis=-1)
    return jnp.where(rank < k, v, 0)
