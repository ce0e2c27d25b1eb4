"""NSTORM, normalized STORM, as an Optax transformation: every sample is evaluated at two points."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gladstorm.core import equations
from gladstorm.core.parts import Array
from gladstorm.methods.norms import length
from gladstorm.optax import trees
from gladstorm.optax.options import AxisName, NormOption, UpdateSchedule, at, check, require_axes
from gladstorm.optax.trees import Tree

AGREEMENT = 0.05  # of two gradients of one sample at one point, as a part of their length: half precision rounds


class NstormState(NamedTuple):
    """State of NSTORM: what NSGDM remembers, the calls since the last update, and `previous`.

    `previous` are the parameters of the last update, where `prev_grads` are to be taken; at first those of `init`.
    """

    count: Array  # type: ignore[assignment]  # updates so far; the name Optax gives it is one of a tuple's methods
    micro_step: Array  # calls since the last update
    estimate: Tree  # v; between the calls of one update, the known part of its v
    previous: Tree
    formed: Tree  # whether v is an estimate; for each leaf, if each has its own norm
    skipped: Array  # updates that moved nothing, because v was not finite; leaves, if each has its own norm


def nstorm(
    learning_rate: float | Array | UpdateSchedule,
    momentum: float | Array | UpdateSchedule = 0.9,
    *,
    max_grad_norm: float | Array | None = None,
    n_init: int | Array = 1,
    every_k: int | Array | UpdateSchedule = 1,
    weight_decay: float | Array = 0.0,
    norm: NormOption = "global",
    axis_name: AxisName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """NSTORM, normalized STORM: v ← grads + momentum · (v − prev_grads), x ← x − learning_rate · v/‖v‖.

    `update(grads, state, params, ...)` needs the gradient of one sample, with the same dropout masks, at two points:
    `grads` at `params`, and the gradient at `state.previous`. Give the latter as `prev_grads`, or give `grad_fn`, a
    function from parameters to gradients on this sample. The first update needs neither, since v⁰ is the first `grads`;
    under `jax.jit`, where all calls look alike, one of the two must be given from the start.

    If only one of the two gradients is changed, v estimates nothing, and the loss rises. So NSTORM must be the first in
    an `optax.chain`, and not stand inside `optax.MultiSteps`, which would evaluate only the last micro-batch at the
    previous point. At the first update, where both gradients are at the same point, `grads` must equal what `grad_fn`
    returns; otherwise it raises an error, or under `jax.jit`, where it cannot, returns NaN.

    Inside `optax.masked` and `optax.multi_transform`, which show NSTORM only some of the parameters, give `prev_grads`
    instead of `grad_fn`; the gradients of all parameters will do.

    Args:
        learning_rate: γ ≥ 0, the length of an update without its weight decay; a number or a schedule.
        momentum: 1 − η in [0, 1); a number or a schedule.
        max_grad_norm: Clip the gradients at both points to this norm. v then estimates the mean of clipped gradients,
            as momentum after clipping does.
        n_init: v⁰ is the mean over this many batches, so the first update takes n_init times as many calls.
        every_k: Accumulate gradients: every k-th call makes an update, with the means over k micro-batches at both
            points, and the other calls return 0.
        weight_decay: As in `nsgdm`.
        norm: As in `nsgdm`.
        axis_name: As in `nsgdm`.
    """
    limits = {} if max_grad_norm is None else {"max_grad_norm": max_grad_norm}
    numbers = {"learning_rate": learning_rate, "momentum": momentum, "weight_decay": weight_decay, **limits}
    check("nstorm", norm, axis_name, **numbers, n_init=n_init, every_k=every_k)

    def init(params: Tree) -> NstormState:
        count, micro_step = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)  # two: a state may be donated
        v = trees.zero_estimate(params)
        formed, skipped = trees.initial_flags(v, norm, axis_name)
        return NstormState(count, micro_step, v, jax.tree.map(trees.copy, params), formed, skipped)

    def update(
        updates: Tree,
        state: NstormState,
        params: Tree = None,
        *,
        grad_fn: Callable[[Tree], Tree] | None = None,
        prev_grads: Tree = None,
        **_: Any,
    ) -> tuple[Tree, NstormState]:
        if params is None:
            raise ValueError("nstorm: params must be given to update; got params=None.")
        params = trees.drop_without_gradient(params, updates)
        require_axes("nstorm", axis_name, params)
        count, micro_step, v, previous, formed, skipped = state
        stale = _previous_gradient(updates, state, grad_fn, prev_grads)
        one_sample = jnp.array(True) if grad_fn is None else _of_one_sample(updates, stale, count)
        calls = at(every_k, count) * jnp.where(count == 0, n_init, 1)
        first, last = micro_step == 0, micro_step + 1 >= calls

        # The recursion is linear in v and the gradients together: it is applied to v with the first k-th of the
        # means, to 0 with each of the others, and the results add up. That spares a tree to accumulate in.
        g, old = (
            jax.tree.map(lambda g: g / calls, trees.clip(trees.cast_like(gradient, v), max_grad_norm, axis_name))
            for gradient in (updates, stale)
        )
        eta, zero = 1 - at(momentum, count), jax.tree.map(jnp.zeros_like, v)
        before = trees.where(first, v, zero)
        part = trees.where(formed, jax.tree.map(lambda v, g, old: equations.storm(v, g, old, eta), before, g, old), g)
        v = jax.tree.map(jnp.add, trees.cast_like(part, v), trees.where(first, zero, v))

        good = trees.finite_flags(v, norm, axis_name)
        moves = jax.tree.map(lambda flag: last & flag, good)
        lost = jax.tree.map(lambda flag: last & ~flag, good)
        gamma = at(learning_rate, count)
        change = trees.normalized_update("nstorm", gamma, v, params, weight_decay, norm, axis_name)
        change = trees.where(moves, change, zero)
        change = jax.tree.map(lambda leaf: jnp.where(one_sample, leaf, jnp.nan), change)
        return trees.cast_like(change, params), NstormState(
            count=jnp.where(last, optax.safe_increment(count), count),
            micro_step=jnp.where(last, 0, micro_step + 1),
            estimate=trees.where(lost, zero, v),
            previous=trees.cast_like(trees.where(last, params, previous), previous),
            formed=jax.tree.map(partial(jnp.where, last), good, formed),
            skipped=skipped + trees.count_true(lost),
        )

    return optax.GradientTransformationExtraArgs(init, update)


def _previous_gradient(
    grads: Tree, state: NstormState, grad_fn: Callable[[Tree], Tree] | None, prev_grads: Tree
) -> Tree:
    """Return the sample's gradient at the previous parameters, which at first are those of now."""
    if grad_fn is not None:
        return grad_fn(state.previous)
    if prev_grads is not None:
        return jax.tree.map(lambda g, old: g if _is_masked(g) else old, grads, prev_grads, is_leaf=_is_masked)
    if isinstance(state.count, jax.core.Tracer) or state.count > 0:
        raise ValueError(
            "nstorm: grad_fn or prev_grads must be given to update, from the second one on and always under jax.jit; "
            "got neither."
        )
    return grads


def _of_one_sample(grads: Tree, stale: Tree, count: Array) -> Array:
    """Whether both gradients are of one sample, as far as it shows: while they are at one point."""

    def compare(grads: Tree, stale: Tree) -> Array:
        # NaN where a gradient is not finite, which is another matter.
        return ~(length(jax.tree.map(jnp.subtract, stale, grads)) > AGREEMENT * length(stale))

    one_sample: Array = jax.lax.cond(count == 0, compare, lambda *_: jnp.array(True), grads, stale)
    if not isinstance(one_sample, jax.core.Tracer) and not one_sample:
        raise ValueError(
            "nstorm: grads must be what grad_fn returns at params; got others at the first update, as happens with "
            "another sample or key, behind clipping or another transformation of a chain, and inside optax.MultiSteps. "
            "nstorm(..., max_grad_norm=…) clips at both points, and nstorm(..., every_k=…) accumulates at both."
        )
    return one_sample


def _is_masked(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode)
