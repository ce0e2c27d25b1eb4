"""One run: its state, its step, what is recorded of it, and its randomness, a function of (seed, step) alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gladstorm.methods import Method
from gladstorm.oracles import Oracle
from gladstorm.parts import Array


class State(NamedTuple):
    """One run at step k."""

    point: Any  # x^k
    v: Array  # v^k
    batch: Array  # samples v^k averages
    max_batch: Array  # the largest so far
    sfo: Array  # stochastic gradients so far
    grad_norm_sum: Array  # Σ_{j≤k} ‖∇f(x^j)‖
    error_sum: Array  # Σ_{j≤k} ‖v^j − ∇f(x^j)‖
    best: Array  # min_{j≤k} ‖∇f(x^j)‖
    sampled: Array  # x̂, once its step has passed
    diverged: Array  # the first step with a number that is not finite, or −1


class Snapshot(NamedTuple):
    """What is recorded of one run at step k."""

    grad_norm: Array  # ‖∇f(x^k)‖
    value: Array  # f(x^k)
    drift2: Array  # ‖x^k − x⁰‖²
    batch: Array
    max_batch: Array
    sfo: Array
    error: Array  # ‖v^k − ∇f(x^k)‖
    mean_grad_norm: Array  # the exact mean over x⁰..x^k
    mean_error: Array
    best_grad_norm: Array


def begin(oracle: Oracle, method: Method, seed: Array, sampled_step: Array) -> State:
    """x⁰ and v⁰ of one run."""
    point = oracle.at(jnp.asarray(oracle.objective.start))
    zero = jnp.zeros((), int)
    batch = method.batch(zero, jnp.zeros(()))
    sample = oracle.batch(draw(oracle, seed, zero), batch)
    v = method.estimator.init(lambda p: oracle.grad(p, sample), point)
    nothing = jnp.zeros(())
    blank = State(
        point,
        v,
        batch,
        max_batch=jnp.zeros_like(batch),
        sfo=jnp.zeros_like(batch),
        grad_norm_sum=nothing,
        error_sum=nothing,
        best=nothing + jnp.inf,
        sampled=point.x,
        diverged=jnp.full_like(batch, -1),
    )
    return _observed(oracle, blank, zero, sampled_step, queries=1)


def move(method: Method, state: State) -> Array:
    """x^k from x^{k−1} and v^{k−1}: the first half of step k."""
    return method.step(state.point.x, state.v)


def arrive(
    oracle: Oracle, method: Method, state: State, point: Any, noise: Any, k: Array, sampled_step: Array
) -> State:
    """v^k at the point x^k: the second half of step k. Between the halves the points of all runs are looked at."""
    batch = method.batch(k, _distance2(oracle, point))
    sample = oracle.batch(noise, batch)
    v = method.estimator.update(state.v, lambda p: oracle.grad(p, sample), state.point, point)
    moved = state._replace(point=point, v=v, batch=batch)
    return _observed(oracle, moved, k, sampled_step, queries=method.estimator.queries)


def _observed(oracle: Oracle, state: State, k: Array, sampled_step: Array, queries: int) -> State:
    norm, error = _grad_norm(oracle, state), _error(oracle, state)
    alive = (state.diverged < 0) & jnp.isfinite(norm + error)
    batch = jnp.where(alive, state.batch, 0)  # a run that has diverged draws no more samples
    return state._replace(
        batch=batch,
        max_batch=jnp.maximum(state.max_batch, batch),
        sfo=state.sfo + batch * queries,
        grad_norm_sum=state.grad_norm_sum + norm,
        error_sum=state.error_sum + error,
        best=jnp.where(norm < state.best, norm, state.best),
        sampled=jnp.where(k == sampled_step, state.point.x, state.sampled),
        diverged=jnp.where(alive | (state.diverged >= 0), state.diverged, k),
    )


def snapshot(oracle: Oracle, state: State, k: Array) -> Snapshot:
    """What is recorded of a run at step k."""
    return Snapshot(
        grad_norm=_grad_norm(oracle, state),
        value=oracle.objective.value(state.point.x),
        drift2=_distance2(oracle, state.point),
        batch=state.batch,
        max_batch=state.max_batch,
        sfo=state.sfo,
        error=_error(oracle, state),
        mean_grad_norm=state.grad_norm_sum / (k + 1),
        mean_error=state.error_sum / (k + 1),
        best_grad_norm=state.best,
    )


def _grad_norm(oracle: Oracle, state: State) -> Array:
    return jnp.linalg.norm(oracle.exact(state.point))


def _error(oracle: Oracle, state: State) -> Array:
    return jnp.linalg.norm(state.v - oracle.exact(state.point))


def _distance2(oracle: Oracle, point: Any) -> Array:
    return jnp.sum((point.x - oracle.objective.start) ** 2)


def draw(oracle: Oracle, seed: Array, k: Array) -> Any:
    """The randomness of step k."""
    # Threefry is a cipher: the pair is as good a key as any; hashing it into one would double the price of small draws.
    pair = jnp.stack([seed, k.astype(seed.dtype)])
    return oracle.draw(jax.random.wrap_key_data(pair, impl="threefry2x32"))
