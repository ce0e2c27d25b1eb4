"""BG-0 noise that is rare and large."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import PROBABILITY
from gladstorm.problems.oracles.biased_coins import successes
from gladstorm.problems.oracles.oracle import ExactBg0, Point


@part
class Skewed(ExactBg0):
    """∇f(x; ξ) = ∇f(x) + B s₀ (x − x⁰) + (G/√d) s: BG-0 noise of exact variance that is rare and large.

    Each of s₀, s₁..s_d is √((1 − q)/q) with probability q and −√(q/(1 − q)) otherwise: it has mean 0 and variance 1. If
    q is small, the mean of a few samples is below its expectation most of the time, and a normalized method follows the
    typical sample. With B = 0 this is the noise of the counterexample in the errata.
    """

    q: Number = leaf(PROBABILITY)  #: the probability in (0, 1) of a large value

    @override
    def draw(self, key: Array) -> Array:
        """One uniform number for each of s₀, s₁..s_d."""
        return jax.random.uniform(key, (self.objective.start.size + 1,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        """s̄ from how many of b samples were large: (M − b q)/(b √(q (1 − q))), M ~ Binomial(b, q)."""
        b = jnp.asarray(size, noise.dtype)
        return (successes(noise, b, self.q) - b * self.q) / (b * jnp.sqrt(self.q * (1 - self.q)))

    @override
    def grad(self, point: Point, sample: Array) -> Array:
        """∇f(x) + B s₀ (x − x⁰) + (G/√d) s."""
        growing = self.B * sample[0] * (point.x - self.objective.start)
        return point.grad + growing + self.G / jnp.sqrt(point.x.size) * sample[1:]
