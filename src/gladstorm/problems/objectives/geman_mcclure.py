"""The Geman–McClure loss: nonconvex, 2-smooth, bounded."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import VECTOR


@part
class GemanMcclure:
    """f(x) = Σ_i x_i² / (1 + x_i²), the Geman–McClure loss: nonconvex, 2-smooth, bounded."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, *, dim: int = 1) -> GemanMcclure:
        """x⁰ ~ N(0, I)."""
        return cls(np.random.default_rng(seed).normal(0, 1, dim))

    def value(self, x: Array) -> Array:
        """f(x)."""
        return jnp.sum(x * x / (1 + x * x))

    def grad(self, x: Array) -> Array:
        """∇f(x) = 2x / (1 + x²)²."""
        return 2 * x / (1 + x * x) ** 2

    @property
    def constants(self) -> Constants:
        """f'' = (2 − 6x²)/(1 + x²)³ lies in [−½, 2]."""
        return Constants(L0=2.0, L1=0.0, alpha=0.0, f_inf=self.f_inf)
