"""Gaussian families of variational inference, q = N(m, CCᵀ + δ²I), and a Gaussian target: all in closed form.

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
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from typing_extensions import override

from gladstorm.core.constants import Bg0, Constants
from gladstorm.core.names import require_known
from gladstorm.core.parts import Array, Data, Number, leaf, part, static
from gladstorm.core.rules import AT_LEAST_ONE, POSITIVE, VECTOR, require_memory_for_a_run
from gladstorm.problems.oracle import OwnNoise, Point
from gladstorm.problems.sampling import PER_LENGTH, bartlett, key_of

WORDS = ("full-rank", "lower-triangular", "mean-field")


@dataclass(frozen=True)
class GaussianFamily:
    """A family of Gaussians by the free entries of C: all, those up to the diagonal, or the diagonal.

    C is kept as equal blocks along the diagonal, one of them or as many as dimensions.

    >>> [GaussianFamily(word, 3).size for word in WORDS]
    [12, 9, 6]
    """

    word: str
    dim: int  # d

    def __post_init__(self) -> None:
        require_known("GaussianFamily:", self.word, WORDS)
        require_memory_for_a_run("GaussianFamily", self.dim + math.prod(self.shape))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the blocks of C."""
        return (self.dim, 1, 1) if self.word == "mean-field" else (1, self.dim, self.dim)

    @cached_property
    def free(self) -> np.ndarray:
        """Indices of the free entries of the blocks."""
        every = np.ones(self.shape, bool)
        return np.tril(every) if self.word == "lower-triangular" else every

    @property
    def per_row(self) -> np.ndarray:
        """n_i: how many entries of row i are free, which is how many of the u_j its gradient multiplies."""
        counts: np.ndarray = self.free.sum(axis=2).ravel()
        return counts

    @property
    def size(self) -> int:
        """The length of x."""
        return self.dim + int(self.free.sum())

    def unflatten(self, x: Array) -> tuple[Array, Array]:
        """m, and C as blocks, of x."""
        m, entries = x[: self.dim], x[self.dim :]
        if self.free.all():
            return m, entries.reshape(self.shape)
        blocks = jnp.zeros(self.free.size, x.dtype).at[np.flatnonzero(self.free)].set(entries)
        return m, blocks.reshape(self.shape)

    def flatten(self, m: Array, blocks: Array) -> Array:
        """x of m and C, or a gradient by x."""
        entries = blocks.ravel() if self.free.all() else blocks.ravel()[np.flatnonzero(self.free)]
        return jnp.concatenate([m.ravel(), entries])

    def start(self, m: np.ndarray, scale: float) -> np.ndarray:
        """Return x of the means m and C = scale · I."""
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


@part
class VariationalGaussian:
    """f(m, C) = KL(N(m, CCᵀ + δ²I) ‖ N(z̄, Λ⁻¹)), Λ = diag(λ): variational inference of a Gaussian.

    With C_i the rows of C, f is ½ Σ_i λ_i ((m_i − z̄_i)² + ‖C_i‖² + δ²) − ½ log det(CCᵀ + δ²I) − ½ Σ_i log λ_i − d/2. It
    is 0 at m = z̄, CCᵀ = Λ⁻¹ − δ²I. It is not convex: C and −C have the same value, and C = 0 is a saddle. The floor δ
    makes f smooth.
    """

    start: Data = leaf(VECTOR)  #: x⁰ = (m⁰, the free entries of C⁰)
    center: Data = leaf(VECTOR)  #: z̄, the mean of the target
    precision: Data = leaf(POSITIVE)  #: λ > 0, the precisions of the target
    floor: Number = leaf(POSITIVE)  #: δ > 0, the least standard deviation of the approximation
    family: GaussianFamily = static()  #: which entries of C are free
    f_inf: ClassVar[float] = 0.0
    own_oracle: ClassVar[str] = "variational-gaussian"

    @classmethod
    def from_seed(
        cls, seed: int, family: str = "full-rank", condition: float = 1.0, *, dim: int = 5
    ) -> VariationalGaussian:
        """z̄ ~ N(0, I), m⁰ ~ N(3, I), C⁰ = I, δ = ½ λ_max^(−½), and λ that grows in equal ratios from 1 to `condition`.

        `family` says which entries of C are free: full-rank, lower-triangular or mean-field.
        """
        AT_LEAST_ONE.require("VariationalGaussian", "condition", condition)
        rng = np.random.default_rng(seed)
        chosen = GaussianFamily(family, dim)
        start = chosen.start(rng.normal(3, 1, dim), 1.0)
        return cls(start, rng.normal(0, 1, dim), np.geomspace(1, condition, dim), 0.5 * condition**-0.5, chosen)

    @property
    def flaw(self) -> str | None:
        """Say what is wrong if its numbers do not fit together; None if they do."""
        sizes = [np.size(array) for array in (self.start, self.center, self.precision)]
        if sizes != [self.family.size, self.family.dim, self.family.dim]:
            wanted = f"{self.family.size}, {self.family.dim} and {self.family.dim} numbers"
            return f"VariationalGaussian: start, center and precision must have {wanted}; got {sizes}."
        most = float(np.max(self.precision)) ** -0.5
        if not float(self.floor) < most:
            return f"VariationalGaussian: floor must be < {most:.4g}, the target's least deviation; got {self.floor}."
        return None

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        m, C = self.family.unflatten(x)
        spread = jnp.sum(C * C, axis=-1).ravel() + self.floor**2
        energy = jnp.sum(self.precision * ((m - self.center) ** 2 + spread) - jnp.log(self.precision) - 1) / 2
        return energy + negative_entropy(C, self.floor)

    def grad(self, x: Array) -> Array:
        """∇f(x) = (Λ (m − z̄), ΛC − (CCᵀ + δ²I)⁻¹ C)."""
        m, C = self.family.unflatten(x)
        slope = self.family.rows(self.precision) * C + entropy_slope(C, self.floor)
        return self.family.flatten(self.precision * (m - self.center), slope)

    @property
    def constants(self) -> Constants:
        """α = 0: the curvatures of the energy are λ, those of the entropy lie within [−1/δ², 1/(8δ²)]."""
        L0 = smoothness(float(np.max(self.precision)), float(np.min(self.precision)), float(self.floor))
        return Constants(L0=L0, L1=0.0, alpha=0.0, f_inf=self.f_inf)


