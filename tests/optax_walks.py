"""Walks of Optax transformations along gradients of a coupled nonconvex loss, on any tree."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax


def gradient(params: Any, sample: Any) -> Any:
    """Depends on the sample in another way at each point."""
    return jax.tree.map(lambda p: (p * (1 + sample) + jnp.sin(3 * p) + sample).astype(p.dtype), params)


def samples(count: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=count), jnp.float32)


def walk(
    optimizer: Any, params: Any, given: Iterable[Any], at: Any = gradient, state: Any = None, jit: bool = True
) -> tuple[list[Any], list[Any]]:
    """The parameters and the states after every call."""
    visited, states, state = [], [], optimizer.init(params) if state is None else state
    extra = optax.with_extra_args_support(optimizer)

    def call(params: Any, state: Any, sample: Any) -> Any:
        grad_fn = partial(at, sample=sample)
        updates, state = extra.update(grad_fn(params), state, params, grad_fn=grad_fn)
        return optax.apply_updates(params, updates), state

    call = jax.jit(call) if jit else call
    for sample in given:
        # XLA has a thread for each core. Where the devices are as many, programs that add up over two of them, not
        # waited for, and an operation on both can take every thread and wait for each other: it aborts after 40 s.
        params, state = jax.block_until_ready(call(params, state, sample))
        visited.append(params)
        states.append(state)
    return visited, states


def length(tree: Any) -> float:
    return float(np.sqrt(sum(np.sum(np.abs(np.asarray(leaf, complex)) ** 2) for leaf in jax.tree.leaves(tree))))


def assert_close(tree: Any, other: Any, atol: float = 1e-6) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, rtol=0, atol=atol), tree, other)


def mean_of(visited: list[Any], start: Any) -> Any:
    """x̄ of `untuned` by hand."""
    mean = jax.tree.map(lambda leaf: np.array(leaf, np.float64), start)
    for k, x in enumerate(visited, start=1):
        mean = jax.tree.map(lambda m, leaf, k=k: m + 7 / (k + 7) * (np.array(leaf) - m), mean, x)
    return mean
