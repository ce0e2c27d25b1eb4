"""Gaussian distributions q as pytrees: how a draw is made from standard normal numbers ε, and their densities."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gladstorm.core.parts import Array

_LOG_2PI = math.log(2 * math.pi)


class Diagonal(NamedTuple):
    """z = m + σ⊙ε."""

    loc: Array  # m
    scale: Array  # σ

    def noise(self, key: Array) -> Array:
        """ε."""
        return jax.random.normal(key, self.loc.shape, self.loc.dtype)

    def place(self, noise: Array) -> Array:
        """z at ε."""
        return self.loc + self.scale * noise

    def log_density(self, z: Array) -> Array:
        """log q(z)."""
        return self.log_density_at((z - self.loc) / self.scale)

    def log_density_at(self, noise: Array) -> Array:
        """log q(z) at the z of ε."""
        return -0.5 * noise @ noise - jnp.sum(jnp.log(self.scale)) - 0.5 * self.loc.size * _LOG_2PI

    def scale_tril(self) -> Array:
        """L, with LLᵀ the covariance."""
        return jnp.diag(self.scale)


class Triangular(NamedTuple):
    """z = m + Lε with L lower triangular, its diagonal positive."""

    loc: Array  # m
    tril: Array  # L

    def noise(self, key: Array) -> Array:
        """ε."""
        return jax.random.normal(key, self.loc.shape, self.loc.dtype)

    def place(self, noise: Array) -> Array:
        """z at ε."""
        return self.loc + self.tril @ noise

    def log_density(self, z: Array) -> Array:
        """log q(z)."""
        return self.log_density_at(jax.scipy.linalg.solve_triangular(self.tril, z - self.loc, lower=True))

    def log_density_at(self, noise: Array) -> Array:
        """log q(z) at the z of ε."""
        log_determinant = jnp.sum(jnp.log(jnp.diagonal(self.tril)))
        return -0.5 * noise @ noise - log_determinant - 0.5 * self.loc.size * _LOG_2PI

    def scale_tril(self) -> Array:
        """L."""
        return self.tril


class Factored(NamedTuple):
    """z = m + σ⊙(ε₁ + Uε₂): the covariance is diag σ (I + UUᵀ) diag σ."""

    loc: Array  # m
    scale: Array  # σ
    factor: Array  # U, d × rank

    def noise(self, key: Array) -> Array:
        """(ε₁, ε₂)."""
        return jax.random.normal(key, (sum(self.factor.shape),), self.loc.dtype)

    def place(self, noise: Array) -> Array:
        """z at (ε₁, ε₂)."""
        d = self.loc.size
        return self.loc + self.scale * (noise[:d] + self.factor @ noise[d:])

    def log_density(self, z: Array) -> Array:
        """log q(z), with the inverse of I + UUᵀ by way of the small matrix I + UᵀU."""
        y = (z - self.loc) / self.scale
        small = jnp.eye(self.factor.shape[1], dtype=y.dtype) + self.factor.T @ self.factor
        tril = jnp.linalg.cholesky(small)
        part = jax.scipy.linalg.solve_triangular(tril, self.factor.T @ y, lower=True)
        log_determinant = jnp.sum(jnp.log(self.scale)) + jnp.sum(jnp.log(jnp.diagonal(tril)))
        return -0.5 * (y @ y - part @ part) - log_determinant - 0.5 * y.size * _LOG_2PI

    def log_density_at(self, noise: Array) -> Array:
        """log q(z) at the z of (ε₁, ε₂)."""
        return self.log_density(self.place(noise))

    def scale_tril(self) -> Array:
        """L, with LLᵀ the covariance."""
        covariance = jnp.eye(self.loc.size, dtype=self.loc.dtype) + self.factor @ self.factor.T
        return jnp.asarray(self.scale[:, None] * jnp.linalg.cholesky(covariance))


Gaussian = Diagonal | Triangular | Factored
