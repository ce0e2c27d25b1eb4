"""Quadratics with given curvatures along the axes."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import NON_NEGATIVE, VECTOR


@part
class Quadratic:
    """f(x) = ½ Σ_i a_i x_i².

    A rotated quadratic would behave alike: nearly all methods, and the BG-0 noise, do not depend on the axes.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    curvature: Data = leaf(NON_NEGATIVE, default=1.0)  #: a ≥ 0: one number for all coordinates, or one for each
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, *curvature: float, dim: int | None = None) -> Quadratic:
        """x⁰ ~ N(0, I); one curvature for all coordinates (1 if not given), or one for each."""
        dim = max(1, len(curvature)) if dim is None else dim
        if len(curvature) not in (0, 1, dim):
            raise ValueError(f"Quadratic: curvature must be one number or dim={dim}; got {len(curvature)} numbers.")
        values = np.broadcast_to(np.array(curvature or (1.0,), np.float64), dim).copy()
        return cls(np.random.default_rng(seed).normal(0, 1, dim), values)

    def value(self, x: Array) -> Array:
        """f(x)."""
        return jnp.sum(self.curvature * x * x) / 2

    def grad(self, x: Array) -> Array:
        """∇f(x) = a ⊙ x."""
        return self.curvature * x

    @property
    def constants(self) -> Constants:
        """The Hessian is diag(a)."""
        return Constants(L0=float(np.max(self.curvature)), L1=0.0, alpha=0.0, f_inf=self.f_inf)
