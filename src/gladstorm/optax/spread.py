"""Unbiased squares of gradients of groups, as trees: what a diagnosis is made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gladstorm.core.parts import Array
from gladstorm.optax.trees import Tree


def spread(gradients: Tree, groups: int, samples: int) -> tuple[Array, Array]:
    """n Σ‖g_i − ḡ‖²/(m − 1) and ‖ḡ‖² − that/(mn): as `gladstorm.diagnosis.spread`, without its subtraction."""
    mean = jax.tree.map(lambda g: g.mean(axis=0), gradients)
    noise = samples * squares(jax.tree.map(lambda g, m: g - m, gradients, mean)) / (groups - 1)
    return noise, squares(mean) - noise / (groups * samples)


def squares(tree: Tree) -> Array:
    """The sum of all entries' squares, in the widest type there is."""
    wide = jax.tree.map(lambda leaf: jnp.sum(jnp.square(jnp.abs(leaf).astype(jnp.result_type(float)))), tree)
    return jnp.asarray(sum(jax.tree.leaves(wide)))


def length(tree: Tree) -> Array:
    """The Euclidean norm."""
    return jnp.sqrt(squares(tree))
