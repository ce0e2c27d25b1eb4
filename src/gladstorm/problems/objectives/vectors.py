"""Objectives of a vector: functions whose value, gradient and constants are a line each, and two of data."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part, static
from gladstorm.core.rules import ABOVE_TWO, COUNT, MATRIX, NON_NEGATIVE, POSITIVE, VECTOR, require_free_memory
from gladstorm.problems.oracle import Differentiated


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


@part
class PhaseRetrieval:
    """f(x) = 1/(2m) Σ_r (y_r − (a_r·x)²)²: recover x* from the squared measurements y_r = (a_r·x*)².

    The transpose of A is stored too, because XLA multiplies by a transposed float64 matrix at half the speed.
    """

    A: Data = leaf(MATRIX)  #: the measurement vectors, a row a_r for each
    A_transposed: Data = leaf(MATRIX)  #: its transpose
    y: Data = leaf(VECTOR)  #: the squared measurements y_r
    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, m: float = 3000, *, dim: int = 100) -> PhaseRetrieval:
        """The paper's instance with `m` measurements: a ~ N(0, 0.1²), x* ~ N(0, I), x⁰ ~ N(5, I).

        >>> PhaseRetrieval.from_seed(0, m=30, dim=4).A.shape
        (30, 4)
        """
        A, signal, start = _paper_draw(seed, m, dim)
        return cls(A, np.ascontiguousarray(A.T), (A @ signal) ** 2, start)

    @staticmethod
    def signal(seed: int, m: float = 3000, *, dim: int = 100) -> np.ndarray:
        """x* of the instance that `from_seed` makes of `seed`, `m` and `dim`: f(x*) = f(−x*) = 0."""
        return _paper_draw(seed, m, dim)[1]

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return jnp.mean((self.y - (self.A @ x) ** 2) ** 2) / 2

    def losses(self, x: Array) -> Array:
        """½ (y_r − (a_r·x)²)² for every r: their mean is f."""
        return (self.y - (self.A @ x) ** 2) ** 2 / 2

    def grad(self, x: Array) -> Array:
        """∇f(x) = 2/m Σ_r ((a_r·x)² − y_r) (a_r·x) a_r."""
        s = self.A @ x
        # Not y * s: mapped over many x, JAX would lay their columns out as rows for that, and XLA back as columns for
        # the second product, a twentieth of the time.
        scaled = jnp.einsum("r,r->r", self.y, s)
        return (2 / self.y.shape[0]) * (self.A_transposed @ (s * s * s - scaled))

    @property
    def constants(self) -> Constants | None:
        """α = 2/3, with L0 and L1 certified from the measurements; None if A does not have full column rank.

        With R = ‖x‖: ‖∇²f‖ ≤ max(6 Λ R², 2‖Y‖) and ‖∇f‖ ≥ λ R³ once R² ≥ 2‖Y‖/λ, for Λ ≥ max_u and λ ≤ min_u of
        (1/m) Σ (a_r·u)⁴ over unit u, and Y = (1/m) Σ y_r a_r a_rᵀ. Takes seconds for thousands of measurements.
        """
        from scipy.linalg import eigh  # a third of a second that only theorems should take

        A, y = np.asarray(self.A), np.asarray(self.y)
        m, d = A.shape
        smallest = np.linalg.eigvalsh(A.T @ A / m)[0] ** 2  # λ, by Jensen
        if not smallest > 0 or m < d:
            return None
        w = np.sum(A * A, 1) / d
        spread = ((A @ A.T) ** 2 - d * np.outer(w, w)) / m
        top = max(0.0, eigh(spread, eigvals_only=True, subset_by_index=[m - 1, m - 1])[0])
        largest = (np.sqrt(np.mean(w * w)) + np.sqrt((1 - 1 / d) * top)) ** 2  # Λ
        Y = np.linalg.norm((A.T * y) @ A / m, 2)
        L0, L1 = 12 * largest * Y / smallest, 6 * largest / smallest ** (2 / 3)
        return Constants(L0=float(L0), L1=float(L1), alpha=2 / 3, f_inf=self.f_inf)


def _paper_draw(seed: int, m: float, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw A, x* and x⁰ as the paper does."""
    require_memory_for_rows("PhaseRetrieval", "m", m, "measurements", dim, copies=2)
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.1, (int(m), dim)), rng.normal(0, 1, dim), rng.normal(5, 1, dim)


@part
class Dro(Differentiated):
    """Distributionally robust regression: f(w, t) = λ/n Σ_i ψ*((l_i(w) − t)/λ) + t, ψ*(s) = max(s/2 + 1, 0)² − 1.

    The variable is x = (w, t), the loss of example i is l_i(w) = ½ (a_i·w − y_i)² + 0.1 Σ_j ln(1 + ‖w_j‖), and ψ* is
    the conjugate of the χ² divergence. The curvature grows like 1/λ. Where w_j = 0, the derivative of ‖w_j‖ is 0.
    Chen et al. 2023, on data drawn here.
    """

    A: Data = leaf(MATRIX)  #: the features, a row a_i for each example
    y: Data = leaf(VECTOR)  #: the labels
    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    lam: float = leaf(POSITIVE, default=0.01)  #: λ > 0: the smaller, the more robust
    constants: ClassVar[None] = None
    f_inf: ClassVar[None] = None

    @classmethod
    def from_seed(cls, seed: int, n: float = 2000, *, dim: int = 35) -> Dro:
        """`n` examples: a_i and w⁰ standard normal, y = a·w* + N(0, 1) standardised, t⁰ = 0.1. `dim` counts w and t."""
        if dim < 2:
            raise ValueError(f"Dro: dim must be at least 2, one of them t; got dim={dim}.")
        require_memory_for_rows("Dro", "n", n, "examples", dim)
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(int(n), dim - 1))
        y = A @ rng.normal(size=dim - 1) / np.sqrt(dim - 1) + rng.normal(size=int(n))
        start = np.append(rng.normal(size=dim - 1), 0.1)
        return cls(A, (y - y.mean()) / (y.std() or 1.0), start)

    def losses(self, x: Array) -> Array:
        """λ ψ*((l_i − t)/λ) + t for every i: their mean is f."""
        w, t = x[:-1], x[-1]
        loss = (self.A @ w - self.y) ** 2 / 2 + 0.1 * jnp.sum(jnp.log1p(jnp.abs(w)))
        return self.lam * (jnp.maximum((loss - t) / self.lam / 2 + 1, 0) ** 2 - 1) + t

    @override
    def value(self, x: Array) -> Array:
        return self.losses(x).mean()


def require_memory_for_rows(owner: str, name: str, rows: float, what: str, dim: int, copies: int = 1) -> None:
    """Raise a ValueError unless so many rows of so many numbers are a whole number, and fit in memory."""
    COUNT.require(owner, name, rows)
    described = f"{name} = {int(rows):,} {what} of dim = {dim:,} numbers"
    require_free_memory(owner, described, copies * 8 * int(rows) * dim, f"choose a smaller dim or {name}")
