"""Random numbers of a batch whose size is known only while the program runs.

A sampler with loops or rejections would cost a step more than its gradient and would have to be drawn inside it. Here
the counts are functions of one number that is drawn before, so one luck serves every batch size.
"""

import itertools
import math
from functools import cache
from statistics import NormalDist
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gladstorm.core.parts import Array

GENERATOR: Final = "threefry2x32"  # whatever JAX is configured to use: a stored result depends on it
TABLED: Final = 256
PER_LENGTH: Final = 3  # normals a length is made of, unless they are rejected
FURTHER: Final = 2**30  # keys of more random numbers, far from the counters that the first use

# t(z) = z (1 + Σ_j P_j(z²)/b^j): the quantile of (2·heads − b)/√b at lattice midpoints; P_j by falling powers of z².
# From the cumulants of b log cos(s/√b) + log((s/√b)/sin(s/√b)), the second term being the continuity correction.
CORNISH_FISHER: Final = (
    (-1 / 12, 1 / 12),
    (-13 / 1440, -1 / 120, 181 / 1440),
    (-97 / 40320, -1283 / 362880, 34817 / 362880, -4511 / 120960),
    (-25307 / 29030400, -587 / 362880, 418603 / 6220800, -164149 / 10886400, -3203131 / 29030400),
)


def keys_of(seed: int | Array, shape: int | tuple[int, ...]) -> Array:
    """Return so many keys made of a seed."""
    return jax.random.split(jax.random.key(seed, impl=GENERATOR), shape)


def key_of(data: Array) -> Array:
    """Return the key that two 32-bit numbers are."""
    key: Array = jax.random.wrap_key_data(data, impl=GENERATOR)
    return key


