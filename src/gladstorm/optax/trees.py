"""Operations on trees: normalized updates, types and flags."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array
from gladstorm.methods.norms import Euclid, PerLayer, StepNorm, is_finite, length, unit
from gladstorm.optax.options import AxisName, Choice, NormOption

Tree = Any


@dataclass(frozen=True)
class ByFunction(PerLayer):
    """The norms that a function of names and leaves chooses."""

    function: Choice

    @override
    def choose(self, name: str, tensor: Any) -> StepNorm:
        return self.function(name, tensor)


def step_norm(norm: NormOption) -> StepNorm:
    """The norm of trees that an option names."""
    if isinstance(norm, str):
        return Euclid() if norm == "global" else ByFunction(lambda *_: Euclid())
    return norm if isinstance(norm, StepNorm) else ByFunction(norm)


def normalized_update(
    owner: str, gamma: Any, v: Tree, params: Tree, weight_decay: Any, norm: NormOption, axis_name: AxisName | None
) -> Tree:
    """x^{k+1} − x^k = −γ d(v) − γλ x^k, where λ is weight_decay."""
    if isinstance(norm, str):
        units = _for_each_norm(lambda part: unit(part, axis_name), v, norm)
    else:
        units = step_norm(norm).unit(v)
    change = jax.tree.map(lambda leaf: -gamma * leaf, units)
    if isinstance(weight_decay, int | float) and weight_decay == 0:
        return change
    if params is None:
        raise ValueError(f"{owner}: params must be given to update for weight_decay; got params=None.")
    return jax.tree.map(lambda m, p: m - gamma * weight_decay * p, change, params)


def finite_flags(v: Tree, norm: NormOption, axis_name: AxisName | None) -> Tree:
    """Whether v is finite, and a step along it can be made; for each leaf, if each has its own norm."""
    return _for_each_norm(lambda part: is_finite(part, axis_name), v, norm)


def initial_flags(v: Tree, norm: NormOption, axis_name: AxisName | None) -> tuple[Tree, Array]:
    """Whether there is an estimate, and how many steps were skipped, before the first gradient: False and 0.

    They are computed from v = 0, so that under `jax.jit` and `jax.shard_map` they have the types that updates give.
    """
    formed = jax.tree.map(jnp.logical_not, finite_flags(v, norm, axis_name))
    return formed, count_true(formed)


def count_true(flags: Tree) -> Array:
    """The number of flags that are true."""
    return jnp.asarray(sum(flag.astype(jnp.int32) for flag in jax.tree.leaves(flags)), jnp.int32)


def _for_each_norm(function: Callable[[Tree], Tree], tree: Tree, norm: NormOption) -> Tree:
    """The function of the whole tree or, if each leaf has its own norm, of each leaf."""
    return function(tree) if norm == "global" or isinstance(norm, StepNorm) else jax.tree.map(function, tree)


def clip(gradient: Tree, max_norm: Any, axis_name: AxisName | None) -> Tree:
    """g · min(1, max_norm/‖g‖), if there is a max_norm."""
    if max_norm is None:
        return gradient
    factor = equations.cut(length(gradient, axis_name), max_norm, jnp)
    return jax.tree.map(lambda g: g * factor, gradient)


def zero_estimate(params: Tree) -> Tree:
    """0 in float32 at least."""
    return jax.tree.map(lambda p: jnp.zeros_like(p, jnp.promote_types(jnp.result_type(p), jnp.float32)), params)


def copy(leaf: Any) -> Array:
    """A copy of an array, not the buffer itself: the caller may donate it together with the state."""
    return jnp.zeros_like(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else jnp.array(leaf, jnp.result_type(leaf))


def cast_like(tree: Tree, like: Tree) -> Tree:
    """Cast a tree to the dtypes of another."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, jnp.result_type(b)), tree, like)


def where(condition: Tree, this: Tree, other: Tree) -> Tree:
    """One tree or the other; leaf by leaf if there is a condition for each."""
    return jax.tree.map(lambda true, *both: jax.tree.map(partial(jnp.where, true), *both), condition, this, other)


def drop_without_gradient(tree: Tree, grads: Tree) -> Tree:
    """The tree with None wherever grads have None: Equinox gives a whole model as params, with its functions."""
    return jax.tree.map(lambda g, leaf: None if g is None else leaf, grads, tree, is_leaf=lambda node: node is None)
