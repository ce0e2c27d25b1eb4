"""Lengths of pytrees. The largest entry is divided out first: squares neither overflow nor vanish."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gladstorm.foundation.parts import Array


def unit(v: Any) -> Any:
    """v/‖v‖, and 0 where v = 0.

    >>> unit(jnp.array([3e30, 4e30])).tolist(), unit(jnp.zeros(2)).tolist()
    ([0.6000000238418579, 0.800000011920929], [0.0, 0.0])
    """
    _, scaled, norm = _split(v)
    return jax.tree.map(lambda leaf: leaf / jnp.where(norm == 0, 1, norm), scaled)


def length(v: Any) -> Array:
    """‖v‖.

    >>> float(length({"a": jnp.array([3.0]), "b": jnp.array([4.0])}))
    5.0
    """
    largest, _, norm = _split(v)
    return largest * norm


def _split(v: Any) -> tuple[Array, Any, Array]:
    """The largest entry, v divided by it, and the length of that."""
    largest = jnp.max(jnp.array([jnp.max(jnp.abs(leaf), initial=0) for leaf in jax.tree.leaves(v)]), initial=0)
    scaled = jax.tree.map(lambda leaf: leaf / jnp.where(largest == 0, 1, largest), v)
    return largest, scaled, jnp.sqrt(sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(scaled)))
