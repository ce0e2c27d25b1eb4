"""Families of Gaussians that a fit searches, and their members q as pytrees of NumPy's or JAX's arrays.

A member makes draws z from standard normal numbers ε and knows its density there. ε may have leading axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from gladstorm.core.parts import Array
from gladstorm.core.rules import COUNT

ENTRIES_PER_STEP = 0.25  # a full covariance may have so many numbers for each step that estimates them
RANK = 10  # of the covariance where a full one would have too many numbers
_LOG_2PI = math.log(2 * math.pi)


class Diagonal(NamedTuple):
    """Independent normal coordinates, z = m + σ⊙ε."""

    loc: Any  # m
    scale: Any  # σ

    @property
    def noise_size(self) -> int:
        """Length of ε, for a member or a stack of them."""
        return int(self.loc.shape[-1])

    @property
    def sds(self) -> Any:
        """Standard deviations of the coordinates."""
        return self.scale

    def place(self, noise: Any) -> Any:
        """Return z at ε."""
        return self.loc + self.scale * noise

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of ε."""
        xp = self.loc.__array_namespace__()
        return log_standard(noise) - xp.log(self.scale).sum()

    def log_density(self, z: Any) -> Any:
        """Return log q(z)."""
        return self.log_density_at((z - self.loc) / self.scale)

    def scale_tril(self) -> Any:
        """Return L, with LLᵀ the covariance."""
        return self.scale[..., None] * self.loc.__array_namespace__().eye(self.noise_size, dtype=self.loc.dtype)


class Triangular(NamedTuple):
    """A normal distribution with any covariance, z = m + Lε with L lower triangular and its diagonal positive."""

    loc: Any  # m
    tril: Any  # L

    @property
    def noise_size(self) -> int:
        """Length of ε, for a member or a stack of them."""
        return int(self.loc.shape[-1])

    @property
    def sds(self) -> Any:
        """Standard deviations of the coordinates."""
        return (self.tril**2).sum(-1) ** 0.5

    def place(self, noise: Any) -> Any:
        """Return z at ε."""
        return self.loc + noise @ self.tril.T

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of ε."""
        xp = self.loc.__array_namespace__()
        return log_standard(noise) - xp.log(xp.diagonal(self.tril)).sum()

    def log_density(self, z: Any) -> Any:
        """Return log q(z)."""
        return self.log_density_at(self.loc.__array_namespace__().linalg.solve(self.tril, (z - self.loc).T).T)

    def scale_tril(self) -> Any:
        """Return L, with LLᵀ the covariance."""
        return self.tril


class Factored(NamedTuple):
    """A normal distribution z = m + σ⊙(ε₁ + Uε₂), whose covariance is diag σ (I + UUᵀ) diag σ."""

    loc: Any  # m
    scale: Any  # σ
    factor: Any  # U, d × rank

    @property
    def noise_size(self) -> int:
        """Length of (ε₁, ε₂), for a member or a stack of them."""
        return int(self.factor.shape[-2] + self.factor.shape[-1])

    @property
    def sds(self) -> Any:
        """Standard deviations of the coordinates."""
        return self.scale * (1 + (self.factor**2).sum(-1)) ** 0.5

    def place(self, noise: Any) -> Any:
        """Return z at (ε₁, ε₂)."""
        d = self.loc.size
        return self.loc + self.scale * (noise[..., :d] + noise[..., d:] @ self.factor.T)

    def log_density(self, z: Any) -> Any:
        """Return log q(z)."""
        y = (z - self.loc) / self.scale
        small, solved = self._solve(y)
        log_determinant = self.loc.__array_namespace__().linalg.slogdet(small)[1]
        quadratic = (y * (y - solved)).sum(-1) + y.shape[-1] * _LOG_2PI
        return -0.5 * (quadratic + log_determinant) - self.loc.__array_namespace__().log(self.scale).sum()

    def gradient(self, z: Any) -> Any:
        """Return ∇ log q(z)."""
        y = (z - self.loc) / self.scale
        return -(y - self._solve(y)[1]) / self.scale

    def _solve(self, y: Any) -> tuple[Any, Any]:
        """Return I + UᵀU, and U (I + UᵀU)⁻¹ Uᵀy, which is y − (I + UUᵀ)⁻¹ y."""
        xp = self.loc.__array_namespace__()
        small = xp.eye(self.factor.shape[1], dtype=y.dtype) + self.factor.T @ self.factor
        return small, xp.linalg.solve(small, (y @ self.factor).T).T @ self.factor.T

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of (ε₁, ε₂)."""
        return self.log_density(self.place(noise))

    def scale_tril(self) -> Any:
        """Return L, with LLᵀ the covariance."""
        xp = self.loc.__array_namespace__()
        covariance = xp.eye(self.loc.size, dtype=self.loc.dtype) + self.factor @ self.factor.T
        return self.scale[:, None] * xp.linalg.cholesky(covariance)


