"""Lengths of pytrees. The largest entry is divided out first: squares neither overflow nor vanish.

`axes` are those of a mesh that every leaf is cut along, inside `jax.shard_map`: what is returned is of the whole.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gladstorm.core.parts import Array

Axes = str | tuple[str, ...] | None


def unit(v: Any, axes: Axes = None) -> Any:
    """The unit vector v/‖v‖, and 0 where v = 0.

    >>> unit(jnp.array([3e30, 4e30])).tolist(), unit(jnp.zeros(2)).tolist()
    ([0.6000000238418579, 0.800000011920929], [0.0, 0.0])
    """
    _, scaled, norm = _split(v, axes)
    return jax.tree.map(lambda leaf: leaf / jnp.where(norm == 0, 1, norm), scaled)


def length(v: Any, axes: Axes = None) -> Array:
    """‖v‖, or the largest number that there is if ‖v‖ exceeds it; NaN unless v is finite.

    >>> float(length({"a": jnp.array([3.0]), "b": jnp.array([4.0])}))
    5.0
    """
    largest, _, norm = _split(v, axes)
    return jnp.minimum(largest * norm, float(jnp.finfo(norm.dtype).max))


def is_finite(v: Any, axes: Axes = None) -> Array:
    """Whether every entry is finite: even where ‖v‖ overflows, v/‖v‖ does not.

    >>> bool(is_finite(jnp.array([3e38, 3e38]))), bool(is_finite(jnp.array([1.0, jnp.inf])))
    (True, False)
    """
    return jnp.isfinite(_split(v, axes)[2])


def _split(v: Any, axes: Axes) -> tuple[Array, Any, Array]:
    """A number near the largest entry, v divided by it, and the length of that; NaN where an entry is not finite."""
    largest = jnp.max(jnp.array([jnp.max(jnp.abs(leaf), initial=0) for leaf in jax.tree.leaves(v)]), initial=0)
    if axes:
        largest = jax.lax.pmax(largest, axes)
    most = 1 / float(jnp.finfo(largest.dtype).tiny)  # XLA multiplies by the reciprocal, and flushes that of more to 0
    largest = jnp.where(jnp.isinf(largest), jnp.nan, jnp.minimum(largest, most))
    scaled = jax.tree.map(lambda leaf: leaf / jnp.where(largest == 0, 1, largest), v)
    squares = sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(scaled))
    return largest, scaled, jnp.sqrt(jax.lax.psum(squares, axes) if axes else squares)
