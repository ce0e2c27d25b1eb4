"""Least squares on a stream: every sample is new, and its noise grows with the distance to the solution."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0, Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import AT_LEAST_ONE, NON_NEGATIVE, POSITIVE, VECTOR
from gladstorm.problems.oracle import OwnNoise, Point
from gladstorm.problems.sampling import PER_LENGTH, key_of, lengths


@part
class StreamingLeastSquares:
    """f(x) = ½ E(a·x − y)² = ½ (x − x*)ᵀΣ(x − x*) + σ²/2, where a ~ N(0, Σ) and y = a·x* + σε, ε ~ N(0, 1).

    Σ is diagonal, given by its eigenvalues. Methods that do not depend on the axes behave alike for every Σ with these
    eigenvalues: any problem has this form in the coordinates of Σ's eigenvectors.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    optimum: Data = leaf(VECTOR)  #: x*, the solution
    spectrum: Data = leaf(POSITIVE)  #: the eigenvalues λ > 0 of Σ, one for each coordinate
    sigma: Number = leaf(NON_NEGATIVE, default=1.0)  #: σ ≥ 0, the standard deviation of the measurement error
    own_oracle: ClassVar[str] = "streaming-least-squares"

    @classmethod
    def from_seed(
        cls, seed: int, sigma: float = 1.0, condition: float = 1.0, *, dim: int = 10
    ) -> StreamingLeastSquares:
        """x* ~ N(0, I), x⁰ ~ N(5, I), and eigenvalues that fall in equal ratios from 1 to 1/`condition`."""
        AT_LEAST_ONE.require("StreamingLeastSquares", "condition", condition)
        rng = np.random.default_rng(seed)
        return cls(rng.normal(5, 1, dim), rng.normal(0, 1, dim), np.geomspace(1, 1 / condition, dim), sigma)

    @property
    def f_inf(self) -> float:
        """f(x*) = σ²/2."""
        return float(self.sigma) ** 2 / 2

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return (jnp.sum(self.spectrum * (x - self.optimum) ** 2) + self.sigma**2) / 2

    def grad(self, x: Array) -> Array:
        """∇f(x) = Σ (x − x*)."""
        return self.spectrum * (x - self.optimum)

    @property
    def constants(self) -> Constants:
        """The Hessian is Σ."""
        return Constants(L0=float(np.max(self.spectrum)), L1=0.0, alpha=0.0, f_inf=self.f_inf)


class LeastSquaresBatch(NamedTuple):
    """The mean of b samples, in the coordinates in which Σ = I: three vectors have the law of b."""

    size: Array  # b
    home: Array  # the unit vector along x − x* where it was drawn; 0 if nobody said where
    most: Array  # √χ²(b): the length of all samples' components along it
    a: Array  # two vectors; once it is known where they were drawn, only the first has a component along `home`
    eps: Array  # ε, for each of the two
    rest: Array  # a vector for what the other b − 2 are beside `home`
    length: Array  # √χ²(b − 2): theirs, along any direction


@part
class StreamingLeastSquaresOracle(OwnNoise):
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
    >>> oracle = StreamingLeastSquaresOracle(objectives.named("streaming-least-squares", dim=3))
    >>> oracle.bg0.where
    'x*'
    """

    objective: StreamingLeastSquares
    noise_of: ClassVar = StreamingLeastSquares

    @override
    def draw(self, key: Array) -> tuple[Array, Array]:
        count = 1 + 3 * PER_LENGTH + 3 * self.objective.start.size  # for ε, for three lengths, for three vectors
        return jax.random.normal(key, (count,), jnp.result_type(float)), jax.random.key_data(key)

    @override
    def batch(self, noise: tuple[Array, Array], size: Array) -> LeastSquaresBatch:
        first, of_lengths, vectors = jnp.split(noise[0], [1, 1 + 3 * PER_LENGTH])
        left = jnp.asarray(size) - jnp.arange(3)
        most, second, third = lengths(of_lengths.reshape(3, PER_LENGTH), key_of(noise[1]), left)
        vectors = jnp.where(left[:, None] > 0, vectors.reshape(3, -1), 0.0)
        eps = jnp.stack([first[0], second])
        home = jnp.zeros_like(vectors[0])
        return LeastSquaresBatch(jnp.asarray(size, eps.dtype), home, most, vectors[:2], eps, vectors[2], third)

    @override
    def drawn_at(self, point: Point, sample: LeastSquaresBatch) -> LeastSquaresBatch:
        home = _unit(self._whitened(point))
        along = jnp.stack([sample.most, jnp.zeros_like(sample.most)])
        there = sample.a + jnp.outer(jnp.where(jnp.any(home != 0), along - sample.a @ home, 0.0), home)
        return sample._replace(home=home, a=there)

    @override
    def grad(self, point: Point, sample: LeastSquaresBatch) -> Array:
        e, home = self._whitened(point), sample.home
        beside = e - (home @ e) * home
        new = _unit(beside)
        others = sample.rest - (home @ sample.rest) * home + (sample.length - new @ sample.rest) * new
        total = (sample.a @ e - self.objective.sigma * sample.eps) @ sample.a + sample.length * (new @ beside) * others
        return jnp.sqrt(self.objective.spectrum) * total / sample.size

    @override
    def variance(self, point: Point) -> Array:
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
