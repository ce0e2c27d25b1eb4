"""Least squares on a stream: batches of any size, at the price of one."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0
from gladstorm.core.parts import Array, part
from gladstorm.problems.objectives.streaming_least_squares import StreamingLeastSquares as Objective
from gladstorm.problems.oracles.oracle import Point
from gladstorm.problems.oracles.own_noise import OwnNoise
from gladstorm.problems.oracles.wishart import PER_LENGTH, lengths


class Draws(NamedTuple):
    """The randomness of a step."""

    normals: Array  # 3d + 10
    key: Array  # for what depends on the batch size


class Batch(NamedTuple):
    """The mean of b samples, in the coordinates in which Σ = I: three vectors have the law of b."""

    size: Array  # b
    home: Array  # the unit vector along x − x* where it was drawn; 0 if nobody said where
    most: Array  # √χ²(b): the length of all samples' components along it
    a: Array  # two vectors; once it is known where they were drawn, only the first has a component along `home`
    eps: Array  # ε, for each of the two
    rest: Array  # a vector for what the other b − 2 are beside `home`
    length: Array  # √χ²(b − 2): theirs, along any direction


@part
class StreamingLeastSquares(OwnNoise):
    """∇f(x; a, ε) = a (a·(x − x*) − σε), a ~ N(0, Σ), ε ~ N(0, 1).

    With e = x − x* its variance is trΣ·eᵀΣe + ‖Σe‖² + σ² trΣ, which is smallest at x* and not at x⁰. The difference of
    one sample at x and y has variance trΣ·δᵀΣδ + ‖Σδ‖², δ = y − x. So BG-0 holds around x* with B² = λ trΣ + λ² and
    G² = σ² trΣ, where λ is the largest eigenvalue.

    A batch of any size costs O(d). For Σ = I, the b samples can be rotated among themselves, which changes neither
    their law nor their sum: the first then has all that they have along x − x*, the second what is left of their ε, and
    the third what is left of them along y − x*. The three lengths are √χ² of b, b − 1 and b − 2 (Bartlett's factor of a
    Wishart matrix). The rotation depends on x, so `drawn_at` tells a batch where it is drawn; it is exact there and at
    one other point together. A single sample is exact everywhere.

    >>> from gladstorm import objectives
    >>> oracle = StreamingLeastSquares(objectives.named("streaming-least-squares", dim=3))
    >>> oracle.bg0.where
    'x*'
    """

    objective: Objective

    @override
    def draw(self, key: Array) -> Draws:
        """Three normal vectors, and the random numbers for ε and the lengths."""
        count = 3 * self.objective.start.size + 1 + 3 * PER_LENGTH
        normals = jax.random.normal(key, (count,), jnp.result_type(float))
        return Draws(normals, jax.random.key_data(key))

    @override
    def batch(self, noise: Draws, size: Array) -> Batch:
        """Three vectors that stand for b samples; a batch of one uses the first, a batch of two the first two."""
        first, of_lengths, vectors = jnp.split(noise.normals, [1, 1 + 3 * PER_LENGTH])
        left = jnp.asarray(size) - jnp.arange(3)
        key = jax.random.wrap_key_data(noise.key, impl="threefry2x32")
        most, second, third = lengths(of_lengths.reshape(3, PER_LENGTH), key, left)
        vectors = jnp.where(left[:, None] > 0, vectors.reshape(3, -1), 0.0)
        eps = jnp.stack([first[0], second])
        home = jnp.zeros_like(vectors[0])
        return Batch(jnp.asarray(size, eps.dtype), home, most, vectors[:2], eps, vectors[2], third)

    @override
    def drawn_at(self, point: Point, sample: Batch) -> Batch:
        """The batch, rotated so that its first vector has all that the samples have along x − x*."""
        home = _unit(self._whitened(point))
        along = jnp.stack([sample.most, jnp.zeros_like(sample.most)])
        there = sample.a + jnp.outer(jnp.where(jnp.any(home != 0), along - sample.a @ home, 0.0), home)
        return sample._replace(home=home, a=there)

    @override
    def grad(self, point: Point, sample: Batch) -> Array:
        """1/b Σ_i a_i (a_i·(x − x*) − σ ε_i)."""
        e, home = self._whitened(point), sample.home
        beside = e - (home @ e) * home
        new = _unit(beside)
        others = sample.rest - (home @ sample.rest) * home + (sample.length - new @ sample.rest) * new
        total = (sample.a @ e - self.objective.sigma * sample.eps) @ sample.a + sample.length * (new @ beside) * others
        return jnp.sqrt(self.objective.spectrum) * total / sample.size

    @override
    def variance(self, point: Point) -> Array:
        """trΣ·eᵀΣe + ‖Σe‖² + σ² trΣ."""
        trace = jnp.sum(self.objective.spectrum)
        e, Se = point.x - self.objective.optimum, point.grad
        return trace * (e @ Se) + Se @ Se + self.objective.sigma**2 * trace

    @property
    @override
    def bg0(self) -> Bg0:
        spectrum = np.asarray(self.objective.spectrum)
        largest, trace = float(spectrum.max()), float(spectrum.sum())
        B, G = (largest * trace + largest**2) ** 0.5, float(self.objective.sigma) * trace**0.5
        return Bg0(B, G, np.asarray(self.objective.optimum), "x*")

    def _whitened(self, point: Point) -> Array:
        return jnp.sqrt(self.objective.spectrum) * (point.x - self.objective.optimum)


def _unit(v: Array) -> Array:
    norm = jnp.linalg.norm(v)
    return jnp.where(norm > 0, v / jnp.where(norm > 0, norm, 1.0), 0.0)
