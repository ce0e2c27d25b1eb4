"""NSGDM, normalized SGD with momentum, as an Optax transformation."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gladstorm.core import equations
from gladstorm.core.parts import Array
from gladstorm.optax import trees
from gladstorm.optax.options import AxisName, NormOption, UpdateSchedule, at, check, require_axes
from gladstorm.optax.trees import Tree


class NsgdmState(NamedTuple):
    """State of NSGDM: the number of updates, the estimate v, whether there is one, and how many were skipped."""

    count: Array  # type: ignore[assignment]  # updates so far; the name Optax gives it is one of a tuple's methods
    estimate: Tree  # v
    formed: Tree  # whether v is an estimate; for each leaf, if each has its own norm
    skipped: Array  # updates that moved nothing, because v was not finite; leaves, if each has its own norm


def nsgdm(
    learning_rate: float | Array | UpdateSchedule,
    momentum: float | Array | UpdateSchedule = 0.9,
    *,
    weight_decay: float | Array = 0.0,
    norm: NormOption = "global",
    axis_name: AxisName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """NSGDM, normalized SGD with momentum: v ← momentum · v + (1 − momentum) · grads, x ← x − learning_rate · v/‖v‖.

    v⁰ is the first gradient, without bias correction. To accumulate gradients, put `optax.MultiSteps` around it.

    An update has length `learning_rate`, or is 0 if the estimate is 0. Estimates are kept in float32 at least; updates
    have the dtypes of the parameters. If v is not finite, the update is 0, even its weight decay, `state.skipped`
    counts one more, and the next gradient starts a new estimate, as in torch.

    Args:
        learning_rate: γ ≥ 0, the length of an update without its weight decay; a number or a schedule.
        momentum: 1 − η in [0, 1), the weight of the old estimate; a number or a schedule.
        weight_decay: A number ≥ 0. The update also has −learning_rate · weight_decay · params, as in torch and
            `optax.adamw`.
        norm: "global", the paper's method, has one Euclidean norm over the whole tree; "tensor" gives each leaf a step
            of its own length. `by_layer`, or a function of your own of a leaf's name and the leaf, gives each leaf a
            norm of `gladstorm.norms`; one of these alone is the norm of the tree. For one norm per group of parameters,
            use `optax.multi_transform` with a transformation for each label.
        axis_name: Inside `jax.shard_map` or `jax.pmap`, the axis or axes that every leaf is cut along, so that the norm
            is that of the whole tree. `jax.shard_map` requires it; `axis_name=()` is for devices that train separate
            models. Under `jax.jit` it is not needed.

    Returns:
        An Optax transformation. Its `update` accepts NSTORM's extra arguments, and any others, and ignores them.

    >>> optimizer = nsgdm(learning_rate=0.5)
    >>> updates, state = optimizer.update(jnp.array([3.0, 4.0]), optimizer.init(jnp.zeros(2)))
    >>> [round(entry, 6) for entry in updates.tolist()], state.estimate.tolist()
    ([-0.3, -0.4], [3.0, 4.0])
    """
    check("nsgdm", norm, axis_name, learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)

    def init(params: Tree) -> NsgdmState:
        v = trees.zero_estimate(params)
        return NsgdmState(jnp.zeros((), jnp.int32), v, *trees.initial_flags(v, norm, axis_name))

    def update(updates: Tree, state: NsgdmState, params: Tree = None, **_: Any) -> tuple[Tree, NsgdmState]:
        require_axes("nsgdm", axis_name, state.estimate)
        params = None if params is None else trees.drop_without_gradient(params, updates)
        g, eta = trees.cast_like(updates, state.estimate), 1 - at(momentum, state.count)
        v = jax.tree.map(lambda v, g: equations.momentum(v, g, eta), state.estimate, g)
        v = trees.cast_like(trees.where(state.formed, v, g), g)
        good, zero = trees.finite_flags(v, norm, axis_name), jax.tree.map(jnp.zeros_like, v)
        gamma = at(learning_rate, state.count)
        change = trees.normalized_update("nsgdm", gamma, v, params, weight_decay, norm, axis_name)
        return trees.cast_like(trees.where(good, change, zero), updates if params is None else params), NsgdmState(
            count=optax.safe_increment(state.count),
            estimate=trees.where(good, v, zero),
            formed=good,
            skipped=state.skipped + trees.count_true(jax.tree.map(jnp.logical_not, good)),
        )

    return optax.GradientTransformationExtraArgs(init, update)
