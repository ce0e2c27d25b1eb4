"""One run: its state, its step, what is recorded of it, and its randomness, a function of (seed, step) alone.

What the engine maps over runs is jitted here, so that programs of several sizes trace each structure once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from gladstorm.core import equations
from gladstorm.core.parts import Array
from gladstorm.methods import Method
from gladstorm.methods.batches import BatchRule, MeasuringBatch
from gladstorm.methods.estimators import Estimator
from gladstorm.methods.schedules import Clock, adaptive, resolved
from gladstorm.methods.steps import Step
from gladstorm.problems.functions import tree_of, unflatten
from gladstorm.problems.oracles import Oracle
from gladstorm.problems.sampling import key_of

A = TypeVar("A")

# What a step draws beyond the first sample has keys of its own, far from the counters that one uses.
FURTHER, COIN = 2**31, 2**32 - 1


class State(NamedTuple):
    """One run at step k."""

    point: Any  # x^k
    estimate: Any  # what the estimator remembers; its direction is v^k
    memory: Any  # what the step remembers
    squares: Any  # Σ_{j≤k} ‖∇f(x^j; ξ^j)‖², if a schedule asks for it
    batch: Array  # samples v^k averages
    max_batch: Array  # the largest so far
    sfo: Array  # stochastic gradients so far
    grad_norm_sum: Array  # Σ_{j≤k} ‖∇f(x^j)‖
    error_sum: Array  # Σ_{j≤k} ‖v^j − ∇f(x^j)‖
    best: Array  # min_{j≤k} ‖∇f(x^j)‖
    stationarity: Any  # what the step measures in place of ‖∇f(x^k)‖, if it does
    stationarity_sum: Any  # over j ≤ k
    sampled: Array  # x̂, once its step has passed
    average: Any  # x̄^k, if the method has an average
    measured: Any  # what a batch rule that measures has seen, and the mean gradient of this step
    diverged: Array  # the first step with a number that is not finite, or −1


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot(Generic[A]):
    """Measurements of a run at step k. `Record` has these fields too, as arrays over all runs and recorded steps.

    Another statistic is a field here and its formula in `snapshot`.
    """

    grad_norm: A  #: ‖∇f(x^k)‖
    value: A  #: f(x^k)
    drift2: A  #: ‖x^k − x⁰‖²
    batch: A  #: samples that v^k averages
    max_batch: A  #: the largest batch up to step k
    sfo: A  #: stochastic gradients evaluated up to step k
    error: A  #: ‖v^k − ∇f(x^k)‖
    mean_grad_norm: A  #: the mean of ‖∇f‖ over x⁰..x^k
    mean_error: A  #: the mean of ‖v − ∇f‖ over the same steps
    best_grad_norm: A  #: the smallest ‖∇f‖ among x⁰..x^k
    stationarity: A  #: ‖∇f(x^k)‖_* in the dual of the step's norm; with weight decay Ψ(x^k), see `WeightDecay`
    mean_stationarity: A  #: its mean over x⁰..x^k
    reported_grad_norm: A  #: ‖∇f‖ at the point that the method reports at step k
    reported_value: A  #: f at that point
    path: A  #: x^k, if it is one or two numbers; else empty. It has one axis more


CURVES = tuple(field.name for field in fields(Snapshot) if field.name != "path")
COUNTS = ("batch", "max_batch", "sfo")  # those that are whole numbers
CUMULATIVE = ("max_batch", "sfo")  # those of them that never fall
jax.tree_util.register_dataclass(Snapshot, data_fields=(*CURVES, "path"), meta_fields=())


class More(NamedTuple):
    """Randomness that a step of some estimators draws beyond the one sample every method has."""

    coin: Any  # uniform on [0, 1), or ()
    noise: Any  # of further samples, a row each, or ()


class Gradients(NamedTuple):
    """The current sample's gradient at any point: what estimators call `grad`."""

    oracle: Any
    sample: Any
    samples: int
    halves: Any = None  # the samples of two halves of a batch, if its rule measures, and `sample` their mean

    def __call__(self, point: Any) -> Any:
        """∇f(x; ξ); with several independent samples, a row for each."""
        if self.halves is not None:
            return self.parts(point).mean(axis=0)
        return self.oracle.grad(point, self.sample) if self.samples == 1 else self.parts(point)

    def parts(self, point: Any) -> Any:
        """The gradient of every part of the batch, in rows."""
        return jax.vmap(self.oracle.grad, (None, 0))(point, self.sample if self.halves is None else self.halves)

    def at(self, x: Array) -> Any:
        """A point the iterates do not visit."""
        return self.oracle.at(x)


