"""Sum of hyperbolic cosines: curvature proportional to the gradient, L*_sym(1)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import POSITIVE, VECTOR


@part
class Cosh:
    """f(x) = A Σ_i cosh(a x_i): its curvature grows like its gradient, α = 1."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    growth: Number = leaf(POSITIVE, default=1.0)  #: a > 0
    height: Number = leaf(POSITIVE, default=1.0)  #: A > 0

    @classmethod
    def from_seed(cls, seed: int, growth: float = 1.0, height: float = 1.0, *, dim: int = 1) -> Cosh:
        """x⁰ ~ N(0, I)."""
        return cls(np.random.default_rng(seed).normal(0, 1, dim), growth, height)

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.height * jnp.sum(jnp.cosh(self.growth * x))

    def grad(self, x: Array) -> Array:
        """∇f(x) = A a sinh(a x)."""
        return self.height * self.growth * jnp.sinh(self.growth * x)

    @property
    def f_inf(self) -> float:
        """A d, at x = 0."""
        return float(self.height) * np.size(self.start)

    @property
    def constants(self) -> Constants:
        """α = 1, L0 = A a², L1 = a: cosh t ≤ 1 + |sinh t|, and the largest coordinate dominates."""
        a, A = float(self.growth), float(self.height)
        return Constants(L0=A * a * a, L1=a, alpha=1.0, f_inf=self.f_inf)
