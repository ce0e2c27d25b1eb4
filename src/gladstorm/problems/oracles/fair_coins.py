"""The number of heads among b fair coins as a function of one standard normal, for b known only while the program runs.

A sampler with loops or rejections would cost a step more than its gradient and would have to be drawn inside it. Here
the count is the binomial quantile of Φ(z), so every batch size costs the same, and one z gives every batch size the
same luck. Up to `TABLED` coins the quantile's thresholds are tabulated. Above, the Cornish–Fisher expansion of
Binomial(b, ½) to order b⁻⁴ is within 1e-11 of it in total variation (a test computes the distance).
"""

from __future__ import annotations

from functools import cache
from typing import Final

import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array

TABLED: Final = 256

# t(z) = z (1 + Σ_j P_j(z²)/b^j): the quantile of (2·heads − b)/√b at lattice midpoints; P_j by falling powers of z².
# From the cumulants of b log cos(s/√b) + log((s/√b)/sin(s/√b)), the second term being the continuity correction.
CORNISH_FISHER: Final = (
    (-1 / 12, 1 / 12),
    (-13 / 1440, -1 / 120, 181 / 1440),
    (-97 / 40320, -1283 / 362880, 34817 / 362880, -4511 / 120960),
    (-25307 / 29030400, -587 / 362880, 418603 / 6220800, -164149 / 10886400, -3203131 / 29030400),
)


@cache
def thresholds() -> np.ndarray:
    """Φ⁻¹(P(heads ≤ k)) for k < b ≤ TABLED, row after row; the upper half by symmetry, where the CDF rounds to 1."""
    from scipy.special import bdtr, ndtri  # needed where a program is traced, and not where it is loaded

    b = np.repeat(np.arange(1, TABLED + 1), np.arange(1, TABLED + 1))
    k = np.arange(b.size) - b * (b - 1) // 2
    lower = ndtri(bdtr(np.minimum(k, b - 1 - k).astype(float), b, 0.5))
    return np.where(2 * k + 1 < b, lower, np.where(2 * k + 1 > b, -lower, 0.0))


def heads(z: Array, coins: Array) -> Array:
    """Heads among `coins` fair coins, given z ~ N(0, 1); a float that is a whole number.

    >>> heads(jnp.array([-0.1, 0.1, 3.0]), jnp.array([1, 1, 1])).tolist()
    [0.0, 1.0, 1.0]
    """
    b = jnp.asarray(coins, z.dtype)
    root, inverse = jnp.sqrt(b), 1 / b
    return jnp.where(coins <= TABLED, _by_table(z, coins, b, root, inverse), _by_expansion(z, b, root, inverse))


def _by_table(z: Array, coins: Array, b: Array, root: Array, inverse: Array) -> Array:
    coins = jnp.minimum(coins, TABLED)
    row = coins * (coins - 1) // 2
    table = jnp.asarray(thresholds(), z.dtype)
    # Never more than one off for any b ≤ TABLED and |z| < 8.3, so one comparison on each side finds the quantile.
    guess = jnp.floor((b + root * z / (1 + z * z * inverse / 12)) / 2 + 0.5)
    k = jnp.clip(guess, 0, b).astype(row.dtype)
    up = (k < coins) & (z > table[row + jnp.minimum(k, coins - 1)])
    down = (k > 0) & (z <= table[row + jnp.maximum(k - 1, 0)])
    return (k + up - down).astype(z.dtype)


def _by_expansion(z: Array, b: Array, root: Array, inverse: Array) -> Array:
    correction = jnp.zeros_like(z)
    for polynomial in reversed(CORNISH_FISHER):
        correction = (correction + _value(polynomial, z * z)) * inverse
    t = z * (1 + correction)
    return jnp.clip(jnp.ceil((b - 1 + root * t) / 2), 0, b)


def _value(polynomial: tuple[float, ...], at: Array) -> Array | float:
    # Horner with the coefficients as constants: jnp.polyval would loop over an array of them.
    value: Array | float = polynomial[0]
    for coefficient in polynomial[1:]:
        value = value * at + coefficient
    return value
