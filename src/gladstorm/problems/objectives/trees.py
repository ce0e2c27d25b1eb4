"""x as a tree of arrays: a vector to the simulator, a structure of its own to the function it is given to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gladstorm.core.parts import Array
from gladstorm.core.rules import Rule

START = Rule("a vector of finite numbers, or a tree of arrays of such", lambda v: bool(np.isfinite(v).all()))


@dataclass(frozen=True)
class Tree:
    """How a vector is read as a tree: its structure, and the name and shape of every array in it.

    >>> vector, tree = planted("example", {"w": np.eye(2), "b": 3.0})
    >>> tree.names, tree.shapes
    (('b', 'w'), ((), (2, 2)))
    >>> tree.of(vector)["w"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    structure: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    def of(self, x: Array) -> Any:
        """The tree a vector stands for."""
        return jax.tree.unflatten(self.structure, cut(x, self.shapes))

    def flat(self, tree: Any) -> Array:
        """The vector that stands for a tree."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in self.structure.flatten_up_to(tree)])


def planted(owner: str, start: Any) -> tuple[np.ndarray, Tree | None]:
    """A start as a float64 vector, and the tree it stands for: None if it was a vector or a list of numbers."""
    leaves, structure = jax.tree.flatten_with_path(start)
    if isinstance(start, list | tuple) and all(np.ndim(leaf) == 0 for _, leaf in leaves):
        start = _rectangular(owner, start)  # numbers in a list are a vector, in a list of lists a matrix
        leaves, structure = jax.tree.flatten_with_path(start)
    arrays = [np.asarray(leaf) for _, leaf in leaves]
    if any(array.dtype.kind not in "iuf" for array in arrays) or not sum(array.size for array in arrays):
        kinds = ", ".join(sorted({str(array.dtype) for array in arrays if array.size})) or "nothing"
        raise ValueError(f"{owner}: start must be {START.words}, all of them real; got {kinds}.")
    vector = np.concatenate([array.astype(np.float64).ravel() for array in arrays])
    START.require(owner, "start", vector)
    if jax.tree_util.all_leaves([start]):
        if np.ndim(start) == 1:
            return vector, None
        return vector, Tree(structure, ("x",), (np.shape(start),))
    names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return vector, Tree(structure, names, tuple(array.shape for array in arrays))


def grown(tree: Tree | None, x: ArrayLike) -> Any:
    """What a user's function is called with: arrays of JAX, since NumPy's cannot be indexed with traced numbers."""
    vector = jnp.asarray(x)
    return vector if tree is None else tree.of(vector)


def cut(x: Array, shapes: Sequence[Sequence[int]]) -> list[Array]:
    """The arrays of such shapes that lie one after the other in the last axis of x."""
    sizes = [math.prod(shape) for shape in shapes]
    ends = itertools.accumulate(sizes)
    return [
        x[..., end - size : end].reshape((*x.shape[:-1], *shape))
        for shape, size, end in zip(shapes, sizes, ends, strict=True)
    ]


def _rectangular(owner: str, numbers: Any) -> np.ndarray:
    try:
        return np.asarray(numbers)
    except ValueError:
        raise ValueError(f"{owner}: start must be {START.words}; got lists of different lengths.") from None
