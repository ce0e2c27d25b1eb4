"""Phase retrieval from a stream of measurements: noise that grows like the sixth power of the distance."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import NON_NEGATIVE, VECTOR
from gladstorm.problems.oracle import Point, Streamed


@part
class SampledPhaseRetrieval:
    """f(x) = ½ E(y − (a·x)²)², a ~ N(0, I), y = (a·x*)² + σε: phase retrieval with fresh measurements.

    f(x) = ½ (3‖x‖⁴ + 3‖x*‖⁴ − 2‖x‖²‖x*‖² − 4 (x·x*)² + σ²), smallest at x* and −x*. The gradient is also 0 at x = 0 and
    at all x orthogonal to x* with 3‖x‖² = ‖x*‖², which are no solutions: where ‖∇f‖ is small, look at f.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    signal: Data = leaf(VECTOR)  #: x*, a solution
    sigma: Number = leaf(NON_NEGATIVE)  #: σ ≥ 0, the standard deviation of the measurement error
    own_oracle: ClassVar[str] = "sampled-phase-retrieval"

    @classmethod
    def from_seed(cls, seed: int, sigma: float = 1.0, *, dim: int = 5) -> SampledPhaseRetrieval:
        """x* uniform on the unit sphere, x⁰ ~ N(0, I)."""
        direction, start = np.random.default_rng(seed).normal(0, 1, (2, dim))
        return cls(start, direction / np.linalg.norm(direction), sigma)

    @property
    def f_inf(self) -> float:
        """f(x*) = σ²/2."""
        return float(self.sigma) ** 2 / 2

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        xx, ss, xs = x @ x, self.signal @ self.signal, x @ self.signal
        return (3 * xx**2 + 3 * ss**2 - 2 * xx * ss - 4 * xs**2 + self.sigma**2) / 2

    def grad(self, x: Array) -> Array:
        """∇f(x) = (6‖x‖² − 2‖x*‖²) x − 4 (x·x*) x*."""
        signal = self.signal
        return (6 * (x @ x) - 2 * (signal @ signal)) * x - 4 * (x @ signal) * signal

    @property
    def constants(self) -> Constants:
        """α = 2/3: with R = ‖x‖ and N = ‖x*‖, ‖∇²f‖ ≤ max(18R², 6N²), and ‖∇f‖ ≥ 6R³ − 6N²R ≥ 3R³ once R² ≥ 2N²."""
        square = float(np.sum(np.square(self.signal)))
        return Constants(L0=36 * square, L1=18 / 3 ** (2 / 3), alpha=2 / 3, f_inf=self.f_inf)


@part
class SampledPhaseRetrievalOracle(Streamed):
    """∇f(x; a, y) = 2 ((a·x)² − y) (a·x) a, a ~ N(0, I), y = (a·x*)² + σε.

    Its variance grows like 60 (d + 6) ‖x‖⁶, faster than BG-0 allows with any constants. A batch of b samples costs b
    draws.
    """

    objective: SampledPhaseRetrieval
    noise_of: ClassVar = SampledPhaseRetrieval
    no_theorem: ClassVar[str] = "its noise grows faster than B²‖x − x⁰‖² + G² with any B and G"

    @override
    def single(self, key: Array) -> tuple[Array, Array]:
        normals = jax.random.normal(key, (self.objective.start.size + 1,), jnp.result_type(float))
        a = normals[1:]
        return a, (a @ self.objective.signal) ** 2 + self.objective.sigma * normals[0]

    @override
    def gradient(self, point: Point, single: tuple[Array, Array]) -> Array:
        a, y = single
        s = a @ point.x
        return 2 * (s * s - y) * s * a

    @override
    def variance(self, point: Point) -> Array:
        """4 E[‖a‖² s² (s² − y)²] − ‖∇f‖², s = a·x; of a form F of degree k, E[F ‖a‖²] = (d + k) E[F]."""
        x, signal, d = point.x, self.objective.signal, point.x.size
        xx, ss, xs2 = x @ x, signal @ signal, (x @ signal) ** 2
        sixth = 15 * xx**3 - 2 * (3 * xx**2 * ss + 12 * xx * xs2) + 3 * xx * ss**2 + 12 * ss * xs2
        second = 4 * ((d + 6) * sixth + (d + 2) * self.objective.sigma**2 * xx)
        return second - point.grad @ point.grad
