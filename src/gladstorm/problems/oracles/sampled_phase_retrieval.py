"""Phase retrieval on a stream."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, part
from gladstorm.problems.objectives.sampled_phase_retrieval import SampledPhaseRetrieval as Objective
from gladstorm.problems.oracles.oracle import Point
from gladstorm.problems.oracles.streamed import Streamed


class Measurement(NamedTuple):
    """One measurement."""

    a: Array
    y: Array


@part
class SampledPhaseRetrieval(Streamed):
    """∇f(x; a, y) = 2 ((a·x)² − y) (a·x) a, a ~ N(0, I), y = (a·x*)² + σε.

    Its variance grows like 60 (d + 6) ‖x‖⁶, faster than BG-0 allows with any constants. A batch of b samples costs b
    draws.
    """

    objective: Objective
    outside: ClassVar[str] = "its noise grows faster than B²‖x − x⁰‖² + G² with any B and G"

    @override
    def single(self, key: Array) -> Measurement:
        normals = jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))
        a = normals[1:]
        return Measurement(a, (a @ self.objective.signal) ** 2 + self.objective.sigma * normals[0])

    @override
    def gradient(self, point: Point, single: Measurement) -> Array:
        s = single.a @ point.x
        return 2 * (s * s - single.y) * s * single.a

    @override
    def variance(self, point: Point) -> Array:
        """4 E[‖a‖² s² (s² − y)²] − ‖∇f‖², s = a·x; of a form F of degree k, E[F ‖a‖²] = (d + k) E[F]."""
        x, signal, d = point.x, self.objective.signal, point.x.size
        xx, ss, xs2 = x @ x, signal @ signal, (x @ signal) ** 2
        sixth = 15 * xx**3 - 2 * (3 * xx**2 * ss + 12 * xx * xs2) + 3 * xx * ss**2 + 12 * ss * xs2
        second = 4 * ((d + 6) * sixth + (d + 2) * self.objective.sigma**2 * xx)
        return second - point.grad @ point.grad
