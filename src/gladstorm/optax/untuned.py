"""The method with nothing to tune, as an Optax transformation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from gladstorm.core.parts import Array
from gladstorm.methods.norms import length
from gladstorm.methods.steps import Untuned, per_coordinate
from gladstorm.methods.steps.untuned import Journey
from gladstorm.optax.options import AxisName, UpdateSchedule, at, require, require_axes
from gladstorm.optax.trees import Tree, cast_like, copy, drop_without_gradient, zero_estimate


def untuned(
    horizon: int | Array,
    *,
    learning_rate: float | Array | UpdateSchedule = 1.0,
    weight_decay: float | Array = 0.0,
    axis_name: AxisName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """A method with nothing to tune: it finds the length of its updates, and when to shorten them.

    x ← x − m, where m is the mean of recent steps δ = learning_rate · r · horizon^(−0.4 τ) · u/√(dE). u is the gradient
    divided by its usual size, E the sum of u² for each coordinate, r how far the run has come, and τ a clock from 0 to
    about 1. `gladstorm.methods.steps.Untuned` has the equations; docs/evidence/untuned shows how well it works.

    The state is four trees like the parameters, two more than Adam's: x⁰, x̄, E and m. `averaged(state, params)` reads
    x̄, the average of late iterates, for evaluation. It counts the points that this transformation leads to: put it last
    in a chain. Nothing is remembered of a gradient that is not finite: it is counted in `state.skipped`, and the
    parameters go half the way back to x̄.

    Args:
        horizon: The number of updates of the run.
        learning_rate: A factor of δ. 1 is the method.
        weight_decay: λ ≥ 0; an update multiplies x by 1 − λ‖δ‖/√d, where ‖δ‖/√d is about how far a coordinate moves: so
            λ means what it means in adamw. `update` takes the parameters in any case.
        axis_name: As in `nsgdm`.

    >>> from gladstorm.optax import averaged
    >>> optimizer = untuned(horizon=200)
    >>> params = jnp.array([3.0, 4.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(200):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = optax.apply_updates(params, updates)
    >>> bool(jnp.linalg.norm(averaged(state, params)) < 0.01)
    True
    """
    for name, value in (("horizon", horizon), ("learning_rate", learning_rate), ("weight_decay", weight_decay)):
        require("untuned", name, value)

    class Cut(Untuned):
        axes = axis_name

    def init(params: Tree) -> Journey:
        start = jax.tree.map(copy, params)
        begun = Cut().init(cast_like(start, zero_estimate(params)))._replace(start=start)
        return Journey(*jax.tree.map(copy, tuple(begun)))  # copies: a state may be donated

    def update(updates: Tree, state: Journey, params: Tree = None, **_: Any) -> tuple[Tree, Journey]:
        if params is None:
            raise ValueError("untuned: params must be given to update; got params=None.")
        params = drop_without_gradient(params, updates)
        require_axes("untuned", axis_name, params)
        step = Cut(at(learning_rate, state.k.astype(jnp.int32)), horizon)
        x, v = cast_like(params, state.motion), cast_like(updates, state.motion)
        decays = not isinstance(weight_decay, int | float) or weight_decay > 0
        begin = _decayed(step, weight_decay, state, x, v) if decays else x
        arrived, later = step.move(state, begin, v, _no_value)
        return cast_like(jax.tree.map(jnp.subtract, arrived, x), params), cast_like(later, state)

    return optax.GradientTransformationExtraArgs(init, update)


def untuned_per_coordinate(horizon: int | Array) -> optax.GradientTransformation:
    """`untuned` for every number by itself, each with its own length and clock: for coordinates of different scales.

    This is what variational inference needs, where the location of a coordinate may have to move by thousands and its
    log scale by one. For networks `untuned` is better. `averaged(state, params)` reads the average here too.

    Args:
        horizon: The number of updates of the run.

    >>> optimizer = untuned_per_coordinate(horizon=300)
    >>> params = jnp.array([3.0, 4000.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(300):
    ...     updates, state = optimizer.update(params * jnp.array([1.0, 1e-6]), state, params)
    ...     params = optax.apply_updates(params, updates)
    >>> bool(jnp.abs(averaged(state, params) / jnp.array([3.0, 4000.0])).max() < 0.01)
    True
    """
    require("untuned_per_coordinate", "horizon", horizon)

    def init(params: Tree) -> Journey:
        begun = per_coordinate.begin(cast_like(params, zero_estimate(params)))
        return Journey(*jax.tree.map(copy, tuple(begun)))

    def update(updates: Tree, state: Journey, params: Tree = None) -> tuple[Tree, Journey]:
        if params is None:
            raise ValueError("untuned_per_coordinate: params must be given to update; got params=None.")
        x, v = cast_like(params, state.motion), cast_like(updates, state.motion)
        arrived, later = per_coordinate.move(horizon, state, x, v)
        return cast_like(jax.tree.map(jnp.subtract, arrived, x), params), cast_like(later, state)

    return optax.GradientTransformation(init, update)


def averaged(state: Any, params: Tree) -> Tree:
    """The average x̄ of late iterates.

    Args:
        state: That of `untuned` or `untuned_per_coordinate`, or of a chain or any transformation around it.
        params: The parameters, whose dtypes the average takes.
    """
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, Journey))
    journey = next((node for node in nodes if isinstance(node, Journey)), None)
    if journey is None:
        raise ValueError("averaged: state must be of untuned, or of a transformation around it; got another.")
    return cast_like(journey.average, params)


def _decayed(step: Untuned, weight_decay: Any, before: Journey, x: Tree, v: Tree) -> Tree:
    """x times 1 − λ‖δ‖/√d. δ does not depend on x, and follows from how m changes."""
    _, after = step.move(before, x, v, _no_value)
    delta = jax.tree.map(lambda m, new: m + (new - m) / step.share, before.motion, after.motion)
    size = length(v, step.axes)
    typical = jnp.where(jnp.isfinite(size) & (size > 0), length(delta, step.axes), 0) / jnp.sqrt(step._dimension(x))
    return jax.tree.map(lambda x: x * (1 - weight_decay * typical), x)


def _no_value(_: Any) -> Array:
    raise AssertionError("untuned: no step asks for the value of f.")
