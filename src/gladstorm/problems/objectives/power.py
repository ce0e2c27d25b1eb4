"""‖x‖^p: smooth nowhere in the classical sense, L*_sym((p−2)/(p−1)) everywhere. p = 3 is the paper's cubic."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part, static
from gladstorm.core.rules import ABOVE_TWO, VECTOR


@part
class Power:
    """f(x) = ‖x‖^p, p > 2: curvature grows like ‖∇f‖^α with α = (p − 2)/(p − 1). p = 3 is the paper's cubic."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    p: float = static(ABOVE_TWO, default=3.0)  #: the power, > 2
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, p: float = 3.0, *, dim: int = 1) -> Power:
        """The paper's start: every coordinate of x⁰ is drawn from N(5, 0.1), where 0.1 is the variance."""
        return cls(np.random.default_rng(seed).normal(5, np.sqrt(0.1), dim), p)

    def value(self, x: Array) -> Array:
        """f(x)."""
        value: Array = jnp.linalg.norm(x) ** _exponent(self.p)
        return value

    def grad(self, x: Array) -> Array:
        """∇f(x) = p ‖x‖^(p−2) x."""
        gradient: Array = self.p * jnp.linalg.norm(x) ** _exponent(self.p - 2) * x
        return gradient

    @property
    def constants(self) -> Constants:
        """L0 = 0, and ‖∇²f‖ = p(p−1)‖x‖^(p−2) = L1 ‖∇f‖^α exactly."""
        p = self.p
        return Constants(L0=0.0, L1=(p - 1) * p ** (1 / (p - 1)), alpha=(p - 2) / (p - 1), f_inf=self.f_inf)


def _exponent(p: float) -> float | int:
    # A whole exponent becomes a product; XLA's general power is slower and not exact.
    return int(p) if float(p).is_integer() else p
