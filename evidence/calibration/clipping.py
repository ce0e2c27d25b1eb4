"""Bias of clipped stochastic gradients at one point, where the exact gradient is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gladstorm.core.parts import Array
from gladstorm.core.rules import COUNT, POSITIVE
from gladstorm.problems.oracle import Oracle
from gladstorm.problems.sampling import keys_of


class ClipBias(NamedTuple):
    """How often clipping acts at a point, and how far it moves the mean gradient."""

    share: float  #: the share of gradients longer than the threshold
    bias: float  #: ‖E clip(g) − ∇f‖/‖∇f‖


def clip_bias(
    oracle: Oracle, x: Any, max_norm: float, *, batch: int = 1, draws: int = 100_000, seed: int = 0
) -> ClipBias:
    """‖E clip(g) − ∇f(x)‖/‖∇f(x)‖ of g · min{1, c/‖g‖}, with the exact ∇f(x) and so many draws of g.

    Args:
        oracle: Where stochastic gradients come from.
        x: The point.
        max_norm: The threshold c.
        batch: Samples in a mini-batch.
        draws: How many mini-batches to draw; the error falls as one over their root.
        seed: Of the draws.
    """
    POSITIVE.require("clip_bias", "max_norm", max_norm)
    COUNT.require("clip_bias", "batch", batch)
    COUNT.require("clip_bias", "draws", draws)
    with jax.enable_x64(True):
        point = oracle.at(jnp.asarray(x, float))
        exact = oracle.exact(point)

        def draw(key: Array) -> tuple[Array, Array]:
            g = oracle.grad(point, oracle.sample(key, point, batch))
            norm = jnp.linalg.norm(g)
            return norm > max_norm, g * (max_norm / jnp.maximum(norm, max_norm)) - exact

        acts, shifts = jax.jit(jax.vmap(jax.vmap(draw)))(keys_of(seed, (2, draws // 2 + 1)))
        one, other = shifts.mean(axis=1)  # their product is the square without the draws' own variance
        bias = jnp.sqrt(jnp.maximum(one @ other, 0.0)) / jnp.linalg.norm(exact)
        return ClipBias(float(acts.mean()), float(bias))
