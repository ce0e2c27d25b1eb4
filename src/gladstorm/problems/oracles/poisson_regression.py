"""Poisson regression on a stream."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import ndtr
from typing_extensions import override

from gladstorm.core.parts import Array, part
from gladstorm.problems.objectives.poisson_regression import PoissonRegression as Objective
from gladstorm.problems.oracles.oracle import Point
from gladstorm.problems.oracles.streamed import Streamed

FAR = 26  # deviations: less probable than 1e-80, and still no outcome there has the probability 0 as a float


class Count(NamedTuple):
    """One observation."""

    a: Array
    y: Array


@part
class PoissonRegression(Streamed):
    """∇f(x; a, y) = a (exp(a·x) − y), a ~ N(0, s²I), y ~ Poisson(exp(a·x*)).

    Its variance grows like exp(2s²‖x‖²), faster than BG-0 allows with any constants. A batch of b samples costs b
    draws.
    """

    objective: Objective
    outside: ClassVar[str] = "its noise grows faster than B²‖x − x⁰‖² + G² with any B and G"

    @override
    def single(self, key: Array) -> Count:
        normals = jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))
        a = self.objective.spread * normals[1:]
        return Count(a, counted(ndtr(normals[0]), jnp.exp(a @ self.objective.optimum)))

    @override
    def gradient(self, point: Point, single: Count) -> Array:
        return single.a * (jnp.exp(single.a @ point.x) - single.y)

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
