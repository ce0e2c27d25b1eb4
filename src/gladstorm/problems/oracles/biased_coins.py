"""Binomial counts of any probability, exact for every number of trials and drawn from one uniform number.

The outcomes 0..b are laid side by side on [0, 1], each as wide as its probability, in the order mode, mode + 1,
mode − 1, mode + 2, …; the count is the outcome the uniform number falls on. A single trial is one comparison.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from gladstorm.core.parts import Array


class _Search(NamedTuple):
    """A walk from the mode outwards: all outcomes within `distance` of it have been passed."""

    found: Array  # whether the uniform number falls on `outcome`
    outcome: Array  # until then the mode
    left: Array  # the uniform number minus the probabilities of the outcomes passed
    distance: Array
    p_above: Array  # the probability of mode + distance
    p_below: Array  # the probability of mode − distance


def successes(uniform: Array, trials: Array, q: Array | float) -> Array:
    """Binomial(trials, q) as a function of a uniform number, in about √(b q (1 − q)) steps for b trials.

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
        return search._replace(found=single | (left < 0), left=left, p_above=p, p_below=p)

    def pass_the_next_two(search: _Search) -> _Search:
        last_above, last_below = mode + search.distance, mode - search.distance
        above, below = last_above + 1, last_below - 1
        p_above = search.p_above * jnp.maximum(b - last_above, 0) / above * odds
        p_below = search.p_below * jnp.maximum(last_below, 0) / (b - below) / odds
        after_above = search.left - p_above
        left = after_above - p_below
        here = jnp.where(after_above < 0, above, jnp.where(left < 0, below, mode))
        # Rounding may leave a rest when every outcome has been passed: it belongs to the mode.
        found = (after_above < 0) | (left < 0) | ((below <= 0) & (above >= b))
        outcome = jnp.where(search.found, search.outcome, here)
        return _Search(search.found | found, outcome, left, search.distance + 1, p_above, p_below)

    # A loop that runs once or not at all: where all draws are of single trials, the common case, it skips the
    # logarithms. Mapped over runs, `lax.cond` would compute them always.
    mode_passed = lax.fori_loop(0, jnp.any(~single).astype(int), pass_the_mode, begun)
    ended: _Search = lax.while_loop(lambda search: jnp.any(~search.found), pass_the_next_two, mode_passed)
    return ended.outcome
