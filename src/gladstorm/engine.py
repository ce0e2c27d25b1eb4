"""The compiled program behind `run` and `sweep`: all runs of one structure, advanced together.

Runs form a grid, seeds × configurations. Randomness is a function of (seed, step) alone, drawn for a block of steps at
once outside the inner loop. Step counts and record times are values, so no number recompiles anything.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec

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


class Progress(NamedTuple):
    """All runs of the program, and what has been recorded of them."""

    states: State
    snapshots: Snapshot  # leading axis: record times
    k: Array
    recorded: Array  # how many record times have passed


def begin(oracle: Oracle, method: Method, seed: Array, sampled_step: Array) -> State:
    """x⁰ and v⁰ of one run."""
    point = oracle.at(jnp.asarray(oracle.objective.start))
    zero = jnp.zeros((), int)
    batch = method.batch(zero, jnp.zeros(()))
    sample = oracle.batch(_draw(oracle, seed, zero), batch)
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


def transition(oracle: Oracle, method: Method, state: State, noise: Any, k: Array, sampled_step: Array) -> State:
    """Step k of one run: x^k from x^{k−1} and v^{k−1}, then v^k."""
    point = oracle.at(method.step(state.point.x, state.v))
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


class Grid(NamedTuple):
    """How the runs lie: the devices, which axis is cut into a piece for each, one oracle for all or one per seed."""

    mesh: Mesh
    cut: Literal["seeds", "configurations"]
    oracle_per_seed: bool

    @property
    def placements(self) -> tuple[PartitionSpec, ...]:
        """Of the arguments every program starts with: oracle, methods, seeds, sampled steps, record times."""
        everywhere, cut = PartitionSpec(), PartitionSpec("run")
        seeds, configurations = (cut, everywhere) if self.cut == "seeds" else (everywhere, cut)
        return (seeds if self.oracle_per_seed else everywhere, configurations, seeds, seeds, everywhere)

    def compiled(self, program: Any, *more: Any) -> Any:
        """The program on every device at once, each on its own runs; none waits for another."""
        specs = (*self.placements, *more)
        return jax.shard_map(program, mesh=self.mesh, in_specs=specs, out_specs=self.progress, check_vma=False)

    @property
    def progress(self) -> Any:
        """The placement of a Progress."""
        runs = ("run",) if self.cut == "seeds" else (None, "run")
        states: Any = PartitionSpec(*runs)
        snapshots: Any = PartitionSpec(None, *runs)
        return Progress(states, snapshots, PartitionSpec(), PartitionSpec())

    def over_runs(self, function: Any, configurations: tuple[int | None, ...], seeds: tuple[int | None, ...]) -> Any:
        """Map a function of (oracle, …) of one run over all runs, given the axes of the other arguments."""
        oracle = 0 if self.oracle_per_seed else None
        return jax.vmap(jax.vmap(function, (None, *configurations)), (oracle, *seeds))


@partial(jax.jit, static_argnums=0)
def started(grid: Grid, oracle: Any, methods: Any, seeds: Array, sampled_steps: Array, times: Array) -> Progress:
    """All runs at step 0, which is recorded."""

    def program(oracle: Any, methods: Any, seeds: Array, sampled_steps: Array, times: Array) -> Progress:
        states = grid.over_runs(begin, (0, None, None), (None, 0, 0))(oracle, methods, seeds, sampled_steps)
        zero = jnp.zeros((), int)
        first = grid.over_runs(snapshot, (0, None), (0, None))(oracle, states, zero)
        snapshots = jax.tree.map(lambda a: jnp.zeros((times.size, *a.shape), a.dtype).at[0].set(a), first)
        return Progress(states, snapshots, zero, zero + 1)

    begun: Progress = grid.compiled(program)(oracle, methods, seeds, sampled_steps, times)
    return begun


@partial(jax.jit, static_argnums=0)
def advanced(
    grid: Grid,
    oracle: Any,
    methods: Any,
    seeds: Array,
    sampled_steps: Array,
    times: Array,
    progress: Progress,
    stop: Array,
) -> Progress:
    """All runs at step `stop`, recorded at every one of `times` (increasing) up to there."""

    def program(
        oracle: Any, methods: Any, seeds: Array, sampled_steps: Array, times: Array, progress: Progress, stop: Array
    ) -> Progress:
        block = block_size(oracle.objective.start.shape[-1])
        step_all = grid.over_runs(transition, (0, 0, None, None, None), (None, 0, 0, None, 0))
        snapshot_all = grid.over_runs(snapshot, (0, None), (0, None))
        draw_all = jax.vmap(_draw, (0 if grid.oracle_per_seed else None, 0, None))

        def through_block(progress: Progress) -> Progress:
            first, end = progress.k, jnp.minimum(progress.k + block, stop)
            noise = jax.vmap(draw_all, (None, None, 0))(oracle, seeds, first + 1 + jnp.arange(block))

            def one_step(i: Array, states: State) -> State:
                now = jax.tree.map(lambda a: a[i], noise)
                moved: State = step_all(oracle, methods, states, now, first + 1 + i, sampled_steps)
                return moved

            def to_next_record(progress: Progress) -> Progress:
                k = jnp.minimum(end, times[progress.recorded])
                states = lax.fori_loop(progress.k - first, k - first, one_step, progress.states)
                due = k == times[progress.recorded]

                def record(snapshots: Snapshot) -> Snapshot:
                    row = snapshot_all(oracle, states, k)
                    return Snapshot(*(a.at[progress.recorded].set(b) for a, b in zip(snapshots, row, strict=True)))

                snapshots = lax.cond(due, record, lambda unchanged: unchanged, progress.snapshots)
                return Progress(states, snapshots, k, progress.recorded + due)

            return lax.while_loop(lambda progress: progress.k < end, to_next_record, progress)

        return lax.while_loop(lambda progress: progress.k < stop, through_block, progress)

    mapped = grid.compiled(program, grid.progress, PartitionSpec())
    later: Progress = mapped(oracle, methods, seeds, sampled_steps, times, progress, stop)
    return later


def _draw(oracle: Oracle, seed: Array, k: Array) -> Any:
    # Threefry is a cipher: the pair is as good a key as any; hashing it into one would double the price of small draws.
    pair = jnp.stack([seed, k.astype(seed.dtype)])
    return oracle.draw(jax.random.wrap_key_data(pair, impl="threefry2x32"))


def block_size(dim: int) -> int:
    """Steps whose noise is drawn at once: enough to pay for the call, few enough to stay in the cache."""
    return max(1, min(256, 4096 // (dim + 1)))