@jax.jit
def begin(oracle: Oracle, method: Method, seed: Array, sampled_step: Array, horizon: Array) -> State:
    """x⁰ and v⁰ of one run of K = `horizon` steps."""
    point = oracle.at(jnp.asarray(oracle.objective.start))
    zero = jnp.zeros((), int)
    seen = method.batch.begin() if isinstance(method.batch, MeasuringBatch) else ()
    batch = _affordable(oracle, method, method.batch(zero, jnp.zeros(()), refresh=True))
    estimator, step = resolved((method.estimator, method.step), Clock(zero, jnp.zeros(()), horizon))
    more = draw_more(oracle, method, seed, zero)
    grad = gradients(oracle, method, point, draw(oracle, seed, zero), more, batch)
    nothing = jnp.zeros(())
    blank = State(
        point,
        estimator.init(grad, point),
        step.init(unflatten(tree_of(oracle.objective), point.x)),
        _squares(grad, point) if adaptive(method) else (),
        batch,
        max_batch=jnp.zeros_like(batch),
        sfo=jnp.zeros_like(batch),
        grad_norm_sum=nothing,
        error_sum=nothing,
        best=nothing + jnp.inf,
        stationarity=nothing,
        stationarity_sum=nothing,
        sampled=point.x,
        average=() if method.average is None else point.x,
        measured=_measured(method.batch, grad, point, batch, (seen, jnp.full_like(point.x, jnp.nan))),
        diverged=jnp.full_like(batch, -1),
    )
    return _observed(oracle, estimator, step, blank, zero, sampled_step, queries=1)


@jax.jit
def move(oracle: Oracle, method: Method, state: State, k: Array, horizon: Array) -> tuple[Array, Any]:
    """x^k from x^{k−1} and v^{k−1}, and what the step remembers then: the first half of step k.

    A step sees the tree that f takes, where a matrix is a matrix; all else sees x as a vector.
    """
    step = resolved(method.step, Clock(k - 1, state.squares, horizon))
    v, tree, value = method.estimator.direction(state.estimate), tree_of(oracle.objective), oracle.objective.value
    if tree is None:
        x, memory = step.move(state.memory, state.point.x, v, value)
        return x, memory
    x, v = tree.unflatten(state.point.x), tree.unflatten(v)
    x, memory = step.move(state.memory, x, v, lambda x: value(tree.flatten(x)))
    return tree.flatten(x), memory


@jax.jit
def arrive(
    oracle: Oracle,
    method: Method,
    state: State,
    memory: Any,
    point: Any,
    noise: Any,
    more: More,
    k: Array,
    sampled_step: Array,
    horizon: Array,
) -> State:
    """v^k at the point x^k: the second half of step k. Between the halves the points of all runs are looked at."""
    estimator, step = resolved((method.estimator, method.step), Clock(k, state.squares, horizon))
    refresh = estimator.refreshes(state.estimate, k, more.coin)
    rule, distance2 = method.batch, _distance2(oracle, point)
    size = rule.size(state.measured[0]) if isinstance(rule, MeasuringBatch) else rule(k, distance2, refresh)
    batch = _affordable(oracle, method, size)
    grad = gradients(oracle, method, point, noise, more, batch)

    estimate, queries = estimator.update(state.estimate, grad, state.point, point), estimator.queries
    if refresh is not False:  # both are computed: of many runs some start afresh and some do not
        estimate = jax.tree.map(partial(jnp.where, refresh), estimator.init(grad, point), estimate)
        queries = jnp.where(refresh, 1, queries)
    squares = state.squares + _squares(grad, point) if adaptive(method) else ()
    average: Any = ()
    if method.average is not None:
        weight = resolved(method.average, Clock(k, state.squares, horizon)).weight(k, horizon)
        average = (1 - weight) * state.average + weight * point.x  # where the weight is 1, exactly x^k
    new = state._replace(point=point, estimate=estimate, memory=memory, squares=squares, batch=batch, average=average)
    new = new._replace(measured=_measured(rule, grad, point, batch, state.measured))
    return _observed(oracle, estimator, step, new, k, sampled_step, queries)


