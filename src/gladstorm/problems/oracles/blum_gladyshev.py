"""Noise added to exact gradients, of exactly the variance that is allowed: the paper's oracle and four others."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import NON_NEGATIVE, PROBABILITY
from gladstorm.core.singular_values import singular_values
from gladstorm.problems.functions import tree_of, unflatten
from gladstorm.problems.oracle import Objective, Oracle, Point
from gladstorm.problems.sampling import mean_of_coins, mean_of_signs


@part
class ExactBg0(Oracle):
    """Noise around x⁰ of exactly the variance that BG-0 allows, E‖∇f(x; ξ) − ∇f(x)‖² = B²‖x − x⁰‖² + G².

    With another `growth` a it is B²‖x − x⁰‖^a + G²: bounded for a = 0, and for a > 2 so large that plain SGD may fail.
    """

    objective: Objective
    B: Number = leaf(NON_NEGATIVE)  #: growth of the noise, ≥ 0
    G: Number = leaf(NON_NEGATIVE)  #: standard deviation of the noise at x⁰, ≥ 0
    growth: float = dataclasses.field(default=2.0, kw_only=True, metadata={"rule": NON_NEGATIVE, "static": True})  #: a

    def away(self, x: Array) -> Array:
        """(x − x⁰) ‖x − x⁰‖^(a/2 − 1), whose length is that of the noise where B = 1 and G = 0."""
        offset = x - self.objective.start
        if self.growth == 2:
            return offset
        length = jnp.linalg.norm(offset)
        return offset * jnp.where(length > 0, length, 1.0) ** (self.growth / 2 - 1)

    @override
    def variance(self, point: Any) -> Array:
        return self.B**2 * jnp.sum(self.away(point.x) ** 2) + self.G**2

    @property
    @override
    def bg0(self) -> Bg0 | None:
        return Bg0(float(self.B), float(self.G), np.asarray(self.objective.start)) if self.growth == 2 else None


class Sample(NamedTuple):
    """The mean of a batch of ξ = (ρ, u): all a batch of any size leaves of them in the gradient."""

    rho: Array  # ρ
    u: Array


def _means(z: Array, u: Array, size: Array) -> Sample:
    """Means over b samples: ρ̄ = (2 Binomial(b, ½) − b)/b for each z, and ū ~ N(0, I/(d b))."""
    return Sample(mean_of_signs(z, size), u / jnp.sqrt(u.size * jnp.asarray(size, u.dtype)))


@part
class BlumGladyshev(ExactBg0):
    """The paper's noise, added to f: ∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G u, ρ = ±1, u ~ N(0, I/d).

    Its variance is exactly the one that BG-0 allows: E‖∇f(x; ξ) − ∇f(x)‖² = B²‖x − x⁰‖² + G². With B = 0 the variance
    is bounded, with B = G = 0 there is no noise. Blum 1954 and Gladyshev 1965 first allowed noise to grow like this.
    With `growth` a, the factor of ρ is B (x − x⁰) ‖x − x⁰‖^(a/2 − 1).

    >>> from gladstorm import objectives
    >>> oracle = BlumGladyshev(objectives.named("power:3", dim=10), B=0.5, G=0.5)
    """

    @override
    def draw(self, key: Array) -> Array:
        return jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Sample:
        return _means(noise[0], noise[1:], size)

    @override
    def grad(self, point: Point, sample: Sample) -> Array:
        return point.grad + self.B * sample.rho * self.away(point.x) + self.G * sample.u


@part
class FullRankOracle(BlumGladyshev):
    """BG-0 noise in every direction: ∇f(x; ξ) = ∇f(x) + B ρ ⊙ (x − x⁰) + G u, the signs ρ_i independent, u ~ N(0, I/d).

    The variance is that of `BlumGladyshev`, B²‖x − x⁰‖² + G², and so is the variance of the difference of one sample at
    two points, B²‖y − x‖². But there the growing part of the noise lies on one line, along x − x⁰.
    """

    @override
    def draw(self, key: Array) -> Array:
        return jax.random.normal(key, (2, self.objective.start.size), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Sample:
        return _means(noise[0], noise[1], size)


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
        return jax.random.uniform(key, (self.objective.start.size + 1,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        return mean_of_coins(noise, size, self.q)

    @override
    def grad(self, point: Point, sample: Array) -> Array:
        growing = self.B * sample[0] * self.away(point.x)
        return point.grad + growing + self.G / jnp.sqrt(point.x.size) * sample[1:]


@part
class LargestSingularValue:
    """‖x‖_op: of several tensors the largest, a vector being a matrix of one column."""

    def length(self, x: Any) -> Array:
        """Return ‖x‖_op of a tree of tensors."""
        matrices = [
            tensor.reshape(tensor.shape[0] if tensor.ndim > 1 else tensor.size, -1) for tensor in jax.tree.leaves(x)
        ]
        return jnp.max(jnp.array([jnp.max(singular_values(matrix)) for matrix in matrices]))


class FarPoint(NamedTuple):
    """x and ∇f(x), and how far x is from x⁰."""

    x: Array
    grad: Array
    distance: Array  # ‖x − x⁰‖ in the norm


@part
class NormNoise(ExactBg0):
    """∇f(x; ξ) = ∇f(x) + B ‖x − x⁰‖^(a/2) W + G u, W and u ~ N(0, I/d): noise that grows with the distance in a norm.

    Its variance is exactly B²‖x − x⁰‖^a + G². So it is what theory means by (B, G) for steps in that norm.

    >>> import gladstorm as gs
    >>> oracle = NormNoise(gs.objectives.named("cauchy", dim=2), B=0.5, G=0.5, norm=gs.norms.Sign(), growth=1.0)
    """

    norm: Any = LargestSingularValue()  #: one of gs.norms; the spectral norm if not given
    growth: float = dataclasses.field(default=2.0, kw_only=True, metadata={"rule": NON_NEGATIVE})  #: a

    def grown(self, point: FarPoint) -> Array:
        """‖x − x⁰‖^(a/2), the noise's deviation where B = 1 and G = 0."""
        return point.distance ** (self.growth / 2)

    @override
    def draw(self, key: Array) -> Array:
        return jax.random.normal(key, (2, self.objective.start.size), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        return noise / jnp.sqrt(noise.shape[1] * jnp.asarray(size, noise.dtype))

    @override
    def at(self, x: Array) -> FarPoint:
        distance = self.norm.length(unflatten(tree_of(self.objective), x - self.objective.start))
        return FarPoint(x, self.objective.grad(x), distance)

    @override
    def grad(self, point: FarPoint, sample: Array) -> Array:
        return point.grad + self.B * self.grown(point) * sample[0] + self.G * sample[1]

    @override
    def variance(self, point: FarPoint) -> Array:
        return (self.B * self.grown(point)) ** 2 + self.G**2

    @property
    @override
    def bg0(self) -> Bg0 | None:
        shorter = isinstance(self.norm, LargestSingularValue)  # than the Euclidean norm, of which BG-0 is
        return super().bg0 if shorter else None
