"""Any JAX function as an objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part, static
from gladstorm.core.rules import VECTOR
from gladstorm.problems.objectives.functions import require_indices, require_number
from gladstorm.problems.objectives.trees import Tree, grown, planted


@part
class FromFunction:
    """f given as a function of a vector or of a tree of arrays; JAX differentiates it.

    `value` and `grad` take a vector, as those of every objective do. If f takes a tree, `tree.flat` turns a tree into a
    vector and `tree.of` a vector into a tree. Outside `run` and `sweep` they compute in JAX's own precision, which is
    float32 unless you are inside `jax.enable_x64(True)`.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    function: Callable[[Any], Array] = static()  #: f
    constants: Constants | None = static(default=None)  #: its smoothness constants, if known
    tree: Tree | None = static(default=None)  #: how a vector is read as the tree that f takes; None if f takes a vector

    @property
    def f_inf(self) -> float | None:
        """inf f, if it was declared."""
        return self.constants.f_inf if self.constants else None

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.function(grown(self.tree, x))

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        gradient: Array = jax.grad(self.value)(x)
        return gradient


def from_function(function: Callable[[Any], Array], start: Any, *, constants: Constants | None = None) -> FromFunction:
    """Make an objective from your own function.

    function: takes x and returns one number; written with jax.numpy. Arrays that it captures must be NumPy arrays in
        float64, since JAX makes its own arrays float32.
    start: x⁰, a vector or any tree of arrays, such as the dict of matrices of a network. x has the same form.
    constants: the smoothness constants, if you know them. Theorems need them, simulations do not.

    >>> import jax.numpy as jnp
    >>> objective = from_function(lambda x: jnp.sum(x**4), start=[1.0, 2.0])
    >>> objective.grad(jnp.array([1.0, 2.0])).tolist()
    [4.0, 32.0]
    >>> network = from_function(lambda x: jnp.sum((x["W"] @ x["v"]) ** 2), start={"W": jnp.eye(2), "v": jnp.ones(2)})
    >>> network.start.size
    6
    """
    if not callable(function):
        raise ValueError(f"from_function: function must be callable; got {function!r}.")
    vector, tree = planted("from_function", start)
    objective = FromFunction(vector, function, constants, tree)
    require_number("from_function", "function", objective.value, vector)
    require_indices("from_function", "function", objective.value, vector[None])
    return objective
