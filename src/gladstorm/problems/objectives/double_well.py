"""The double well (in higher dimension a ring of minima): the smallest nonconvex quartic, L*_sym(2/3)."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import VECTOR


@part
class DoubleWell:
    """f(x) = (‖x‖² − 1)² / 4, the double well; its minima are the points with ‖x‖ = 1."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, *, dim: int = 1) -> DoubleWell:
        """x⁰ ~ N(0, I)."""
        return cls(np.random.default_rng(seed).normal(0, 1, dim))

    def value(self, x: Array) -> Array:
        """f(x)."""
        return (jnp.sum(x * x) - 1) ** 2 / 4

    def grad(self, x: Array) -> Array:
        """∇f(x) = (‖x‖² − 1) x."""
        return (jnp.sum(x * x) - 1) * x

    @property
    def constants(self) -> Constants:
        """With t = ‖x‖² ≥ 1: ‖∇²f‖ = 3t − 1 ≤ 2 + 3 t^(1/3) (t − 1)^(2/3) = 2 + 3‖∇f‖^(2/3); below 1 it is ≤ 2."""
        return Constants(L0=2.0, L1=3.0, alpha=2 / 3, f_inf=self.f_inf)
