"""How often each of n outcomes occurs among b draws, exact for every b."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.problems.oracles.biased_coins import successes


def uniforms_for(outcomes: int) -> int:
    """How many uniform numbers `counts` takes for so many outcomes.

    >>> uniforms_for(5)
    7
    """
    return (1 << max(outcomes - 1, 0).bit_length()) - 1


def counts(uniforms: Array, trials: Array, p: Array) -> Array:
    """Multinomial(trials, p): a tree of binomials, in which each node divides its draws between two halves.

    >>> counts(jnp.array([0.5, 0.1, 0.9]), jnp.array(1), jnp.array([0.2, 0.3, 0.1, 0.4])).sum().tolist()
    1.0
    """
    leaves = uniforms.size + 1
    levels = [jnp.zeros(leaves, p.dtype).at[: p.size].set(p)]
    while levels[-1].size > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    found = jnp.asarray(trials, p.dtype)[None]
    for chances in reversed(levels[:-1]):
        size = found.size
        drawn, uniforms = uniforms[:size], uniforms[size:]
        left, both = chances[::2], chances.reshape(-1, 2).sum(axis=1)
        share = jnp.where(both > 0, left / jnp.where(both > 0, both, 1.0), 0.5)
        inside = jnp.clip(share, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)
        first = jnp.where(share <= 0, 0.0, jnp.where(share >= 1, found, successes(drawn, found, inside)))
        found = jnp.stack([first, found - first], axis=1).ravel()
    return found[: p.size]
