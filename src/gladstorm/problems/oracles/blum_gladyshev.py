"""The paper's oracle: noise of exactly the variance that BG-0 allows."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, part
from gladstorm.problems.oracles.fair_coins import heads
from gladstorm.problems.oracles.oracle import ExactBg0, Point


class Sample(NamedTuple):
    """The mean of a batch of ξ = (ρ, u): all a batch of any size leaves of them in the gradient."""

    rho: Array  # ρ
    u: Array


@part
class BlumGladyshev(ExactBg0):
    """The paper's noise, added to f: ∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G u, ρ = ±1, u ~ N(0, I/d).

    Its variance is exactly the one that BG-0 allows: E‖∇f(x; ξ) − ∇f(x)‖² = B²‖x − x⁰‖² + G². With B = 0 the variance
    is bounded, with B = G = 0 there is no noise. Blum 1954 and Gladyshev 1965 first allowed noise to grow like this.

    >>> from gladstorm import objectives
    >>> oracle = BlumGladyshev(objectives.named("power:3", dim=10), B=0.5, G=0.5)
    """

    @override
    def draw(self, key: Array) -> Array:
        """One normal number for ρ and d for u."""
        return jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Sample:
        """The means over b samples: ρ̄ = (2 Binomial(b, ½) − b)/b and ū ~ N(0, I/(d b))."""
        z, u = noise[0], noise[1:]
        b = jnp.asarray(size, u.dtype)
        return Sample((2 * heads(z, size) - b) / b, u / jnp.sqrt(u.size * b))

    @override
    def grad(self, point: Point, sample: Sample) -> Array:
        """∇f(x) + B ρ (x − x⁰) + G u."""
        return point.grad + self.B * sample.rho * (point.x - self.objective.start) + self.G * sample.u
