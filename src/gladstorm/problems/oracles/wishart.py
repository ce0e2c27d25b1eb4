"""What a batch of normal vectors leaves behind: lengths and outer products, for any number of vectors."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gladstorm.core.parts import Array

PER_LENGTH = 3  # normals a length is made of, unless they are rejected
FURTHER = 2**30  # keys of the next ones, far from the counters that normals use


class _Search(NamedTuple):
    """Lengths found so far: after so many rounds, whether each has been, and its square."""

    rounds: Array
    found: Array
    square: Array


def lengths(normals: Array, key: Array, dims: Array) -> Array:
    """‖u‖ of normal vectors in so many dimensions, traced whole numbers; 0 where there are none.

    The square is χ², by rejection (Marsaglia and Tsang 2000): exact for every number of dimensions, and accepted at
    once in 95 % of all cases or more. `normals` has a row of three for each; the key is for the rest.
    """
    d = jnp.maximum(dims, 2) / 2 - 1 / 3

    def propose(normals: Array) -> tuple[Array, Array]:
        z = normals[:, 0]
        v = (1 + z / jnp.sqrt(9 * d)) ** 3
        log_uniform = -jnp.sum(normals[:, 1:] ** 2, axis=1) / 2
        good = (v > 0) & (log_uniform < z**2 / 2 + d * (1 - v + jnp.log(jnp.maximum(v, 1e-300))))
        return good, 2 * d * v

    def again(search: _Search) -> _Search:
        further = jax.random.normal(jax.random.fold_in(key, FURTHER + search.rounds), normals.shape, normals.dtype)
        good, square = propose(further)
        return _Search(search.rounds + 1, search.found | good, jnp.where(search.found, search.square, square))

    good, square = propose(normals)
    few = jnp.where(dims == 1, normals[:, 0] ** 2, 0.0)
    begun = _Search(jnp.zeros((), int), good | (dims < 2), jnp.where(dims < 2, few, square))
    ended: _Search = lax.while_loop(lambda search: ~jnp.all(search.found), again, begun)
    return jnp.sqrt(ended.square)


def bartlett(normals: Array, key: Array, count: Array) -> Array:
    """T, lower triangular, with TTᵀ ~ Wishart: the law of Σ_i u_i u_iᵀ over `count` independent u_i ~ N(0, I).

    T_ij ~ N(0, 1) below the diagonal and T_ii² ~ χ²(count − i) on it, i from 0; columns from `count` on are 0. `count`
    is a traced whole number ≥ 0, and `normals` has n + 3 in each of its n rows.
    """
    n = normals.shape[0]
    left = count - jnp.arange(n)
    return jnp.where(left > 0, jnp.tril(normals[:, :n], -1) + jnp.diag(lengths(normals[:, n:], key, left)), 0.0)
