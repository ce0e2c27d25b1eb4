"""Singular values in plain XLA, by one-sided Jacobi rotations.

LAPACK's, which JAX calls on CPUs, hand their work to the threads that programs run on and wait for it: as of JAX 0.10,
programs on as many devices as there are cores wait for each other forever. Here a 5 × 5 matrix takes twice as long, one
of 16 × 16 ten times, and singular values far below the largest are more accurate.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gladstorm.core.parts import Array

MOST_SWEEPS = 30  # six or seven suffice for matrices of a hundred columns: convergence is quadratic


class _Rotated(NamedTuple):
    """Rows of (AV)ᵀ, each followed by its row of Vᵀ, in two halves that are rotated in pairs."""

    left: Array
    right: Array
    cosine: Array  # the largest between two rows of (AV)ᵀ in the last sweep
    sweeps: Array | int


@jax.jit
def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """U, σ and Vᵀ with UΣVᵀ the matrix, σ in no order; 0 where σ = 0 in the one of U and V that is longer.

    >>> u, sigma, vt = svd(jnp.array([[0.0, 3.0], [4.0, 0.0], [0.0, 0.0]]))
    >>> sorted(sigma.tolist()), ((u * sigma) @ vt).tolist()
    ([3.0, 4.0], [[0.0, 3.0], [4.0, 0.0], [0.0, 0.0]])
    """
    m, n = matrix.shape
    if m < n:
        v, sigma, ut = svd(matrix.T)
        return ut.T, sigma, v.T
    largest = jnp.max(jnp.abs(matrix))
    scale = jnp.where(largest == 0, 1, largest)
    half, eps = (n + 1) // 2, jnp.finfo(matrix.dtype).eps

    def rotate(_: int, state: _Rotated) -> _Rotated:
        a, b = state.left, state.right
        alpha, beta, gamma = (jnp.sum(x[:, :m] * y[:, :m], axis=1, keepdims=True) for x, y in ((a, a), (b, b), (a, b)))
        size = jnp.sqrt(alpha) * jnp.sqrt(beta)
        aligned = jnp.abs(gamma) <= eps * size
        zeta = (beta - alpha) / jnp.where(aligned, 1, 2 * gamma)
        t = jnp.where(aligned, 0, jnp.where(zeta < 0, -1, 1) / (jnp.abs(zeta) + jnp.sqrt(1 + zeta * zeta)))
        c = 1 / jnp.sqrt(1 + t * t)
        counts = ~aligned & (jnp.minimum(alpha, beta) > (m * eps) ** 2)  # of what is not rounding
        cosine = jnp.max(jnp.where(counts, jnp.abs(gamma) / jnp.where(size == 0, 1, size), 0))
        a, b = c * (a - t * b), c * (t * a + b)
        if half > 1:  # a round robin: the first stays, the others move on by one
            a, b = jnp.concatenate([a[:1], b[:1], a[1:-1]]), jnp.concatenate([b[1:], a[-1:]])
        return _Rotated(a, b, jnp.maximum(state.cosine, cosine), state.sweeps)

    def sweep(state: _Rotated) -> _Rotated:
        fresh = state._replace(cosine=jnp.zeros_like(state.cosine), sweeps=state.sweeps + 1)
        after: _Rotated = lax.fori_loop(0, 2 * half - 1, rotate, fresh)  # every pair once, and all are back
        return after

    padded = jnp.pad(matrix.T / scale, ((0, 2 * half - n), (0, 0)))
    rows = jnp.concatenate([padded, jnp.eye(2 * half, dtype=matrix.dtype)], axis=1)
    begun = _Rotated(rows[:half], rows[half:], jnp.ones((), matrix.dtype), 0)
    ended = lax.while_loop(lambda state: (state.cosine > eps**0.6) & (state.sweeps < MOST_SWEEPS), sweep, begun)
    rows = jnp.concatenate([ended.left, ended.right])[:n]
    sigma = jnp.sqrt(jnp.sum(rows[:, :m] ** 2, axis=1))
    u = rows[:, :m] / jnp.where(sigma == 0, 1, sigma)[:, None]
    return u.T, scale * sigma, rows[:, m : m + n]


@jax.custom_jvp
def singular_values(matrix: Array) -> Array:
    """σ_1, …, σ_r of a matrix, in no order; they can be differentiated.

    >>> jax.grad(lambda A: singular_values(A).sum())(jnp.array([[0.0, 3.0], [-4.0, 0.0]])).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    _, sigma, _ = svd(matrix)
    values: Array = sigma
    return values


@singular_values.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    u, sigma, vt = svd(*primals)
    return sigma, jnp.einsum("ik,ij,kj->k", u, tangents[0], vt)
