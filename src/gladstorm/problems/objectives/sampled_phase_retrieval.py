"""Phase retrieval from a stream of measurements: noise that grows like the sixth power of the distance."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import NON_NEGATIVE, VECTOR, unlike_shapes
from gladstorm.problems.objectives.random_points import start_and_unit


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
        return cls(*start_and_unit(seed, dim), sigma)

    @property
    def flaw(self) -> str | None:
        """None if its numbers fit together; otherwise a sentence that says what is wrong."""
        return unlike_shapes("SampledPhaseRetrieval", start=self.start, signal=self.signal)

    @property
    def f_inf(self) -> float:
        """f(x*) = σ²/2."""
        return float(self.sigma) ** 2 / 2

    def value(self, x: Array) -> Array:
        """f(x)."""
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
