"""The Cauchy (Lorentzian) loss: nonconvex, 2-smooth, unbounded."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import VECTOR


@part
class Cauchy:
    """f(x) = Σ_i log(1 + x_i²), the Cauchy loss: nonconvex, 2-smooth, unbounded."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, *, dim: int = 1) -> Cauchy:
        """x⁰ ~ N(0, I)."""
        return cls(np.random.default_rng(seed).normal(0, 1, dim))

    def value(self, x: Array) -> Array:
        """f(x)."""
        return jnp.sum(jnp.log1p(x * x))

    def grad(self, x: Array) -> Array:
        """∇f(x) = 2x / (1 + x²)."""
        return 2 * x / (1 + x * x)

    @property
    def constants(self) -> Constants:
        """f'' = 2(1 − x²)/(1 + x²)² lies in [−¼, 2]."""
        return Constants(L0=2.0, L1=0.0, alpha=0.0, f_inf=self.f_inf)
