"""SAGA: the last gradient of every example of a finite sum is remembered."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, part
from gladstorm.methods.estimators.estimator import Estimator
from gladstorm.problems.oracles import OfExamples, Oracle


class Table(NamedTuple):
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
    def init(self, grad: Any, point: Any) -> Table:
        """v⁰ = ∇f(x⁰; ξ⁰)."""
        gradients = grad.oracle.examples(point)
        return self._corrected(jnp.zeros_like(gradients), grad.sample, gradients)

    @override
    def update(self, state: Table, grad: Any, previous: Any, point: Any) -> Table:
        return self._corrected(state.gradients, grad.sample, grad.oracle.examples(point))

    def _corrected(self, table: Array, weights: Array, gradients: Array) -> Table:
        v = weights @ (gradients - table) + table.mean(0)
        return Table(v, jnp.where(weights[:, None] > 0, gradients, table))

    @override
    def direction(self, state: Table) -> Array:
        return state.v

    @override
    def misfit(self, oracle: Oracle) -> str | None:
        """Only a finite sum has examples whose gradients can be remembered."""
        if isinstance(oracle, OfExamples):
            return None
        return f"Saga: the oracle must be a FiniteSum, whose examples can be remembered; got {type(oracle).__name__}."
