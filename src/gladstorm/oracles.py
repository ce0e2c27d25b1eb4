"""Stochastic gradients: draw once, evaluate anywhere."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from gladstorm.fair_coins import heads
from gladstorm.objectives import Objective
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import NON_NEGATIVE


class Oracle(Protocol):
    """What `run` needs of a source of stochastic gradients. Points are opaque to everybody but the oracle."""

    @property
    def objective(self) -> Objective:
        """f."""

    def draw(self, key: Array) -> Any:
        """The randomness of one step, whatever the batch size will be."""

    def batch(self, noise: Any, size: Array) -> Any:
        """The mean of `size` samples, in law, as one sample; `size` is a traced whole number."""

    def at(self, x: Array) -> Any:
        """x together with what the oracle wants to remember about x."""

    def grad(self, point: Any, sample: Any) -> Array:
        """∇f(x; ξ). The same sample may be evaluated at several points."""

    def exact(self, point: Any) -> Array:
        """∇f(x), for the record."""


class Point(NamedTuple):
    """x and ∇f(x), computed once for all samples evaluated at x and for the record."""

    x: Array
    grad: Array


class Sample(NamedTuple):
    """The mean of a batch of ξ = (ρ, u): all a batch of any size leaves of them in the gradient."""

    rho: Array  # ρ
    u: Array


@part
class BlumGladyshev:
    """BG-0 noise of exact variance: ∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G u, ρ = ±1, u ~ N(0, I/d).

    E‖∇f(x; ξ) − ∇f(x)‖² = B²‖x − x⁰‖² + G². B = 0 is bounded variance, B = G = 0 is no noise.

    >>> from gladstorm import objectives
    >>> oracle = BlumGladyshev(objectives.named("power:3", start=5.0), B=0.5, G=0.5)
    """

    objective: Objective
    B: Number = leaf(NON_NEGATIVE)
    G: Number = leaf(NON_NEGATIVE)

    def draw(self, key: Array) -> Array:
        """One normal for ρ, d for u."""
        return jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))

    def batch(self, noise: Array, size: Array) -> Sample:
        """ρ̄ = (2 Binomial(b, ½) − b)/b and ū ~ N(0, I/(d b)): sufficient for the batch mean of b samples."""
        z, u = noise[0], noise[1:]
        b = jnp.asarray(size, u.dtype)
        return Sample((2 * heads(z, size) - b) / b, u / jnp.sqrt(u.size * b))

    def at(self, x: Array) -> Point:
        """x and its exact gradient."""
        return Point(x, self.objective.grad(x))

    def grad(self, point: Point, sample: Sample) -> Array:
        """∇f(x) + B ρ (x − x⁰) + G u."""
        return point.grad + self.B * sample.rho * (point.x - self.objective.start) + self.G * sample.u

    def exact(self, point: Point) -> Array:
        """∇f(x)."""
        return point.grad
