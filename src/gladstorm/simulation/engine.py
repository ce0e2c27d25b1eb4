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


class Fleet(NamedTuple):
    """What all runs of a program are given and keep."""

    oracle: Any  # one for all, or its arrays have a leading axis over seeds
    stacks: tuple[Any, ...]  # methods whose numbers are arrays over configurations
    seeds: Array | np.ndarray  # NumPy's until they are placed on the devices
    sampled_steps: Array | np.ndarray  # for each seed
    times: Array | np.ndarray  # the steps to record, increasing
    horizon: Array | np.integer  # K, the number of steps of every run


class FleetState(NamedTuple):
    """All runs of the program, and what has been recorded of them."""

    states: tuple[State, ...]  # of each stack: arrays over (seed, configuration)
    snapshots: tuple[Snapshot, ...]  # of each stack: arrays over (record time, seed, configuration)
    k: Array
    recorded: Array  # how many record times have passed


class Over(Enum):
    """What an argument of a function of one run differs over."""

    NOTHING = ()
    SEEDS = ("seed",)
    CONFIGURATIONS = ("configuration",)
    RUNS = ("seed", "configuration")
    ORACLES = ("oracle",)  # over seeds, if each has an oracle of its own


class Grid(NamedTuple):
    """How the runs lie: the devices, which axis is cut into a piece for each, one oracle for all or one per seed."""

    mesh: Mesh
    cut: Literal["seeds", "configurations"]
    oracle_per_seed: bool

    @property
    def fleet(self) -> Fleet:
        """Where a Fleet is placed."""
        everywhere, cut = PartitionSpec(), PartitionSpec("run")
        seeds, configurations = (cut, everywhere) if self.cut == "seeds" else (everywhere, cut)
        oracle = seeds if self.oracle_per_seed else everywhere
        return Fleet(oracle, configurations, seeds, seeds, everywhere, everywhere)  # type: ignore[arg-type]  # a spec for all stacks

    @property
    def fleet_state(self) -> FleetState:
        """Where a FleetState is placed."""
        runs = ("run",) if self.cut == "seeds" else (None, "run")
        states, snapshots, everywhere = PartitionSpec(*runs), PartitionSpec(None, *runs), PartitionSpec()
        return FleetState(states, snapshots, everywhere, everywhere)  # type: ignore[arg-type]  # likewise

    def on_devices(self, program: Any, *placements: Any) -> Any:
        """The program on every device at once, each on its own runs; none waits for another."""
        return jax.shard_map(program, mesh=self.mesh, in_specs=placements, out_specs=self.fleet_state, check_vma=False)

    def over_runs(self, function: Any, *varies: Over) -> Any:
        """A function of one run as one of all runs of a stack, given what each of its arguments differs over."""
        return jax.vmap(jax.vmap(function, self._axes("configuration", varies)), self._axes("seed", varies))

    def over_seeds(self, function: Any, *varies: Over) -> Any:
        """A function of one run as one of all seeds, for what configurations share."""
        return jax.vmap(function, self._axes("seed", varies))

    def _axes(self, axis: str, varies: Iterable[Over]) -> tuple[int | None, ...]:
        names = {"seed", "oracle"} if axis == "seed" and self.oracle_per_seed else {axis}
        return tuple(0 if names & set(each.value) else None for each in varies)


@partial(jax.jit, static_argnums=0, compiler_options=RUN_ONCE)
def started(grid: Grid, fleet: Fleet) -> FleetState:
    """All runs at step 0, which is recorded."""

    def program(fleet: Fleet) -> FleetState:
        begin_all = grid.over_runs(begin, Over.ORACLES, Over.CONFIGURATIONS, Over.SEEDS, Over.SEEDS, Over.NOTHING)
        given = fleet.seeds, fleet.sampled_steps, fleet.horizon
        states = tuple(begin_all(fleet.oracle, stack, *given) for stack in fleet.stacks)
        zero = jnp.zeros((), int)
        first = _snapshots(grid, fleet, states, zero)
        room = jax.tree.map(lambda a: jnp.zeros((fleet.times.size, *a.shape), a.dtype).at[0].set(a), first)
        return FleetState(states, room, zero, zero + 1)

    begun: FleetState = grid.on_devices(program, grid.fleet)(fleet)
    return begun


@partial(jax.jit, static_argnums=0)
def advanced(grid: Grid, fleet: Fleet, so_far: FleetState, stop: Array) -> FleetState:
    """All runs at step `stop`, recorded at every record time up to there."""

    def program(fleet: Fleet, so_far: FleetState, stop: Array) -> FleetState:
        return lax.while_loop(
            lambda so_far: so_far.k < stop, lambda so_far: _through_block(grid, fleet, so_far, stop), so_far
        )

    later: FleetState = grid.on_devices(program, grid.fleet, grid.fleet_state, PartitionSpec())(fleet, so_far, stop)
    return later


def make_room() -> None:
    """Forget every compiled program once there are too many: each holds megabytes, and JAX keeps them for good."""
    cached: list[Any] = [advanced, started, begin, move, arrive, report, snapshot, draw, draw_more]
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
    own: tuple[Any, ...]  # what the estimator of each stack draws beyond it

    def of(self, k: Array) -> tuple[Any, tuple[Any, ...]]:
        """What step k draws."""
        row = k - 1 - self.first
        now: tuple[Any, tuple[Any, ...]] = jax.tree.map(lambda rows: rows[row], (self.common, self.own))
        return now


