"""Noise beyond the wrapper's: laws that are skewed, of full rank, or tied to the gradient. Each is an `Oracle`.

A batch mean is always drawn from its exact law through sufficient statistics, and a sample can be evaluated at two
points.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

from gladstorm.fair_coins import heads
from gladstorm.objectives import Objective
from gladstorm.oracles import BlumGladyshev, Point, Sample
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import NON_NEGATIVE, POSITIVE, Rule

PROBABILITY = Rule("in (0, 1)", lambda v: (v > 0) & (v < 1))


@part
class FullRank(BlumGladyshev):
    """BG-0 noise in every direction: ∇f(x; ξ) = ∇f(x) + B ρ ⊙ (x − x⁰) + G u, the signs ρ_i independent, u ~ N(0, I/d).

    The variance is exactly the wrapper's, B²‖x − x⁰‖² + G², and so is that of a difference, B²‖y − x‖²; but the
    wrapper's growing part is on one line, along x − x⁰.
    """

    def draw(self, key: Array) -> Array:
        """One normal for each sign, d for u."""
        return jax.random.normal(key, (2, self.objective.start.size), jnp.result_type(float))

    def batch(self, noise: Array, size: Array) -> Sample:
        """ρ̄_i = (2 Binomial(b, ½) − b)/b for each coordinate, and ū ~ N(0, I/(d b))."""
        z, u = noise
        b = jnp.asarray(size, u.dtype)
        coins = jnp.broadcast_to(jnp.asarray(size), z.shape)
        return Sample((2 * heads(z, coins) - b) / b, u / jnp.sqrt(u.size * b))


class Turning(NamedTuple):
    """The mean of a batch of ξ = (ρ, u, u')."""

    rho: Array  # ρ
    u: Array
    quadrature: Array  # u'


@part
class GradientCoupled:
    """∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G (u ⊙ sin θ + u' ⊙ cos θ), θ = ∇f(x)/s, ρ = ±1, u and u' ~ N(0, I/d).

    At one point this is the wrapper's noise, in law: sin² + cos² = 1. At two points it is not: the difference has
    variance B²‖y − x‖² + 2 (G²/d) Σ_i (1 − cos(θ_i(y) − θ_i(x))) ≤ B²‖y − x‖² + (G²/(d s²)) ‖∇f(y) − ∇f(x)‖². It grows
    with the curvature, hence with ‖∇f‖^α. Methods that evaluate a sample once cannot tell the two apart, STORM can.
    """

    objective: Objective
    B: Number = leaf(NON_NEGATIVE)
    G: Number = leaf(NON_NEGATIVE)
    scale: Number = leaf(POSITIVE)  # s, the change of the gradient over which the noise turns

    def draw(self, key: Array) -> Array:
        """One normal for ρ, d each for u and u'."""
        return jax.random.normal(key, (2 * self.objective.start.size + 1,), jnp.result_type(float))

    def batch(self, noise: Array, size: Array) -> Turning:
        """As the wrapper's: one binomial count and two Gaussian vectors."""
        b = jnp.asarray(size, noise.dtype)
        u, quadrature = (noise[1:] / jnp.sqrt(self.objective.start.size * b)).reshape(2, -1)
        return Turning((2 * heads(noise[0], size) - b) / b, u, quadrature)

    def at(self, x: Array) -> Point:
        """x and its exact gradient."""
        return Point(x, self.objective.grad(x))

    def grad(self, point: Point, sample: Turning) -> Array:
        """∇f(x) + B ρ (x − x⁰) + G (u ⊙ sin θ + u' ⊙ cos θ)."""
        turn = point.grad / self.scale
        noise = sample.u * jnp.sin(turn) + sample.quadrature * jnp.cos(turn)
        return point.grad + self.B * sample.rho * (point.x - self.objective.start) + self.G * noise

    def exact(self, point: Point) -> Array:
        """∇f(x)."""
        return point.grad


@part
class Skewed:
    """∇f(x; ξ) = ∇f(x) + B s₀ (x − x⁰) + (G/√d) s: BG-0 noise of exact variance, from d + 1 skewed two-point numbers.

    Each of s₀, s₁..s_d is √((1 − q)/q) with probability q and −√(q/(1 − q)) otherwise: mean 0 and variance 1. For small
    q the mean of a few samples is below its expectation most of the time, and a method that only sees directions
    follows the typical sample. With B = 0 this is the noise of the errata's counterexample.
    """

    objective: Objective
    B: Number = leaf(NON_NEGATIVE)
    G: Number = leaf(NON_NEGATIVE)
    q: Number = leaf(PROBABILITY)

    def draw(self, key: Array) -> Array:
        """One uniform number for each of s₀, s₁..s_d."""
        return jax.random.uniform(key, (self.objective.start.size + 1,), jnp.result_type(float))

    def batch(self, noise: Array, size: Array) -> Array:
        """s̄ from how many of b samples were large: (M − b q)/(b √(q (1 − q))), M ~ Binomial(b, q)."""
        b = jnp.asarray(size, noise.dtype)
        return (successes(noise, b, self.q) - b * self.q) / (b * jnp.sqrt(self.q * (1 - self.q)))

    def at(self, x: Array) -> Point:
        """x and its exact gradient."""
        return Point(x, self.objective.grad(x))

    def grad(self, point: Point, sample: Array) -> Array:
        """∇f(x) + B s₀ (x − x⁰) + (G/√d) s."""
        growing = self.B * sample[0] * (point.x - self.objective.start)
        return point.grad + growing + self.G / jnp.sqrt(point.x.size) * sample[1:]

    def exact(self, point: Point) -> Array:
        """∇f(x)."""
        return point.grad


class _Search(NamedTuple):
    """Outcomes from the mode outwards: what is left of the uniform number, the ends reached and their probabilities."""

    left: Array
    below: Array
    above: Array
    p_below: Array
    p_above: Array
    found: Array  # −1 until then


def successes(uniform: Array, trials: Array, q: Array) -> Array:
    """Binomial(trials, q) as a function of a uniform number: outcomes are laid out from the mode outwards.

    A single trial is one comparison; b of them take about √(b q (1 − q)) steps, exact for every b.

    >>> successes(jnp.array([0.95, 0.05]), jnp.array(1.0), jnp.array(0.1)).tolist()
    [0.0, 1.0]
    """
    b = jnp.broadcast_to(trials, uniform.shape).astype(uniform.dtype)
    mode = jnp.clip(jnp.floor((b + 1) * q), 0, b)
    odds = q / (1 - q)

    def unfinished(search: _Search) -> Array:
        return jnp.any(search.found < 0)

    def at_the_mode(search: _Search) -> _Search:
        ways = gammaln(b + 1) - gammaln(mode + 1) - gammaln(b - mode + 1)
        p = jnp.exp(ways + mode * jnp.log(q) + (b - mode) * jnp.log1p(-q))
        left = uniform - p
        # Where the mode is not it, −2 says that the search goes on but this loop does not.
        found = jnp.where(search.found == -1, jnp.where(left < 0, mode, -2.0), search.found)
        return _Search(left, mode, mode, p, p, found)

    def outwards(search: _Search) -> _Search:
        above, below = search.above + 1, search.below - 1
        p_above = search.p_above * jnp.maximum(b - search.above, 0) / above * odds
        p_below = search.p_below * jnp.maximum(search.below, 0) / (b - below) / odds
        after_above = search.left - p_above
        left = after_above - p_below
        here = jnp.where(after_above < 0, above, jnp.where(left < 0, below, search.found))
        # Rounding may leave a rest when every outcome has been passed: it belongs to the mode.
        here = jnp.where((here < 0) & (below <= 0) & (above >= b), mode, here)
        return _Search(left, below, above, p_below, p_above, jnp.where(search.found < 0, here, search.found))

    # Loops and not plain code, so that steps whose runs all draw single samples, the common case, skip the logarithms.
    single = jnp.where(uniform < q, 1.0, 0.0)
    begun = _Search(uniform, mode, mode, uniform, uniform, jnp.where(b == 1, single, -1.0))
    placed = lax.while_loop(lambda search: jnp.any(search.found == -1), at_the_mode, begun)
    return lax.while_loop(unfinished, outwards, placed).found
