"""A user's own function: x as the tree of arrays that it takes, what it must be, and objectives made of it.

JAX must trace it, and it returns one number, which is known from one abstract evaluation; whether f is finite at x⁰,
from a real one.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part, static
from gladstorm.core.rules import VECTOR, Rule
from gladstorm.problems.oracle import Differentiated

START = Rule("a vector of finite numbers, or a tree of arrays of such", lambda v: bool(np.isfinite(v).all()))


@dataclass(frozen=True)
class Tree:
    """How a vector is read as a tree: its structure, and the name and shape of every array in it.

    >>> vector, tree = flatten("example", {"w": np.eye(2), "b": 3.0})
    >>> tree.names, tree.shapes
    (('b', 'w'), ((), (2, 2)))
    >>> tree.unflatten(vector)["w"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    structure: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    def unflatten(self, x: Array) -> Any:
        """Return the tree that a vector stands for."""
        return jax.tree.unflatten(self.structure, cut(x, self.shapes))

    def flatten(self, tree: Any) -> Array:
        """Return the vector that stands for a tree."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in self.structure.flatten_up_to(tree)])


def flatten(owner: str, start: Any) -> tuple[np.ndarray, Tree | None]:
    """A start as a float64 vector, and the tree it stands for: None if it was a vector or a list of numbers."""
    leaves, structure = jax.tree.flatten_with_path(start)
    if isinstance(start, list | tuple) and all(np.ndim(leaf) == 0 for _, leaf in leaves):
        try:
            start = np.asarray(start)  # numbers in a list are a vector, in a list of lists a matrix
        except ValueError:
            raise ValueError(f"{owner}: start must be {START.words}; got lists of different lengths.") from None
        leaves, structure = jax.tree.flatten_with_path(start)
    arrays = [np.asarray(leaf) for _, leaf in leaves]
    if any(array.dtype.kind not in "iuf" for array in arrays) or not sum(array.size for array in arrays):
        kinds = ", ".join(sorted({str(array.dtype) for array in arrays if array.size})) or "nothing"
        raise ValueError(f"{owner}: start must be {START.words}, all of them real; got {kinds}.")
    vector = np.concatenate([array.astype(np.float64).ravel() for array in arrays])
    START.require(owner, "start", vector)
    if jax.tree_util.all_leaves([start]):
        return vector, None if np.ndim(start) == 1 else Tree(structure, ("x",), (np.shape(start),))
    names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return vector, Tree(structure, names, tuple(array.shape for array in arrays))


def unflatten(tree: Tree | None, x: ArrayLike) -> Any:
    """Return the tree that a vector stands for, in arrays of JAX: NumPy's cannot be indexed with traced numbers."""
    vector = jnp.asarray(x)
    return vector if tree is None else tree.unflatten(vector)


def tree_of(objective: Any) -> Tree | None:
    """Return how an objective's vectors are read as trees; None if they are just vectors."""
    tree: Tree | None = getattr(objective, "tree", None)
    return tree


def cut(x: Array, shapes: Sequence[Sequence[int]]) -> list[Array]:
    """The arrays of such shapes that lie one after the other in the last axis of x."""
    ends = itertools.accumulate(math.prod(shape) for shape in shapes)
    return [
        x[..., end - math.prod(shape) : end].reshape((*x.shape[:-1], *shape))
        for shape, end in zip(shapes, ends, strict=True)
    ]


def require_number(owner: str, name: str, function: Callable[..., Array], *arguments: Any) -> None:
    """Raise a ValueError unless JAX can trace a function of such arguments, and it is one real number.

    `owner` and `name` say whose it is; arguments are arrays, or shapes and types.
    """
    with jax.enable_x64(True):
        try:
            result = jax.eval_shape(function, *arguments)
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as problem:
            raise ValueError(
                f"{owner}: {name} must be written with jax.numpy, and without `if` on its numbers; "
                f"JAX cannot trace it ({str(problem).partition(chr(10))[0].rstrip('.')})."
            ) from problem
    require_result(owner, name, result)


def require_result(owner: str, name: str, result: Any) -> None:
    """Raise a ValueError unless what a function returned, abstractly, is one real number."""
    if not hasattr(result, "dtype"):
        kind = "None" if result is None else f"a {type(result).__name__}"
        raise ValueError(f"{owner}: {name} must return one number; got {kind}.")
    if result.shape != ():
        raise ValueError(f"{owner}: {name} must return one number; got an array of shape {result.shape}.")
    if not jnp.issubdtype(result.dtype, np.floating):
        raise ValueError(f"{owner}: {name} must return one real number; got one of type {result.dtype}.")


def require_finite(objective: Any) -> None:
    """Raise a ValueError unless f(x⁰) is one number, ∇f(x⁰) is like x, and both are finite: else every run is NaN."""
    value, gradient = _at_start(objective)
    require_result(type(objective).__name__, "value", value)
    if np.shape(gradient) != (shape := np.shape(objective.start)):
        got = np.shape(gradient)
        raise ValueError(f"{type(objective).__name__}: grad must be an array of shape {shape}; got shape {got}.")
    value, gradient = np.asarray(value), np.asarray(gradient)
    if np.isfinite(value) and np.isfinite(gradient).all():
        return
    got = f"∇f = {gradient[~np.isfinite(gradient)][0]} in a coordinate" if np.isfinite(value) else f"f = {value}"
    way_out = "Start elsewhere, or change f there."
    if hasattr(objective, "losses"):
        wrong = np.flatnonzero(~np.isfinite(objective.losses(jnp.asarray(objective.start))))
        if wrong.size:
            way_out = f"Look at the data: the loss of example {wrong[0]} is not finite."
    raise ValueError(f"{type(objective).__name__}: f and ∇f must be finite at the start; got {got}. {way_out}")


@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})  # run once, and only asked if it is finite
def _at_start(objective: Any) -> tuple[Array, Array]:
    x = jnp.asarray(objective.start)
    return objective.value(x), objective.grad(x)


