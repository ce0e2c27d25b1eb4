"""What both transformations do with trees: estimates by the simulator's equations, the step, norms over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from gladstorm.core.parts import Array
from gladstorm.methods.estimators import Estimator
from gladstorm.methods.norms import length, unit
from gladstorm.optax.options import AxisName

Tree = Any

# An estimator asks for the sample's gradient at a point and never looks at the point: here a name stands for it.
BEFORE, NOW = "x^{k-1}", "x^k"


def estimate(estimator: Estimator, count: Array, v: Tree, gradients: Mapping[str, Tree]) -> Tree:
    """The next v; the first one if no update was made."""
    begun = estimator.init(gradients.__getitem__, NOW)
    return cast_like(where(count == 0, begun, estimator.update(v, gradients.__getitem__, BEFORE, NOW)), v)


def move(gamma: Array, v: Tree, norm: str, axis_name: AxisName | None) -> Tree:
    """x^{k+1} − x^k: a step from 0."""
    if norm == "tensor":
        return jax.tree.map(lambda leaf: move(gamma, leaf, "global", axis_name), v)
    return jax.tree.map(lambda leaf: -gamma * leaf, unit(v, axis_name))


def decayed(owner: str, moved: Tree, params: Tree, gamma: Any, weight_decay: Any) -> Tree:
    """x^{k+1} − x^k with γλ x^k taken away, where λ is weight_decay."""
    if isinstance(weight_decay, int | float) and weight_decay == 0:
        return moved
    if params is None:
        raise ValueError(f"{owner}: params must be given to update for weight_decay; got params=None.")
    return jax.tree.map(lambda m, p: m - gamma * weight_decay * p, moved, params)


def clipped(gradient: Tree, max_norm: Any, axis_name: AxisName | None) -> Tree:
    """g · min(1, max_norm/‖g‖), if there is a max_norm."""
    if max_norm is None:
        return gradient
    norm = length(gradient, axis_name)
    factor = jnp.where(norm > max_norm, max_norm / norm, 1)
    return jax.tree.map(lambda g: g * factor, gradient)


def zero_estimate(params: Tree) -> Tree:
    """0 in float32 at least."""
    return jax.tree.map(lambda p: jnp.zeros_like(p, jnp.promote_types(jnp.result_type(p), jnp.float32)), params)


def copy(leaf: Any) -> Array:
    """Not the buffer itself: the caller may donate it together with the state."""
    return jnp.zeros_like(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else jnp.array(leaf, jnp.result_type(leaf))


def cast_like(tree: Tree, like: Tree) -> Tree:
    """With the dtypes of another tree."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, jnp.result_type(b)), tree, like)


def where(condition: Array, this: Tree, other: Tree) -> Tree:
    """One tree or the other."""
    return jax.tree.map(partial(jnp.where, condition), this, other)