class Draws(NamedTuple):
    """The randomness of a step, a row for each block of C."""

    u: Array
    w: Array
    others: Array  # of the samples beyond the first, where there are: their w as the Bartlett factor of their u sees it
    factor: Array  # what that is made of
    key: Array


class Moments(NamedTuple):
    """Means over a batch, of each block: all that a batch leaves of its u and w in the gradient."""

    u: Array
    w: Array
    uu: Array  # u uᵀ
    wu: Array  # w uᵀ


@part
class VariationalGaussianOracle(OwnNoise):
    """∇f(x; u, w) = (r, r uᵀ) + ∇ of the entropy, r = Λ(z − z̄), z = m + Cu + δw, u and w ~ N(0, I); free entries only.

    This is the reparameterization trick: the gradient of the energy at z, taken through z. The entropy's gradient is
    exact. With n_i free entries in row i, e = m − z̄ and rows C_i, the second moment of the energy's gradient is
    Σ_i λ_i² [(n_i + 1)(e_i² + δ²) + (n_i + 3)‖C_i‖²], so the variance is Σ_i λ_i² [n_i e_i² + (n_i + 1) δ² +
    (n_i + 2)‖C_i‖²]. So BG-0 holds around z̄ and C = 0, which is neither x⁰ nor the solution, with
    B² = max_i λ_i² (n_i + 2) and G² = δ² Σ_i λ_i² (n_i + 1). The noise is affine in x.

    A batch of any size costs O(d²), or O(d) if C is diagonal, and is exact at any number of points: with the mean ū and
    Bartlett's factor T of b − 1 vectors, the mean of uuᵀ is ūūᵀ + TTᵀ/b and that of wuᵀ is w̄ūᵀ + NTᵀ/b, N normal.
    """

    objective: VariationalGaussian
    noise_of: ClassVar = VariationalGaussian

    @override
    def draw(self, key: Array) -> Draws:
        n, k, _ = self.objective.family.shape
        normals = jax.random.normal(key, (n, k, 2 + k + k + PER_LENGTH), jnp.result_type(float))
        u, w, others, factor = jnp.split(normals, [1, 2, 2 + k], axis=-1)
        return Draws(u[..., 0], w[..., 0], others, factor, jax.random.key_data(key))

    @override
    def batch(self, noise: Draws, size: Array) -> Moments:
        b, key = jnp.asarray(size), key_of(noise.key)
        keys = jax.vmap(lambda block: jax.random.fold_in(key, block))(2**29 + jnp.arange(noise.u.shape[0]))
        T = jax.vmap(bartlett, (0, 0, None))(noise.factor, keys, b - 1) / jnp.sqrt(b)
        u, w = noise.u / jnp.sqrt(b), noise.w / jnp.sqrt(b)
        across = (noise.others @ T.mT) / jnp.sqrt(b)
        return Moments(u, w, u[..., :, None] * u[..., None, :] + T @ T.mT, w[..., :, None] * u[..., None, :] + across)

    @override
    def grad(self, point: Point, sample: Moments) -> Array:
        objective, family = self.objective, self.objective.family
        m, C = family.unflatten(point.x)
        e = family.rows(m - objective.center)
        on_m = (C @ sample.u[..., None])[..., 0] + objective.floor * sample.w
        on_C = e * sample.u[..., None, :] + C @ (sample.uu - jnp.eye(C.shape[-1])) + objective.floor * sample.wu
        scale = family.rows(objective.precision)
        return point.grad + family.flatten(scale[..., 0] * on_m, scale * on_C)

    @override
    def variance(self, point: Point) -> Array:
        objective, n = self.objective, self.objective.family.per_row
        m, C = objective.family.unflatten(point.x)
        rows = jnp.sum(C * C, axis=-1).ravel()
        per_row = n * (m - objective.center) ** 2 + (n + 1) * objective.floor**2 + (n + 2) * rows
        return jnp.sum(objective.precision**2 * per_row)

    @property
    @override
    def bg0(self) -> Bg0:
        objective, n = self.objective, self.objective.family.per_row
        squares = np.asarray(objective.precision) ** 2
        anchor = objective.family.start(np.asarray(objective.center), 0.0)
        G = float(objective.floor) * float(np.sum(squares * (n + 1))) ** 0.5
        return Bg0(float(np.max(squares * (n + 2))) ** 0.5, G, anchor, "z̄ and C = 0")