def _through_block(grid: Grid, fleet: Fleet, so_far: FleetState, stop: Array) -> FleetState:
    """As many steps as have their noise drawn at once, or to `stop`."""
    block = block_size(fleet.oracle.objective.start.shape[-1])
    noise = _draw(grid, fleet, so_far.k, block)
    end = jnp.minimum(so_far.k + block, stop)
    return lax.while_loop(
        lambda so_far: so_far.k < end, lambda so_far: _to_next_record(grid, fleet, so_far, noise, end), so_far
    )


def _draw(grid: Grid, fleet: Fleet, first: Array, block: int) -> _Noise:
    steps = first + 1 + jnp.arange(block)
    draw_all = grid.over_seeds(draw, Over.ORACLES, Over.SEEDS, Over.NOTHING)
    more_all = grid.over_seeds(draw_more, Over.ORACLES, Over.NOTHING, Over.SEEDS, Over.NOTHING)
    common = jax.vmap(lambda k: draw_all(fleet.oracle, fleet.seeds, k))(steps)
    own = (
        jax.vmap(lambda k, each=stack: more_all(fleet.oracle, each.estimator, fleet.seeds, k))(steps)
        for stack in fleet.stacks
    )
    return _Noise(first, common, tuple(own))


def _to_next_record(grid: Grid, fleet: Fleet, so_far: FleetState, noise: _Noise, end: Array) -> FleetState:
    """Steps up to the next record time, which is recorded, or to `end`."""
    time = fleet.times[so_far.recorded]
    k = jnp.minimum(end, time)

    def one_step(i: Array, states: tuple[State, ...]) -> tuple[State, ...]:
        return _step(grid, fleet, states, noise, noise.first + 1 + i)

    states = lax.fori_loop(so_far.k - noise.first, k - noise.first, one_step, so_far.states)

    def record(snapshots: tuple[Snapshot, ...]) -> Any:
        rows = _snapshots(grid, fleet, states, k)
        return jax.tree.map(lambda a, row: a.at[so_far.recorded].set(row), snapshots, rows)

    snapshots = lax.cond(k == time, record, lambda unchanged: unchanged, so_far.snapshots)
    return FleetState(states, snapshots, k, so_far.recorded + (k == time))


def _step(grid: Grid, fleet: Fleet, states: tuple[State, ...], noise: _Noise, k: Array) -> tuple[State, ...]:
    """Step k of all runs: each moves, all points are looked at together, each arrives."""
    oracle, now = fleet.oracle, noise.of(k)
    common, own = now
    move_all = grid.over_runs(move, Over.ORACLES, Over.CONFIGURATIONS, Over.RUNS, Over.NOTHING, Over.NOTHING)
    moved = [
        move_all(oracle, stack, state, k, fleet.horizon) for stack, state in zip(fleet.stacks, states, strict=True)
    ]
    # One product with the columns of all stacks: with few columns each, it costs little more than theirs.
    look_all = grid.over_runs(lambda oracle, x: oracle.at(x), Over.ORACLES, Over.RUNS)
    points = _apart(look_all(oracle, _side_by_side(x for x, _ in moved)), _sizes(states))
    arrive_all = grid.over_runs(
        arrive,
        Over.ORACLES,
        Over.CONFIGURATIONS,  # the stack
        Over.RUNS,  # its states
        Over.RUNS,  # what its steps remember
        Over.RUNS,  # the points
        Over.SEEDS,  # common noise
        Over.SEEDS,  # the estimator's own
        Over.NOTHING,  # k
        Over.SEEDS,  # sampled steps
        Over.NOTHING,  # K
    )
    return tuple(
        arrive_all(oracle, stack, state, memory, point, common, more, k, fleet.sampled_steps, fleet.horizon)
        for stack, state, (_, memory), point, more in zip(fleet.stacks, states, moved, points, own, strict=True)
    )


def _snapshots(grid: Grid, fleet: Fleet, states: tuple[State, ...], k: Array) -> tuple[Snapshot, ...]:
    """What is recorded of all runs of all stacks at step k."""
    value_all = grid.over_runs(lambda oracle, x: oracle.objective.value(x), Over.ORACLES, Over.RUNS)
    values = _apart(value_all(fleet.oracle, _side_by_side(state.point.x for state in states)), _sizes(states))
    report_all = grid.over_runs(report, Over.ORACLES, Over.RUNS)
    reported = [
        ((), ()) if stack.average is None else report_all(fleet.oracle, state)
        for stack, state in zip(fleet.stacks, states, strict=True)
    ]
    snapshot_all = grid.over_runs(
        snapshot, Over.ORACLES, Over.CONFIGURATIONS, Over.RUNS, Over.RUNS, Over.RUNS, Over.NOTHING
    )
    given = zip(fleet.stacks, states, values, reported, strict=True)
    return tuple(snapshot_all(fleet.oracle, *each, k) for each in given)


def _side_by_side(stacks: Iterable[Any]) -> Any:
    """Arrays over (seed, configuration, …) of several stacks as one."""
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays, axis=1), *stacks)


def _sizes(states: tuple[State, ...]) -> list[int]:
    return [state.diverged.shape[1] for state in states]


def _apart(joined: Any, sizes: list[int]) -> list[Any]:
    """The stacks that `_side_by_side` joined."""
    leaves, structure = jax.tree.flatten(joined)
    ends = list(itertools.accumulate(sizes))[:-1]
    parts = zip(*(jnp.split(leaf, ends, axis=1) for leaf in leaves), strict=True)
    return [jax.tree.unflatten(structure, each) for each in parts]
