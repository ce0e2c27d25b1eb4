"""The paper's oracle: noise of exactly the variance that BG-0 allows."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.foundation.parts import Array, part
from gladstorm.oracles.fair_coins import heads
from gladstorm.oracles.oracle import ExactBg0, Point


class Sample(NamedTuple):
    """The mean of a batch of ξ = (ρ, u): all a batch of any size leaves of them in the gradient."""

    rho: Array  # ρ
    u: Array


@part
class BlumGladyshev(ExactBg0):
    """BG-0 noise of exact variance: ∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G u, ρ = ±1, u ~ N(0, I/d).

    E‖∇f(x; ξ) − ∇f(x)‖² = B²‖x − x⁰‖² + G². B = 0 is bounded variance, B = G = 0 is no noise.
    Blum 1954 and Gladyshev 1965 allowed noise to grow so; the wrapper has exactly that much.

    >>> from gladstorm import objectives
    >>> oracle = BlumGladyshev(objectives.named("power:3", start=5.0), B=0.5, G=0.5)
    """

    @override
    def draw(self, key: Array) -> Array:
        """One normal for ρ, d for u."""
        return jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Sample:
        """ρ̄ = (2 Binomial(b, ½) − b)/b and ū ~ N(0, I/(d b)): sufficient for the batch mean of b samples."""
        z, u = noise[0], noise[1:]
        b = jnp.asarray(size, u.dtype)
        return Sample((2 * heads(z, size) - b) / b, u / jnp.sqrt(u.size * b))

    @override
    def grad(self, point: Point, sample: Sample) -> Array:
        """∇f(x) + B ρ (x − x⁰) + G u."""
        return point.grad + self.B * sample.rho * (point.x - self.objective.start) + self.G * sample.u
