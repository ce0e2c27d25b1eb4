"""One step of one run, both halves: what the engine does to many runs at once."""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import jax.numpy as jnp

from gladstorm import Method
from gladstorm.simulation import one_run

NEVER = jnp.array(-1)

# Operation by operation: to compile every structure that is tested would take minutes.
begin, move, arrive, draw, draw_more = map(
    unwrap, (one_run.begin, one_run.move, one_run.arrive, one_run.draw, one_run.draw_more)
)


def begun(oracle: Any, method: Method, seed: int, horizon: int = 0) -> one_run.State:
    state: one_run.State = begin(oracle, method, jnp.uint32(seed), NEVER, jnp.asarray(horizon))
    return state


def whole_step(oracle: Any, method: Method, state: one_run.State, seed: Any, k: Any, horizon: int = 0) -> one_run.State:
    seed, k, K = jnp.uint32(seed), jnp.asarray(k), jnp.asarray(horizon)
    x, memory = move(oracle, method, state, k, K)
    noise, more = draw(oracle, seed, k), draw_more(oracle, method, seed, k)
    later: one_run.State = arrive(oracle, method, state, memory, oracle.at(x), noise, more, k, NEVER, K)
    return later
