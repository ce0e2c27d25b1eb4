"""Problems on a line whose gradient, and the share of the noise in each channel, are linear between nodes."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import FINITE, NON_NEGATIVE, PROBABILITY, VECTOR
from gladstorm.problems.oracles.biased_coins import successes
from gladstorm.problems.oracles.oracle import Oracle


@part
class Line:
    """f'(x) = u₀ + Σ_j κ_j min(max(x − a_j, 0), h_j): continuous, and linear on every piece [a_j, a_j + h_j].

    Pieces lie side by side, and beyond them f' is constant. f = 0 at the left end of the first.
    """

    start: Data = leaf(VECTOR)  # x⁰, one number
    left: Data = leaf(VECTOR)  # a_j
    width: Data = leaf(VECTOR)  # h_j
    slope: Data = leaf(VECTOR)  # κ_j = f'' on the piece
    first: Number = leaf(FINITE)  # u₀ = f' at the left end
    lowest: Number = leaf(FINITE)  # inf f
    constants: ClassVar[Constants | None] = None

    @property
    def f_inf(self) -> float:
        """inf f."""
        return float(self.lowest)

    def within(self, x: Array) -> Array:
        """How far into each piece x is."""
        return jnp.clip(x[0] - self.left, 0, self.width)

    def value(self, x: Array) -> Array:
        """f(x)."""
        into = self.within(x)
        beyond = jnp.maximum(x[0] - self.left - self.width, 0)
        return self.first * (x[0] - self.left[0]) + self.slope @ (into * (into / 2 + beyond))

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return (self.first + self.slope @ self.within(x))[None]


class PointWithLoudness(NamedTuple):
    """x, ∇f(x) and how loud each channel of the noise is there."""

    x: Array
    grad: Array
    loudness: Array


@part
class LineNoise(Oracle):
    """∇f(x; ξ) = ∇f(x) + σ(x) (c₁(x) s₁ + c₂(x) s₂), σ² = B²|x − x⁰|² + G², c₁² + c₂² ≤ 1: BG-0 with these B and G.

    s₁ and s₂ are independent, of mean 0 and variance 1: √((1 − q)/q) with probability q and −√(q/(1 − q)) otherwise.
    The shares c are linear on the pieces of f, so the samples of one ξ at two points differ by a known amount.
    """

    objective: Line
    B: Number = leaf(NON_NEGATIVE)
    G: Number = leaf(NON_NEGATIVE)
    q: Data = leaf(PROBABILITY)  # of both channels
    share: Data = leaf(VECTOR)  # c at the left end of the first piece
    turns: Any = leaf(FINITE)  # dc/dx on the pieces, a row for each

    @override
    def draw(self, key: Array) -> Array:
        """One uniform number for each channel."""
        return jax.random.uniform(key, (2,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        """s̄ from how many of b samples were large: (M − b q)/(b √(q (1 − q))), M ~ Binomial(b, q)."""
        b = jnp.asarray(size, noise.dtype)
        return (successes(noise, b, self.q) - b * self.q) / (b * jnp.sqrt(self.q * (1 - self.q)))

    @override
    def at(self, x: Array) -> PointWithLoudness:
        into = self.objective.within(x)
        loud = jnp.sqrt((self.B * (x[0] - self.objective.start[0])) ** 2 + self.G**2)
        return PointWithLoudness(x, self.objective.grad(x), loud * (self.share + into @ self.turns))

    @override
    def grad(self, point: PointWithLoudness, sample: Array) -> Array:
        """∇f(x) + σ(x) (c₁(x) s₁ + c₂(x) s₂)."""
        return point.grad + point.loudness @ sample

    @override
    def variance(self, point: Any) -> Array:
        return jnp.sum(point.loudness**2)
