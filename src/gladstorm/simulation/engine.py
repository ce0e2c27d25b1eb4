"""The compiled program behind `run` and `sweep`: many runs, advanced together.

Runs form a grid, seeds × configurations. Configurations of one structure are a stack, a method whose numbers are
arrays; a program may advance several stacks, and computes the gradients of all their runs as one. Randomness is drawn
for a block of steps at once outside the inner loop. Step counts and record times are values, so no number recompiles
anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from enum import Enum
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from gladstorm.core.parts import Array
from gladstorm.simulation.one_run import Snapshot, State, arrive, begin, draw, draw_more, move, report, snapshot

MOST_PROGRAMS = 48  # shapes of problem and methods whose programs are kept, of some 15 MB each
RUN_ONCE = {"xla_backend_optimization_level": 0}  # a program that takes one step is not worth optimizing: half a second


class ChunkInputs(NamedTuple):
    """Inputs of the runs that are advanced together."""

    oracle: Any  # one for all, or its arrays have a leading axis over seeds
    stacks: tuple[Any, ...]  # methods whose numbers are arrays over configurations
    seeds: Array | np.ndarray  # NumPy's until they are placed on the devices
    sampled_steps: Array | np.ndarray  # for each seed
    times: Array | np.ndarray  # the steps to record, increasing
    horizon: Array | np.integer  # K, the number of steps of every run


class ChunkState(NamedTuple):
    """State of the runs of a chunk at step k, and what has been recorded of them."""

    states: tuple[State, ...]  # of each stack: arrays over (seed, configuration)
    snapshots: tuple[Snapshot[Array], ...]  # of each stack: arrays over (record time, seed, configuration)
    k: Array
    recorded: Array  # how many record times have passed


class Axes(Enum):
    """The axes over which an argument of a function of one run is vmapped."""

    NONE = ()
    SEEDS = ("seed",)
    CONFIGURATIONS = ("configuration",)
    RUNS = ("seed", "configuration")
    ORACLES = ("oracle",)  # seeds, if each has an oracle of its own


class Grid(NamedTuple):
    """How the runs lie: the devices, which axis the devices share, one oracle for all or one per seed."""

    mesh: Mesh
    cut: Literal["seeds", "configurations"]
    oracle_per_seed: bool

    @property
    def input_specs(self) -> ChunkInputs:
        """Placement of the inputs on the devices."""
        everywhere, cut = PartitionSpec(), PartitionSpec("run")
        seeds, configurations = (cut, everywhere) if self.cut == "seeds" else (everywhere, cut)
        oracle = seeds if self.oracle_per_seed else everywhere
        return ChunkInputs(oracle, configurations, seeds, seeds, everywhere, everywhere)  # type: ignore[arg-type]  # a spec for all stacks

    @property
    def state_specs(self) -> ChunkState:
        """Placement of the state on the devices."""
        runs = ("run",) if self.cut == "seeds" else (None, "run")
        states, snapshots, everywhere = PartitionSpec(*runs), PartitionSpec(None, *runs), PartitionSpec()
        return ChunkState(states, snapshots, everywhere, everywhere)  # type: ignore[arg-type]  # likewise

    def on_devices(self, program: Any, *specs: Any) -> Any:
        """The program on every device at once, each on its own runs; none waits for another."""
        return jax.shard_map(program, mesh=self.mesh, in_specs=specs, out_specs=self.state_specs, check_vma=False)

    def over_runs(self, function: Any, *axes: Axes) -> Any:
        """A function of one run as one of all runs of a stack, given the axes of each of its arguments."""
        return jax.vmap(jax.vmap(function, self._in_axes("configuration", axes)), self._in_axes("seed", axes))

    def over_seeds(self, function: Any, *axes: Axes) -> Any:
        """A function of one run as one of all seeds, for what configurations share."""
        return jax.vmap(function, self._in_axes("seed", axes))

    def _in_axes(self, name: str, axes: Iterable[Axes]) -> tuple[int | None, ...]:
        names = {"seed", "oracle"} if name == "seed" and self.oracle_per_seed else {name}
        return tuple(0 if names & set(argument.value) else None for argument in axes)


@partial(jax.jit, static_argnums=0, compiler_options=RUN_ONCE)
def start(grid: Grid, inputs: ChunkInputs) -> ChunkState:
    """All runs at step 0, which is recorded."""

    def program(inputs: ChunkInputs) -> ChunkState:
        begin_all = grid.over_runs(begin, Axes.ORACLES, Axes.CONFIGURATIONS, Axes.SEEDS, Axes.SEEDS, Axes.NONE)
        given = inputs.seeds, inputs.sampled_steps, inputs.horizon
        states = tuple(begin_all(inputs.oracle, stack, *given) for stack in inputs.stacks)
        zero = jnp.zeros((), int)
        first = _snapshots(grid, inputs, states, zero)
        snapshots = jax.tree.map(lambda a: jnp.zeros((inputs.times.size, *a.shape), a.dtype).at[0].set(a), first)
        return ChunkState(states, snapshots, zero, zero + 1)

    state: ChunkState = grid.on_devices(program, grid.input_specs)(inputs)
    return state


@partial(jax.jit, static_argnums=0)
def advance(grid: Grid, inputs: ChunkInputs, state: ChunkState, stop: Array) -> ChunkState:
    """All runs at step `stop`, recorded at every record time up to there."""

    def program(inputs: ChunkInputs, state: ChunkState, stop: Array) -> ChunkState:
        return lax.while_loop(
            lambda state: state.k < stop, lambda state: _advance_block(grid, inputs, state, stop), state
        )

    result: ChunkState = grid.on_devices(program, grid.input_specs, grid.state_specs, PartitionSpec())(
        inputs, state, stop
    )
    return result


def limit_programs() -> None:
    """Forget every compiled program once there are too many: each holds megabytes, and JAX keeps them for good."""
    cached: list[Any] = [advance, start, begin, move, arrive, report, snapshot, draw, draw_more]
    if cached[0]._cache_size() >= MOST_PROGRAMS:
        for function in cached:
            function.clear_cache()


def block_size(dim: int) -> int:
    """Steps whose noise is drawn at once: enough to pay for the call, few enough to stay in the cache."""
    return max(1, min(256, 4096 // (dim + 1)))


class _Noise(NamedTuple):
    """The randomness of the steps that follow `first`, a row each."""

    first: Array
    common: Any  # what every method draws
    more: tuple[Any, ...]  # what the method of each stack draws beyond it


def _advance_block(grid: Grid, inputs: ChunkInputs, state: ChunkState, stop: Array) -> ChunkState:
    """Advance as many steps as have their noise drawn at once, or to `stop`."""
    block = block_size(inputs.oracle.objective.start.shape[-1])
    steps = state.k + 1 + jnp.arange(block)
    draw_all = grid.over_seeds(draw, Axes.ORACLES, Axes.SEEDS, Axes.NONE)
    more_all = grid.over_seeds(draw_more, Axes.ORACLES, Axes.NONE, Axes.SEEDS, Axes.NONE)
    common = jax.vmap(lambda k: draw_all(inputs.oracle, inputs.seeds, k))(steps)
    more = (
        jax.vmap(lambda k, stack=stack: more_all(inputs.oracle, stack, inputs.seeds, k))(steps)
        for stack in inputs.stacks
    )
    noise = _Noise(state.k, common, tuple(more))
    end = jnp.minimum(state.k + block, stop)
    return lax.while_loop(
        lambda state: state.k < end, lambda state: _advance_to_record(grid, inputs, state, noise, end), state
    )


def _advance_to_record(grid: Grid, inputs: ChunkInputs, state: ChunkState, noise: _Noise, end: Array) -> ChunkState:
    """Advance to the next record time, which is recorded, or to `end`."""
    time = inputs.times[state.recorded]
    k = jnp.minimum(end, time)

    def one_step(i: Array, states: tuple[State, ...]) -> tuple[State, ...]:
        return _step(grid, inputs, states, noise, noise.first + 1 + i)

    states = lax.fori_loop(state.k - noise.first, k - noise.first, one_step, state.states)

    def record(snapshots: tuple[Snapshot[Array], ...]) -> Any:
        rows = _snapshots(grid, inputs, states, k)
        return jax.tree.map(lambda a, row: a.at[state.recorded].set(row), snapshots, rows)

    snapshots = lax.cond(k == time, record, lambda unchanged: unchanged, state.snapshots)
    return ChunkState(states, snapshots, k, state.recorded + (k == time))


def _step(grid: Grid, inputs: ChunkInputs, states: tuple[State, ...], noise: _Noise, k: Array) -> tuple[State, ...]:
    """Step k of all runs: each moves, all points are evaluated together, each arrives."""
    oracle, stacks = inputs.oracle, inputs.stacks
    common, more = jax.tree.map(lambda rows: rows[k - 1 - noise.first], (noise.common, noise.more))
    move_all = grid.over_runs(move, Axes.ORACLES, Axes.CONFIGURATIONS, Axes.RUNS, Axes.NONE, Axes.NONE)
    moves = [move_all(oracle, stack, state, k, inputs.horizon) for stack, state in zip(stacks, states, strict=True)]
    # One product with the columns of all stacks: with few columns each, it costs little more than theirs.
    points = _evaluate_together(grid, lambda oracle, x: oracle.at(x), oracle, [x for x, _ in moves])
    arrive_all = grid.over_runs(
        arrive,
        Axes.ORACLES,
        Axes.CONFIGURATIONS,  # the stack
        Axes.RUNS,  # its states
        Axes.RUNS,  # what its steps remember
        Axes.RUNS,  # the points
        Axes.SEEDS,  # common noise
        Axes.SEEDS,  # the estimator's own
        Axes.NONE,  # k
        Axes.SEEDS,  # sampled steps
        Axes.NONE,  # K
    )
    return tuple(
        arrive_all(oracle, stack, state, memory, point, common, further, k, inputs.sampled_steps, inputs.horizon)
        for stack, state, (_, memory), point, further in zip(stacks, states, moves, points, more, strict=True)
    )


def _snapshots(grid: Grid, inputs: ChunkInputs, states: tuple[State, ...], k: Array) -> tuple[Snapshot[Array], ...]:
    """Snapshots of all runs of all stacks at step k."""
    xs = [state.point.x for state in states]
    values = _evaluate_together(grid, lambda oracle, x: oracle.objective.value(x), inputs.oracle, xs)
    report_all = grid.over_runs(report, Axes.ORACLES, Axes.RUNS)
    reported = [
        ((), ()) if stack.average is None else report_all(inputs.oracle, state)
        for stack, state in zip(inputs.stacks, states, strict=True)
    ]
    snapshot_all = grid.over_runs(
        snapshot, Axes.ORACLES, Axes.CONFIGURATIONS, Axes.RUNS, Axes.RUNS, Axes.RUNS, Axes.NONE
    )
    given = zip(inputs.stacks, states, values, reported, strict=True)
    return tuple(snapshot_all(inputs.oracle, *arguments, k) for arguments in given)


def _evaluate_together(grid: Grid, function: Any, oracle: Any, stacks: list[Array]) -> list[Any]:
    """A function of the oracle and x at the points of all stacks, arrays over (seed, configuration, entry), as one."""
    joined = grid.over_runs(function, Axes.ORACLES, Axes.RUNS)(oracle, jnp.concatenate(stacks, axis=1))
    leaves, structure = jax.tree.flatten(joined)
    ends = list(itertools.accumulate(x.shape[1] for x in stacks))[:-1]
    parts = zip(*(jnp.split(leaf, ends, axis=1) for leaf in leaves), strict=True)
    return [jax.tree.unflatten(structure, part) for part in parts]
