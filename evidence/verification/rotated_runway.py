"""The problem of Theorem 1: the noisy runway, its chain in directions that no method knows."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import MATRIX
from gladstorm.problems.hard.noisy_runway import NoisyRunway

SQUASHED = 230  # P = 230 √T: the chain lies in a ball of this radius


@part
class RotatedRunway(NoisyRunway):
    """The noisy runway for all methods: ω(z) = Uᵀπ(z/λ), π(u) = u/√(1 + ‖u‖²/P²), P = 230 √T, and f gains κ‖z‖²/(10λ²).

    The columns of U are orthonormal and unknown to the method. In enough dimensions (`Hardness.dimension`) no method
    finds one by chance; what else holds of the problem holds in every dimension.
    """

    frame: Data = leaf(MATRIX)  #: U, with T orthonormal columns
    rotated: ClassVar[bool] = True
    steepness: ClassVar[int] = 4
    smoothness: ClassVar[float] = 636.0

    @override
    @classmethod
    def from_eps(
        cls,
        eps: float,
        alpha: float,
        L0: float,
        L1: float,
        B: float,
        gap: float,
        *,
        growth: float = 2.0,
        dim: int = 20,
        seed: int = 0,
    ) -> RotatedRunway:
        """The problem for ε in `dim` dimensions, with a random U; a ValueError as in `NoisyRunway.from_eps`."""
        empty = cls(np.zeros(1), eps, alpha, L0, L1, B, gap, np.ones((1, 1)), growth=growth)
        if dim <= (length := empty.length()):
            raise ValueError(f"{cls.__name__}: dim must be > {length}, the length of the chain; got {dim=}.")
        frame = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim - 1, length)))[0]
        return dataclasses.replace(empty, start=np.zeros(dim), frame=frame)

    @property
    @override
    def links(self) -> int:
        """T, the number of links."""
        return int(self.frame.shape[1])

    @override
    def coordinates(self, x: Array) -> Array:
        """ω = Uᵀπ(z/λ)."""
        return self._squash(x)[1] @ self.frame

    @override
    def value(self, x: Array) -> Array:
        """Value f(y, z)."""
        confined = self.steepness * self.eps / self.scale * jnp.sum(x[1:] ** 2) / 10
        return super().value(x) + confined

    @override
    def _grad_with(self, x: Array, value: Array, grad: Array) -> Array:
        confined = self.steepness * self.eps / self.scale * x[1:] / 5
        return super()._grad_with(x, value, grad).at[1:].add(confined)

    def _squash(self, x: Array) -> tuple[Array, Array, Array]:
        """β, π(z/λ) and P², where π(u) = β u."""
        u, most = x[1:] / self.scale, float(SQUASHED**2 * self.frame.shape[1])
        shrunk = 1 / jnp.sqrt(1 + jnp.sum(u * u) / most)
        return shrunk, shrunk * u, jnp.asarray(most)

    @override
    def _pull(self, x: Array, grad: Array) -> Array:
        """β (I − ππᵀ/P²) U ∇c."""
        shrunk, squashed, most = self._squash(x)
        along = self.frame @ grad
        return shrunk * (along - squashed * (squashed @ along) / most)
