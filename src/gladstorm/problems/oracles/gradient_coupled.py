"""BG-0 noise that turns with the gradient."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import POSITIVE
from gladstorm.problems.oracles.fair_coins import heads
from gladstorm.problems.oracles.oracle import ExactBg0, Point


class Turning(NamedTuple):
    """The mean of a batch of ξ = (ρ, u, u')."""

    rho: Array  # ρ
    u: Array
    quadrature: Array  # u'


@part
class GradientCoupled(ExactBg0):
    """∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G (u ⊙ sin θ + u' ⊙ cos θ), θ = ∇f(x)/s, ρ = ±1, u and u' ~ N(0, I/d).

    At one point this has the law of the noise of `BlumGladyshev`, since sin² + cos² = 1. At two points it has not: the
    difference of one sample has variance B²‖y − x‖² + 2 (G²/d) Σ_i (1 − cos(θ_i(y) − θ_i(x))), which is at most
    B²‖y − x‖² + (G²/(d s²)) ‖∇f(y) − ∇f(x)‖² and grows with the curvature, hence with ‖∇f‖^α. Methods that evaluate a
    sample once cannot tell the two kinds of noise apart; STORM can.
    """

    scale: Number = leaf(POSITIVE)  #: s > 0, the change of the gradient over which the noise turns
    affine: ClassVar[bool] = False

    @override
    def draw(self, key: Array) -> Array:
        """One normal number for ρ, and d each for u and u'."""
        return jax.random.normal(key, (2 * self.objective.start.size + 1,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Turning:
        """The means over b samples: one from a binomial count, and two Gaussian vectors."""
        b = jnp.asarray(size, noise.dtype)
        u, quadrature = (noise[1:] / jnp.sqrt(self.objective.start.size * b)).reshape(2, -1)
        return Turning((2 * heads(noise[0], size) - b) / b, u, quadrature)

    @override
    def grad(self, point: Point, sample: Turning) -> Array:
        """∇f(x) + B ρ (x − x⁰) + G (u ⊙ sin θ + u' ⊙ cos θ)."""
        turn = point.grad / self.scale
        noise = sample.u * jnp.sin(turn) + sample.quadrature * jnp.cos(turn)
        return point.grad + self.B * sample.rho * (point.x - self.objective.start) + self.G * noise
