"""Functions whose value, gradient and smoothness constants are a line each."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part, static
from gladstorm.core.rules import ABOVE_TWO, NON_NEGATIVE, POSITIVE, VECTOR


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
        """Return the value f(x)."""
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
        return cls(_normal(seed, dim), values)

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return jnp.sum(self.curvature * x * x) / 2

    def grad(self, x: Array) -> Array:
        """∇f(x) = a ⊙ x."""
        return self.curvature * x

    @property
    def constants(self) -> Constants:
        """The Hessian is diag(a)."""
        return Constants(L0=float(np.max(self.curvature)), L1=0.0, alpha=0.0, f_inf=self.f_inf)


@part
class Cauchy:
    """f(x) = Σ_i log(1 + x_i²), the Cauchy (Lorentzian) loss: nonconvex, 2-smooth, unbounded."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    f_inf: ClassVar[float] = 0.0
    #: f'' = 2(1 − x²)/(1 + x²)² lies in [−¼, 2].
    constants: ClassVar[Constants] = Constants(L0=2.0, L1=0.0, alpha=0.0, f_inf=0.0)

    @classmethod
    def from_seed(cls, seed: int, *, dim: int = 1) -> Cauchy:
        """x⁰ ~ N(0, I)."""
        return cls(_normal(seed, dim))

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return jnp.sum(jnp.log1p(x * x))

    def grad(self, x: Array) -> Array:
        """∇f(x) = 2x / (1 + x²)."""
        return 2 * x / (1 + x * x)


@part
class DoubleWell:
    """f(x) = (‖x‖² − 1)² / 4, the double well, the smallest nonconvex quartic; its minima are the points ‖x‖ = 1."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    f_inf: ClassVar[float] = 0.0
    #: With t = ‖x‖² ≥ 1: ‖∇²f‖ = 3t − 1 ≤ 2 + 3 t^(1/3) (t − 1)^(2/3) = 2 + 3‖∇f‖^(2/3); below 1 it is ≤ 2.
    constants: ClassVar[Constants] = Constants(L0=2.0, L1=3.0, alpha=2 / 3, f_inf=0.0)

    @classmethod
    def from_seed(cls, seed: int, *, dim: int = 1) -> DoubleWell:
        """x⁰ ~ N(0, I)."""
        return cls(_normal(seed, dim))

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return (jnp.sum(x * x) - 1) ** 2 / 4

    def grad(self, x: Array) -> Array:
        """∇f(x) = (‖x‖² − 1) x."""
        return (jnp.sum(x * x) - 1) * x


@part
class Cosh:
    """f(x) = A Σ_i cosh(a x_i): its curvature grows like its gradient, α = 1."""

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    growth: Number = leaf(POSITIVE, default=1.0)  #: a > 0
    height: Number = leaf(POSITIVE, default=1.0)  #: A > 0

    @classmethod
    def from_seed(cls, seed: int, growth: float = 1.0, height: float = 1.0, *, dim: int = 1) -> Cosh:
        """x⁰ ~ N(0, I)."""
        return cls(_normal(seed, dim), growth, height)

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
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
        """α = 1, L0 = A a², L1 = a: cosh t ≤ 1 + ‖sinh t‖, and the largest coordinate dominates."""
        a, A = float(self.growth), float(self.height)
        return Constants(L0=A * a * a, L1=a, alpha=1.0, f_inf=self.f_inf)


def _normal(seed: int, dim: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, dim)
