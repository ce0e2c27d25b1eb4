"""BG-0 noise in every direction."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, part
from gladstorm.problems.oracles.blum_gladyshev import BlumGladyshev, Sample
from gladstorm.problems.oracles.fair_coins import heads


@part
class FullRank(BlumGladyshev):
    """BG-0 noise in every direction: ∇f(x; ξ) = ∇f(x) + B ρ ⊙ (x − x⁰) + G u, the signs ρ_i independent, u ~ N(0, I/d).

    The variance is that of `BlumGladyshev`, B²‖x − x⁰‖² + G², and so is the variance of the difference of one sample at
    two points, B²‖y − x‖². But there the growing part of the noise lies on one line, along x − x⁰.
    """

    @override
    def draw(self, key: Array) -> Array:
        """One normal number for each sign and d for u."""
        return jax.random.normal(key, (2, self.objective.start.size), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Sample:
        """The means over b samples: ρ̄_i = (2 Binomial(b, ½) − b)/b for each coordinate, and ū ~ N(0, I/(d b))."""
        z, u = noise
        b = jnp.asarray(size, u.dtype)
        coins = jnp.broadcast_to(jnp.asarray(size), z.shape)
        return Sample((2 * heads(z, coins) - b) / b, u / jnp.sqrt(u.size * b))