def gradients(oracle: Oracle, method: Method, point: Any, noise: Any, more: More, batch: Array) -> Gradients:
    """Stochastic gradients of a batch at a point, from a step's randomness."""
    samples = method.estimator.samples
    if _rows(method) == 1:
        return Gradients(oracle, oracle.sample_of(noise, point, batch), 1)
    rows = jax.tree.map(lambda first, further: jnp.concatenate([first[None], further]), noise, more.noise)
    of_rows = jax.vmap(oracle.sample_of, (0, None, None))
    if samples > 1:
        return Gradients(oracle, of_rows(rows, point, batch), samples)
    halves = of_rows(rows, point, batch // 2)
    return Gradients(oracle, jax.tree.map(lambda sample: sample.mean(axis=0), halves), 1, halves)


def _rows(method: Method) -> int:
    """How many independent samples a step draws: two halves, if the batch rule measures."""
    return max(method.estimator.samples, 2 if isinstance(method.batch, MeasuringBatch) else 1)


def _measured(rule: BatchRule, grad: Gradients, point: Any, batch: Array, before: tuple[Any, Any]) -> Any:
    """Let a batch rule that measures look at this batch, and keep its mean gradient."""
    if not isinstance(rule, MeasuringBatch):
        return ()
    (seen, previous), parts = before, grad.parts(point)
    squares = jnp.sum(parts**2), jnp.sum(jnp.sum(parts, axis=0) ** 2)
    noise, gradient2 = equations.noise_and_gradient2(len(parts), *squares)
    mean, samples = parts.mean(axis=0), batch if grad.samples > 1 else batch // 2
    return rule.learn(seen, noise * samples, gradient2, mean @ previous), mean


def _affordable(oracle: Any, method: Method, batch: Array) -> Array:
    # Of a finite sum, all examples once is as much as there is to pay for.
    if oracle.largest is None:
        return batch
    affordable = jnp.minimum(batch, oracle.largest)
    return (
        jnp.maximum(affordable // 2, 1) * 2 if isinstance(method.batch, MeasuringBatch) else affordable
    )  # it has halves


def _squares(grad: Gradients, point: Any) -> Array:
    return jnp.sum(grad(point) ** 2)


def _observed(
    oracle: Oracle, estimator: Estimator, step: Step, state: State, k: Array, sampled_step: Array, queries: Any
) -> State:
    norm, error = _grad_norm(oracle, state), _error(oracle, estimator, state)
    measured = _stationarity(oracle, step, state)
    alive = (state.diverged < 0) & jnp.isfinite(norm + error)
    batch = jnp.where(alive, state.batch, 0)  # a run that has diverged draws no more samples
    return state._replace(
        batch=batch,
        max_batch=jnp.maximum(state.max_batch, batch),
        sfo=state.sfo + batch * (queries * estimator.samples),
        grad_norm_sum=state.grad_norm_sum + norm,
        error_sum=state.error_sum + error,
        best=jnp.where(norm < state.best, norm, state.best),
        stationarity=() if measured is None else measured,
        stationarity_sum=() if measured is None else state.stationarity_sum + measured,
        sampled=jnp.where(k == sampled_step, state.point.x, state.sampled),
        diverged=jnp.where(alive | (state.diverged >= 0), state.diverged, k),
    )


@jax.jit
def snapshot(oracle: Oracle, method: Method, state: State, value: Array, reported: Any, k: Array) -> Snapshot[Any]:
    """Measure a run at step k, given f(x^k) and what `report` says: of all runs they are products."""
    return Snapshot(
        grad_norm=_grad_norm(oracle, state),
        value=value,
        drift2=_distance2(oracle, state.point),
        batch=state.batch,
        max_batch=state.max_batch,
        sfo=state.sfo,
        error=_error(oracle, method.estimator, state),
        mean_grad_norm=state.grad_norm_sum / (k + 1),
        mean_error=state.error_sum / (k + 1),
        best_grad_norm=state.best,
        stationarity=state.stationarity,
        mean_stationarity=jax.tree.map(lambda total: total / (k + 1), state.stationarity_sum),
        reported_grad_norm=reported[0],
        reported_value=reported[1],
        path=state.point.x if path_entries(state.point.x.size) else (),
    )


def path_entries(dim: int) -> int:
    """How many numbers of x are recorded at every recorded step: all where a path can be drawn, none elsewhere."""
    return dim if dim <= 2 else 0


@jax.jit
def report(oracle: Oracle, state: State) -> tuple[Array, Array]:
    """‖∇f‖ and f at the average of a run, which has one."""
    norm: Array = jnp.linalg.norm(oracle.exact(oracle.at(state.average)))
    return norm, oracle.objective.value(state.average)


def _grad_norm(oracle: Oracle, state: State) -> Array:
    norm: Array = jnp.linalg.norm(oracle.exact(state.point))
    return norm


def _stationarity(oracle: Oracle, step: Step, state: State) -> Array | None:
    """The measure that theorems about the step bound in place of ‖∇f(x^k)‖."""
    tree = tree_of(oracle.objective)
    return step.stationarity(state.memory, unflatten(tree, state.point.x), unflatten(tree, oracle.exact(state.point)))


def _error(oracle: Oracle, estimator: Estimator, state: State) -> Array:
    norm: Array = jnp.linalg.norm(estimator.direction(state.estimate) - oracle.exact(state.point))
    return norm


def _distance2(oracle: Oracle, point: Any) -> Array:
    return jnp.sum((point.x - oracle.objective.start) ** 2)


@jax.jit
def draw(oracle: Oracle, seed: Array, k: Array) -> Any:
    """The randomness of step k that every method has."""
    return oracle.draw(_key(seed, k))


@jax.jit
def draw_more(oracle: Oracle, method: Method, seed: Array, k: Array) -> More:
    """Randomness of step k that only some methods want; their numbers do not matter."""
    key, rows = _key(seed, k), _rows(method)
    afresh = method.estimator.starts_afresh
    coin = jax.random.uniform(jax.random.fold_in(key, COIN), (), jnp.result_type(float)) if afresh else ()
    if rows == 1:
        return More(coin, ())
    further = jax.vmap(partial(jax.random.fold_in, key))(FURTHER + jnp.arange(1, rows))
    return More(coin, jax.vmap(oracle.draw)(further))


def _key(seed: Array, k: Array) -> Array:
    # Threefry is a cipher: the pair is as good a key as any; hashing it into one would double the price of small draws.
    pair = jnp.stack([seed, k.astype(seed.dtype)])
    return key_of(pair)
