"""NSGDM, normalized SGD with momentum, as an Optax transformation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gladstorm.core.parts import Array
from gladstorm.methods.estimators import Momentum
from gladstorm.optax.from_theory import FromTheory
from gladstorm.optax.options import AxisName, UpdateSchedule, at, check, require_axes
from gladstorm.optax.trees import (
    NOW,
    Tree,
    cast_like,
    decayed,
    estimate,
    how_many,
    move,
    nothing_formed,
    usable,
    where,
    with_gradients,
    zero_estimate,
)


class NsgdmState(NamedTuple):
    """What NSGDM remembers: the number of updates, the estimate v, whether there is one, and how many were skipped."""

    count: Array  # type: ignore[assignment]  # updates so far; the name Optax gives it is one of a tuple's methods
    estimate: Tree  # v
    formed: Tree  # whether v is an estimate; with norm="tensor", for each leaf
    skipped: Array  # updates that moved nothing, because v was not finite; with norm="tensor", leaves that did not move


class _Nsgdm(FromTheory):
    """NSGDM, normalized SGD with momentum: v ← momentum · v + (1 − momentum) · grads, x ← x − learning_rate · v/‖v‖.

    v⁰ is the first gradient, without bias correction. To accumulate gradients, put `optax.MultiSteps` around it.
    `gladstorm.optax` explains the options.

    >>> optimizer = nsgdm(learning_rate=0.5)
    >>> updates, state = optimizer.update(jnp.array([3.0, 4.0]), optimizer.init(jnp.zeros(2)))
    >>> [round(entry, 6) for entry in updates.tolist()], state.estimate.tolist()
    ([-0.3, -0.4], [3.0, 4.0])
    """

    method = "nsgdm"

    def __call__(
        self,
        learning_rate: float | Array | UpdateSchedule,
        momentum: float | Array | UpdateSchedule = 0.9,
        *,
        weight_decay: float | Array = 0.0,
        norm: str = "global",
        axis_name: AxisName | None = None,
    ) -> optax.GradientTransformationExtraArgs:
        """Make the transformation. Its `update` accepts NSTORM's extra arguments, and any others, and ignores them."""
        check("nsgdm", norm, learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)

        def init(params: Tree) -> NsgdmState:
            v = zero_estimate(params)
            return NsgdmState(jnp.zeros((), jnp.int32), v, *nothing_formed(v, norm, axis_name))

        def update(updates: Tree, state: NsgdmState, params: Tree = None, **_: Any) -> tuple[Tree, NsgdmState]:
            require_axes("nsgdm", axis_name, state.estimate)
            params = None if params is None else with_gradients(params, updates)
            estimator = Momentum(1 - at(momentum, state.count))
            v = estimate(estimator, state.formed, state.estimate, {NOW: cast_like(updates, state.estimate)})
            good, zero = usable(v, norm, axis_name), jax.tree.map(jnp.zeros_like, v)
            gamma = at(learning_rate, state.count)
            moved = decayed("nsgdm", move(gamma, v, norm, axis_name), params, gamma, weight_decay)
            return cast_like(where(good, moved, zero), updates if params is None else params), NsgdmState(
                count=optax.safe_increment(state.count),
                estimate=where(good, v, zero),
                formed=good,
                skipped=state.skipped + how_many(jax.tree.map(jnp.logical_not, good)),
            )

        return optax.GradientTransformationExtraArgs(init, update)


nsgdm = _Nsgdm()