Gaussian = Diagonal | Triangular | Factored


class Mixture(NamedTuple):
    """Several Gaussians with weights, in NumPy: the last number of ε says which of them z is from."""

    members: tuple[Gaussian, ...]
    log_weights: np.ndarray

    @property
    def noise_size(self) -> int:
        """Length of the noise ε."""
        return 1 + self.members[0].noise_size

    @property
    def loc(self) -> np.ndarray:
        """Mean of the mixture."""
        return np.asarray(sum(np.exp(w) * q.loc for w, q in zip(self.log_weights, self.members, strict=True)))

    def place(self, noise: Any) -> Any:
        """Return z at ε."""
        ends = [NormalDist().inv_cdf(min(share, 1.0)) for share in np.cumsum(np.exp(self.log_weights))[:-1]]
        chosen = (noise[..., -1, None] > np.array(ends)).sum(-1)
        return sum((chosen == at)[..., None] * q.place(noise[..., :-1]) for at, q in enumerate(self.members))

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of ε."""
        z = self.place(noise)
        return np.logaddexp.reduce(
            [w + q.log_density(z) for w, q in zip(self.log_weights, self.members, strict=True)], axis=0
        )

    def scale_tril(self) -> Any:
        """Return L, with LLᵀ the covariance."""
        center, covariance = self.loc, 0.0
        for w, q in zip(self.log_weights, self.members, strict=True):
            tril, off = q.scale_tril(), q.loc - center
            covariance = covariance + np.exp(w) * (tril @ tril.T + np.outer(off, off))
        return np.linalg.cholesky(covariance)


def log_standard(noise: Array) -> Any:
    """Log density of standard normal numbers."""
    return -0.5 * (noise**2).sum(-1) - 0.5 * noise.shape[-1] * _LOG_2PI


@dataclass(frozen=True)
class MeanField:
    """Independent normal coordinates in unconstrained space: 2d numbers, as numpyro's AutoNormal."""

    def numbers(self, dim: int) -> int:
        """Count the numbers that describe a member."""
        return 2 * dim


@dataclass(frozen=True)
class FullRank:
    """A multivariate normal with any covariance: d(d + 3)/2 numbers, and steps that cost d³ beside the gradient."""

    def numbers(self, dim: int) -> int:
        """Count the numbers that describe a member."""
        return dim * (dim + 3) // 2


@dataclass(frozen=True)
class LowRank:
    """A multivariate normal whose covariance is diag σ (I + UUᵀ) diag σ, U with `rank` columns."""

    rank: int = RANK

    def __post_init__(self) -> None:
        COUNT.require("LowRank", "rank", self.rank)

    def numbers(self, dim: int) -> int:
        """Count the numbers that describe a member."""
        return dim * (self.rank + 2)


@dataclass(frozen=True)
class Flow:
    """Affine couplings on the best Gaussian, which gets half of the steps: for posteriors that no Gaussian is near."""

    layers: int = 4
    hidden: int = 24

    def __post_init__(self) -> None:
        for name in ("layers", "hidden"):
            COUNT.require("Flow", name, getattr(self, name))


Family = MeanField | FullRank | LowRank | Flow


def largest_family(dim: int, steps: int) -> Family:
    """Choose full rank where the run has steps enough to estimate its covariance, and low rank elsewhere.

    >>> largest_family(30, 10_000), largest_family(30, 1_000), largest_family(1_000, 10_000)
    (FullRank(), LowRank(rank=10), LowRank(rank=10))
    """
    if dim == 1:
        return MeanField()
    return FullRank() if FullRank().numbers(dim) <= ENTRIES_PER_STEP * steps else LowRank(min(RANK, dim))
