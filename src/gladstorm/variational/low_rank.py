"""Gaussians whose covariance is diagonal but for a few directions: their members, and how they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.parts import Array
from gladstorm.variational.gaussians import (
    LOG_2PI,
    Coordinates,
    Diagonal,
    Triangular,
    at_draw,
    inverse_softplus,
    softplus,
)
from gladstorm.variational.programs import Draw, Gain, LogDensity, Update

FACTOR_SCALE = 0.1  # of the factor's first entries: at 0 their gradient is 0


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
        quadratic = (y * (y - solved)).sum(-1) + y.shape[-1] * LOG_2PI
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


@dataclass(frozen=True)
class LowRankUpdate(Update):
    """m, s and U of z = m + σ⊙(ε₁ + Uε₂) move, each number by itself, beginning with a small random U."""

    rank: int = 1

    @override
    def begin(self, q: Diagonal, key: Array, careful: Any = False) -> Coordinates:
        factor = FACTOR_SCALE * jax.random.normal(key, (self.rank, q.loc.size), q.loc.dtype)
        x = jnp.concatenate([jnp.stack([q.loc, inverse_softplus(q.scale)]), factor])
        return Coordinates.at(x, careful)

    @override
    def noise_size(self, state: Coordinates) -> int:
        return int(state.x.shape[-1]) + self.rank

    @override
    def step(self, log_density: LogDensity, state: Coordinates, draw: Draw, steps: Array) -> tuple[Coordinates, Gain]:
        def member(x: Array) -> Factored:
            return Factored(x[0], jax.nn.softplus(x[1]), x[2:].T)

        q = member(state.x)
        elbo, h = at_draw(log_density, q, draw)
        by_z = h + q.gradient(q.place(draw.noise))
        gradient = jax.vjp(lambda x: member(x).place(draw.noise), state.x)[1](by_z)[0]
        longest = jnp.full_like(state.x, jnp.inf).at[0].set(q.scale**2 * jnp.abs(by_z))
        after, skipped = state.move(gradient, steps, self.least_z, longest)
        return after, Gain(elbo, jnp.sum((q.scale * by_z) ** 2), skipped)

    @override
    def candidates(self, state: Coordinates) -> tuple[Factored, Factored]:
        average, last = (
            Factored(x[:, 0], softplus(x[:, 1]), np.swapaxes(x[:, 2:], 1, 2)) for x in (state.journey.average, state.x)
        )
        return average, last
