"""The method that finds the length of its steps itself, as an Optax transformation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gladstorm.core.parts import Array
from gladstorm.methods.averages import PolynomialAverage
from gladstorm.methods.steps import Steered
from gladstorm.methods.steps.steered import Course
from gladstorm.optax.options import AxisName, UpdateSchedule, at, require, require_axes
from gladstorm.optax.trees import Tree, cast_like, copy, with_gradients, zero_estimate

AVERAGE = PolynomialAverage(4.0)


class SteeredState(NamedTuple):
    """What `steered` remembers."""

    count: Array  # type: ignore[assignment]  # updates so far; the name Optax gives it is one of a tuple's methods
    course: Course  # x⁰, the mean of directions, and numbers of the run so far
    average: Tree  # x̄ of the points before the parameters now, `averaged` adds those; None if it is not kept
    skipped: Array  # updates that moved nothing, because the gradient was not finite


def steered(
    horizon: int | Array | None = None,
    *,
    learning_rate: float | Array | UpdateSchedule = 1.0,
    average: bool = False,
    axis_name: AxisName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """A method with no number to tune: it finds the length of its updates from the distance travelled and gradients.

    x ← x − learning_rate · (1 − k/horizon) · ℓ u, where u is the gradient divided by its usual size, and the length ℓ
    is found during the run: `gladstorm.methods.steps.Steered` has the equations. Nothing is proved about it;
    docs/evidence/untuned shows how well it works.

    horizon: the number of updates of the run; the last one has length 0. None if you do not know it.
    learning_rate: a factor of all updates. 1 is the method.
    average: whether to keep a mean of the points visited, which `averaged(state, params)` reads. The simulator's method
        reports it; it helps little.
    axis_name: as in `gladstorm.optax`.

    A gradient that is not finite moves nothing, is not remembered, and is counted in `state.skipped`. The state is
    two trees like the parameters, x⁰ and the mean of u; the average is a third. For weight decay, add it to the loss.

    >>> optimizer = steered(horizon=100, average=True)
    >>> params = jnp.array([3.0, 4.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(100):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = optax.apply_updates(params, updates)
    >>> bool(jnp.linalg.norm(averaged(state, params)) < 0.01)
    True
    """
    require("steered", "learning_rate", learning_rate)
    if horizon is not None:
        require("steered", "horizon", horizon)

    class Cut(Steered):
        axes = axis_name

    def init(params: Tree) -> SteeredState:
        start = jax.tree.map(copy, params)
        x = cast_like(start, zero_estimate(params))
        course = jax.tree.map(copy, Cut().init(x)._replace(start=start))  # copies: a state may be donated
        skipped = (~Cut().is_usable(course.m)).astype(jnp.int32)  # 0, with the type that updates give it
        return SteeredState(jnp.zeros((), jnp.int32), course, jax.tree.map(copy, x) if average else None, skipped)

    def update(updates: Tree, state: SteeredState, params: Tree = None, **_: Any) -> tuple[Tree, SteeredState]:
        if params is None:
            raise ValueError("steered: params must be given to update; got params=None.")
        params = with_gradients(params, updates)
        require_axes("steered", axis_name, params)
        left = 1 if horizon is None else jnp.maximum(1 - _wide(state.count) / horizon, 0)
        step = Cut(at(learning_rate, state.count) * left)
        x, v = cast_like(params, state.course.m), cast_like(updates, state.course.m)
        arrived, course = step.move(state.course, x, v, _no_value)
        moved = jax.tree.map(jnp.subtract, arrived, x)
        later = SteeredState(
            optax.safe_increment(state.count),
            course,
            averaged(state, x) if average else None,
            state.skipped + ~step.is_usable(v),
        )
        return cast_like(moved, params), cast_like(later, state)

    return optax.GradientTransformationExtraArgs(init, update)


def averaged(state: Any, params: Tree) -> Tree:
    """The average x̄ of all points that `steered` has visited, `params` being the last; with the dtypes of `params`.

    `state` may be that of a chain, or of any transformation around `steered(average=True)`.
    """
    its = next((node for node in jax.tree.leaves(state, is_leaf=_is_steered) if _is_steered(node)), None)
    if its is None:
        raise ValueError("averaged: state must hold a SteeredState; got one without.")
    if its.average is None:
        raise ValueError("averaged: state must be of steered(average=True); got one of average=False.")
    w = AVERAGE.weight(_wide(its.count), jnp.zeros(()))
    return jax.tree.map(lambda mean, x: jnp.asarray(mean + w * (x - mean), jnp.result_type(x)), its.average, params)


def _wide(count: Array) -> Array:
    return count.astype(jnp.result_type(float))  # where there is double precision, int32 alone would stay out of it


def _is_steered(node: Any) -> bool:
    return isinstance(node, SteeredState)


def _no_value(_: Any) -> Array:
    raise AssertionError("steered: no step asks for the value of f.")
