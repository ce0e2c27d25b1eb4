"""Gaussian families of variational inference: q = N(m, CCᵀ + δ²I), x = (m, the free entries of C).

The entropy −½ log det of a plain CCᵀ is not smooth: it has no bound where C is nearly singular, and no step size is
right there. With the floor δ² it is smooth everywhere, its second derivatives within [−1/δ², 1/(8δ²)]: as a function of
a singular value s it is −½ log(s² + δ²). Nothing is approximated: q is a Gaussian, its entropy is exact, and for δ²
below the smallest variance of the target the family contains what the plain one would find. No proximal step is needed,
so that the theorems, which have none, apply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gladstorm.core.memory import require_room_for_runs
from gladstorm.core.names import require_known
from gladstorm.core.parts import Array

WORDS = ("full-rank", "lower-triangular", "mean-field")


@dataclass(frozen=True)
class GaussianFamily:
    """Which entries of C are free: all, those up to the diagonal, or the diagonal.

    C is kept as equal blocks along the diagonal, one of them or as many as dimensions.

    >>> [GaussianFamily(word, 3).size for word in WORDS]
    [12, 9, 6]
    """

    word: str
    dim: int  # d

    def __post_init__(self) -> None:
        require_known("GaussianFamily:", self.word, WORDS)
        require_room_for_runs("GaussianFamily", self.dim + math.prod(self.shape))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the blocks of C."""
        return (self.dim, 1, 1) if self.word == "mean-field" else (1, self.dim, self.dim)

    @cached_property
    def free(self) -> np.ndarray:
        """Which entries of the blocks are free."""
        every = np.ones(self.shape, bool)
        return np.tril(every) if self.word == "lower-triangular" else every

    @property
    def per_row(self) -> np.ndarray:
        """n_i: how many entries of row i are free, which is how many of the u_j its gradient multiplies."""
        counts: np.ndarray = self.free.sum(axis=2).ravel()
        return counts

    @property
    def size(self) -> int:
        """Of x."""
        return self.dim + int(self.free.sum())

    def read(self, x: Array) -> tuple[Array, Array]:
        """m, and C as blocks."""
        m, entries = x[: self.dim], x[self.dim :]
        if self.free.all():
            return m, entries.reshape(self.shape)
        blocks = jnp.zeros(self.free.size, x.dtype).at[np.flatnonzero(self.free)].set(entries)
        return m, blocks.reshape(self.shape)

    def written(self, m: Array, blocks: Array) -> Array:
        """x, or a gradient."""
        entries = blocks.ravel() if self.free.all() else blocks.ravel()[np.flatnonzero(self.free)]
        return jnp.concatenate([m.ravel(), entries])

    def start(self, m: np.ndarray, scale: float) -> np.ndarray:
        """x of C = scale · I."""
        blocks = np.broadcast_to(scale * np.eye(self.shape[1]), self.shape)
        return np.concatenate([m, blocks[self.free]])

    def rows(self, values: Array) -> Array:
        """A number for each dimension as one for each row of the blocks, to multiply them with."""
        return values.reshape(*self.shape[:2], 1)


def covariance(blocks: Array, floor: Array | float) -> Array:
    """CCᵀ + δ²I, block by block."""
    return blocks @ blocks.mT + floor**2 * jnp.eye(blocks.shape[-1])


def negative_entropy(blocks: Array, floor: Array | float) -> Array:
    """−½ log det(CCᵀ + δ²I); the constant −(d/2) log 2πe is left out."""
    log_det, _ = _eliminated(covariance(blocks, floor), blocks)
    return -jnp.sum(log_det) / 2


def entropy_slope(blocks: Array, floor: Array | float) -> Array:
    """The derivative of `negative_entropy`: −(CCᵀ + δ²I)⁻¹ C."""
    solved: Array = _eliminated(covariance(blocks, floor), blocks)[1]
    return -solved


@jax.jit  # outside a compiled program, each call would compile its loop
def _eliminated(S: Array, C: Array) -> tuple[Array, Array]:
    """log det S and S⁻¹C by Gauss and Jordan, which needs no pivots where S is positive definite; block by block.

    Not by `jnp.linalg`: two calls of LAPACK that XLA runs at once on a CPU may wait for each other for ever (seen with
    jaxlib 0.10.2 on two cores, within seconds).
    """

    def step(j: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        S, C, log_det = state
        pivot = S[..., j, j][..., None]
        factors = S[..., :, j].at[..., j].add(-1.0) / pivot
        return (
            S - factors[..., :, None] * S[..., j, :][..., None, :],
            C - factors[..., :, None] * C[..., j, :][..., None, :],
            log_det + jnp.log(pivot[..., 0]),
        )

    _, solved, log_det = lax.fori_loop(0, S.shape[-1], step, (S, C, jnp.zeros(S.shape[:-2], S.dtype)))
    return log_det, solved


def smoothness(largest: float, smallest: float, floor: float) -> float:
    """L0 of an energy with curvatures between these two plus the negative entropy."""
    return max(largest + 1 / (8 * floor**2), 1 / floor**2 - smallest)