class Declared(Differentiated):
    """An objective of which is known what its user declares."""

    constants: Constants | None

    @property
    def f_inf(self) -> float | None:
        """inf f, if it was declared."""
        return self.constants.f_inf if self.constants else None


@part
class FromFunction(Declared):
    """f given as a function of a vector or of a tree of arrays; JAX differentiates it.

    `value` and `grad` take a vector, as those of every objective do. If f takes a tree, `tree.flatten` turns a tree
    into a vector and `tree.unflatten` a vector into a tree. Outside `run` and `sweep` they compute in JAX's own
    precision, which is float32 unless you are inside `jax.enable_x64(True)`.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    function: Callable[[Any], Array] = static()  #: f
    constants: Constants | None = static(default=None)  #: its smoothness constants, if known
    tree: Tree | None = static(default=None)  #: how a vector is read as the tree that f takes; None if f takes a vector

    @override
    def value(self, x: Array) -> Array:
        return self.function(unflatten(self.tree, x))


@part
class PerExample(Declared):
    """f(x) = 1/n Σ_i loss(x, example_i), the examples stacked along the first axis of every array of `data`.

    `losses`, `value` and `grad` take a vector; where the loss takes a tree, `tree.flatten` makes a vector of one.
    """

    start: Data = leaf(VECTOR)  # x⁰
    data: Any  # a tree of arrays
    loss: Callable[[Any, Any], Array] = static()
    constants: Constants | None = static(default=None)
    tree: Tree | None = static(default=None)  # what the loss takes, if not a vector

    def losses(self, x: Array) -> Array:
        """loss(x, example_i) for every i."""
        return jax.vmap(self.loss, (None, 0))(unflatten(self.tree, x), self.data)

    @override
    def value(self, x: Array) -> Array:
        return self.losses(x).mean()


def from_function(function: Callable[[Any], Array], start: Any, *, constants: Constants | None = None) -> FromFunction:
    """Make an objective from your own function.

    Args:
        function: Takes x and returns one number; written with jax.numpy. Let arrays that it captures be NumPy's in
            float64: JAX makes its own float32, which rounds them. JAX takes the nearest entry for an index that does
            not exist.
        start: x⁰, a vector or any tree of arrays, such as the dict of matrices of a network. x has the same form.
        constants: The smoothness constants, if you know them. Theorems need them, simulations do not.

    Raises:
        ValueError: If JAX cannot trace the function, or it does not return one number.

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
    vector, tree = flatten("from_function", start)
    objective = FromFunction(vector, function, constants, tree)
    require_number("from_function", "function", objective.value, vector)
    return objective
