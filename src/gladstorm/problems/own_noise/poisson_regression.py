"""Poisson regression with the log link: noise that grows faster than any power of the distance."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from typing_extensions import override

from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import POSITIVE, VECTOR
from gladstorm.problems.oracle import Point, Streamed


@part
class PoissonRegression:
    """f(x) = E[exp(a·x) − y a·x], a ~ N(0, s²I), y ~ Poisson(exp(a·x*)): Poisson regression on a stream of data.

    f is the expected negative log-likelihood, f(x) = exp(s²‖x‖²/2) − s² x·x* exp(s²‖x*‖²/2), and is smallest at x*. Its
    curvature grows faster than any power of the gradient, so it has no smoothness constants.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    optimum: Data = leaf(VECTOR)  #: x*, the solution
    spread: Number = leaf(POSITIVE)  #: s > 0, the standard deviation of the features
    constants: ClassVar[None] = None
    own_oracle: ClassVar[str] = "poisson-regression"

    @classmethod
    def from_seed(cls, seed: int, spread: float = 0.3, *, dim: int = 5) -> PoissonRegression:
        """x* uniform on the unit sphere, x⁰ ~ N(0, I)."""
        direction, start = np.random.default_rng(seed).normal(0, 1, (2, dim))
        return cls(start, direction / np.linalg.norm(direction), spread)

    @property
    def f_inf(self) -> float:
        """Return f(x*)."""
        square = float(self.spread) ** 2 * float(np.sum(np.square(self.optimum)))
        return float(np.exp(square / 2) * (1 - square))

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return self._mean(x) - self.spread**2 * (x @ self.optimum) * self._mean(self.optimum)

    def grad(self, x: Array) -> Array:
        """∇f(x) = s² (x exp(s²‖x‖²/2) − x* exp(s²‖x*‖²/2))."""
        return self.spread**2 * (x * self._mean(x) - self.optimum * self._mean(self.optimum))

    def _mean(self, x: Array) -> Array:
        """Return E exp(a·x)."""
        return jnp.exp(self.spread**2 * (x @ x) / 2)


FAR = 26  # deviations: less probable than 1e-80, and still no outcome there has the probability 0 as a float


@part
class PoissonRegressionOracle(Streamed):
    """∇f(x; a, y) = a (exp(a·x) − y), a ~ N(0, s²I), y ~ Poisson(exp(a·x*)).

    Its variance grows like exp(2s²‖x‖²), faster than BG-0 allows with any constants. A batch of b samples costs b
    draws.
    """

    objective: PoissonRegression
    noise_of: ClassVar = PoissonRegression
    no_theorem: ClassVar[str] = "its noise grows faster than B²‖x − x⁰‖² + G² with any B and G"

    @override
    def single(self, key: Array) -> tuple[Array, Array]:
        normals = jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))
        a = self.objective.spread * normals[1:]
        return a, counted(ndtr(normals[0]), jnp.exp(a @ self.objective.optimum))

    @override
    def gradient(self, point: Point, single: tuple[Array, Array]) -> Array:
        a, y = single
        return a * (jnp.exp(a @ point.x) - y)

    @override
    def variance(self, point: Point) -> Array:
        """E‖a‖²(exp(a·x) − y)² − ‖∇f‖², by E[‖a‖² exp(a·v)] = s² (d + s²‖v‖²) exp(s²‖v‖²/2)."""
        x, optimum, s2 = point.x, self.objective.optimum, self.objective.spread**2

        def tilted(v: Array) -> Array:
            return s2 * (x.size + s2 * (v @ v)) * jnp.exp(s2 * (v @ v) / 2)

        second = tilted(2 * x) - 2 * tilted(x + optimum) + tilted(2 * optimum) + tilted(optimum)
        return second - point.grad @ point.grad


def counted(uniform: Array, mean: Array) -> Array:
    """Poisson(mean) as a function of a uniform number: the outcomes 0, 1, … laid side by side on [0, 1].

    Those of a large mean begin `FAR` deviations below it, since exp(−mean) would be 0.

    >>> float(counted(jnp.array(0.5), jnp.array(1.0)))
    1.0
    """
    least = jnp.maximum(jnp.floor(mean - FAR * jnp.sqrt(mean)), 0)
    most = mean + 40 * jnp.sqrt(mean) + 100  # beyond, outcomes are rounding

    def next_one(search: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, p, left = search
        after = p * mean / (y + 1)
        return y + 1, after, left - after

    def not_found(search: tuple[Array, Array, Array]) -> Array:
        return (search[2] >= 0) & (search[0] < most)

    first = jnp.exp(-mean + jnp.where(least > 0, least * jnp.log(mean) - lax.lgamma(least + 1), 0.0))
    y, _, _ = lax.while_loop(not_found, next_one, (least, first, uniform - first))
    return y