@cache
def thresholds() -> np.ndarray:
    """Φ⁻¹(P(heads ≤ k)) for k < b ≤ TABLED, row after row; the upper half by symmetry, where the CDF rounds to 1.

    The probabilities are exact until they are rounded. SciPy's functions are less so, and would take longer to import.
    """
    quantile = NormalDist().inv_cdf
    table: list[float] = []
    for b in range(1, TABLED + 1):
        at_most = itertools.accumulate(math.comb(b, k) for k in range(b // 2))  # so many of 2ᵇ outcomes
        lower = [quantile(ways / 2**b) for ways in at_most]
        table += [*lower, *[0.0] * (b % 2), *(-threshold for threshold in reversed(lower))]
    return np.array(table)


def heads(z: Array, coins: Array) -> Array:
    """Heads among `coins` fair coins, given z ~ N(0, 1), the binomial quantile of Φ(z); a float that is a whole number.

    Up to `TABLED` coins the quantile's thresholds are tabulated. Above, the Cornish–Fisher expansion of Binomial(b, ½)
    to order b⁻⁴ is within 1e-11 of it in total variation (a test computes the distance).

    >>> heads(jnp.array([-0.1, 0.1, 3.0]), jnp.array([1, 1, 1])).tolist()
    [0.0, 1.0, 1.0]
    """
    b = jnp.asarray(coins, z.dtype)
    root, inverse = jnp.sqrt(b), 1 / b

    few = jnp.minimum(coins, TABLED)
    row = few * (few - 1) // 2
    table = jnp.asarray(thresholds(), z.dtype)
    # Never more than one off for any b ≤ TABLED and |z| < 8.3, so one comparison on each side finds the quantile.
    guess = jnp.floor((b + root * z / (1 + z * z * inverse / 12)) / 2 + 0.5)
    k = jnp.clip(guess, 0, b).astype(row.dtype)
    up = (k < few) & (z > table[row + jnp.minimum(k, few - 1)])
    down = (k > 0) & (z <= table[row + jnp.maximum(k - 1, 0)])
    by_table = (k + up - down).astype(z.dtype)

    correction = jnp.zeros_like(z)
    for polynomial in reversed(CORNISH_FISHER):  # by Horner: jnp.polyval would loop over an array of coefficients
        value: Array | float = polynomial[0]
        for coefficient in polynomial[1:]:
            value = value * (z * z) + coefficient
        correction = (correction + value) * inverse
    by_expansion = jnp.clip(jnp.ceil((b - 1 + root * (z * (1 + correction))) / 2), 0, b)
    return jnp.where(coins <= TABLED, by_table, by_expansion)


def mean_of_signs(z: Array, size: Array) -> Array:
    """The mean of b = `size` signs ±1, (2 Binomial(b, ½) − b)/b, for each z ~ N(0, 1)."""
    b = jnp.asarray(size, z.dtype)
    return (2 * heads(z, jnp.broadcast_to(jnp.asarray(size), z.shape)) - b) / b


class _Search(NamedTuple):
    """A walk from the mode outwards: all outcomes within `distance` of it have been passed."""

    done: Array  # whether the uniform number falls on `outcome`
    outcome: Array  # until then the mode
    left: Array  # the uniform number minus the probabilities of the outcomes passed
    distance: Array
    p_above: Array  # the probability of mode + distance
    p_below: Array  # the probability of mode − distance


def successes(uniform: Array, trials: Array, q: Array | float) -> Array:
    """Binomial(trials, q) as a function of a uniform number, exactly, in about √(b q (1 − q)) steps for b trials.

    The outcomes 0..b are laid side by side on [0, 1], each as wide as its probability, in the order mode, mode + 1,
    mode − 1, mode + 2, …; the count is the one that the number falls on. A single trial is one comparison.

    >>> successes(jnp.array([0.95, 0.05]), jnp.array(1.0), jnp.array(0.1)).tolist()
    [0.0, 1.0]
    """
    b = jnp.broadcast_to(trials, uniform.shape).astype(uniform.dtype)
    mode = jnp.clip(jnp.floor((b + 1) * q), 0, b)
    odds = q / (1 - q)

    single = b == 1
    one_trial = jnp.where(uniform < q, 1.0, 0.0)
    begun = _Search(single, jnp.where(single, one_trial, mode), uniform, jnp.zeros((), b.dtype), uniform, uniform)

    def pass_the_mode(_: Array, search: _Search) -> _Search:
        ways = lax.lgamma(b + 1) - lax.lgamma(mode + 1) - lax.lgamma(b - mode + 1)
        p = jnp.exp(ways + mode * jnp.log(q) + (b - mode) * jnp.log1p(-q))
        left = uniform - p
        return search._replace(done=single | (left < 0), left=left, p_above=p, p_below=p)

    def pass_the_next_two(search: _Search) -> _Search:
        last_above, last_below = mode + search.distance, mode - search.distance
        above, below = last_above + 1, last_below - 1
        p_above = search.p_above * jnp.maximum(b - last_above, 0) / above * odds
        p_below = search.p_below * jnp.maximum(last_below, 0) / (b - below) / odds
        after_above = search.left - p_above
        left = after_above - p_below
        here = jnp.where(after_above < 0, above, jnp.where(left < 0, below, mode))
        # Rounding may leave a rest when every outcome has been passed: it belongs to the mode.
        done = (after_above < 0) | (left < 0) | ((below <= 0) & (above >= b))
        outcome = jnp.where(search.done, search.outcome, here)
        return _Search(search.done | done, outcome, left, search.distance + 1, p_above, p_below)

    # A loop that runs once or not at all: where all draws are of single trials, the common case, it skips the
    # logarithms. Mapped over runs, `lax.cond` would compute them always.
    mode_passed = lax.fori_loop(0, jnp.any(~single).astype(int), pass_the_mode, begun)
    ended: _Search = lax.while_loop(lambda search: jnp.any(~search.done), pass_the_next_two, mode_passed)
    return ended.outcome


def mean_of_coins(uniform: Array, trials: Array, q: Array | float) -> Array:
    """The mean of b independent s of mean 0 and variance 1: √((1 − q)/q) with probability q, −√(q/(1 − q)) otherwise.

    It is (M − b q)/(b √(q (1 − q))), M ~ Binomial(b, q) as a function of a uniform number.
    """
    b = jnp.asarray(trials, uniform.dtype)
    return (successes(uniform, b, q) - b * q) / (b * jnp.sqrt(q * (1 - q)))


def uniforms_for(outcomes: int) -> int:
    """How many uniform numbers `counts` takes for so many outcomes.

    >>> uniforms_for(5)
    7
    """
    return (1 << max(outcomes - 1, 0).bit_length()) - 1


def counts(uniforms: Array, trials: Array, p: Array) -> Array:
    """Multinomial(trials, p): a tree of binomials, in which each node divides its draws between two halves.

    >>> counts(jnp.array([0.5, 0.1, 0.9]), jnp.array(1), jnp.array([0.2, 0.3, 0.1, 0.4])).sum().tolist()
    1.0
    """
    leaves = uniforms.size + 1
    levels = [jnp.zeros(leaves, p.dtype).at[: p.size].set(p)]
    while levels[-1].size > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    totals = jnp.asarray(trials, p.dtype)[None]
    for chances in reversed(levels[:-1]):
        size = totals.size
        drawn, uniforms = uniforms[:size], uniforms[size:]
        left, both = chances[::2], chances.reshape(-1, 2).sum(axis=1)
        share = jnp.where(both > 0, left / jnp.where(both > 0, both, 1.0), 0.5)
        inside = jnp.clip(share, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)
        first = jnp.where(share <= 0, 0.0, jnp.where(share >= 1, totals, successes(drawn, totals, inside)))
        totals = jnp.stack([first, totals - first], axis=1).ravel()
    return totals[: p.size]


class _Lengths(NamedTuple):
    """Lengths accepted so far: after so many rounds, whether each has been, and its square."""

    rounds: Array
    done: Array
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

    def again(search: _Lengths) -> _Lengths:
        further = jax.random.normal(jax.random.fold_in(key, FURTHER + search.rounds), normals.shape, normals.dtype)
        good, square = propose(further)
        return _Lengths(search.rounds + 1, search.done | good, jnp.where(search.done, search.square, square))

    good, square = propose(normals)
    few = jnp.where(dims == 1, normals[:, 0] ** 2, 0.0)
    begun = _Lengths(jnp.zeros((), int), good | (dims < 2), jnp.where(dims < 2, few, square))
    ended: _Lengths = lax.while_loop(lambda search: ~jnp.all(search.done), again, begun)
    return jnp.sqrt(ended.square)


def bartlett(normals: Array, key: Array, count: Array) -> Array:
    """T, lower triangular, with TTᵀ ~ Wishart: the law of Σ_i u_i u_iᵀ over `count` independent u_i ~ N(0, I).

    T_ij ~ N(0, 1) below the diagonal and T_ii² ~ χ²(count − i) on it, i from 0; columns from `count` on are 0. `count`
    is a traced whole number ≥ 0, and `normals` has n + 3 in each of its n rows.
    """
    n = normals.shape[0]
    left = count - jnp.arange(n)
    return jnp.where(left > 0, jnp.tril(normals[:, :n], -1) + jnp.diag(lengths(normals[:, n:], key, left)), 0.0)
