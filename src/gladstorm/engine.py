"""The compiled program behind `run` and `sweep`: many runs, advanced together.

Runs form a grid, seeds × configurations. Configurations of one structure are a stack, a method whose numbers are
arrays; a program may advance several stacks, and computes the gradients of all their runs as one. Randomness is drawn
for a block of steps at once outside the inner loop. Step counts and record times are values, so no number recompiles
anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from gladstorm.one_run import Snapshot, State, arrive, begin, draw, draw_more, move, snapshot
from gladstorm.parts import Array


class Progress(NamedTuple):
    """All runs of the program, and what has been recorded of them."""

    states: tuple[State, ...]  # of each stack
    snapshots: tuple[Snapshot, ...]  # leading axis: record times
    k: Array
    recorded: Array  # how many record times have passed


class Grid(NamedTuple):
    """How the runs lie: the devices, which axis is cut into a piece for each, one oracle for all or one per seed."""

    mesh: Mesh
    cut: Literal["seeds", "configurations"]
    oracle_per_seed: bool

    @property
    def placements(self) -> tuple[PartitionSpec, ...]:
        """Of the arguments every program starts with: oracle, stacks, seeds, sampled steps, record times."""
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
        """Map a function of (oracle, …) of one run over all runs of a stack, given the axes of the other arguments."""
        oracle = 0 if self.oracle_per_seed else None
        return jax.vmap(jax.vmap(function, (None, *configurations)), (oracle, *seeds))

    def snapshots(self, oracle: Any, stacks: Any, states: tuple[State, ...], k: Array) -> tuple[Snapshot, ...]:
        """What is recorded of all runs of all stacks at step k."""
        value_all = self.over_runs(lambda oracle, x: oracle.objective.value(x), (0,), (0,))
        values = _apart(value_all(oracle, _side_by_side(state.point.x for state in states)), _sizes(states))
        snapshot_all = self.over_runs(snapshot, (0, 0, 0, None), (None, 0, 0, None))
        return tuple(snapshot_all(oracle, *each, k) for each in zip(stacks, states, values, strict=True))


@partial(jax.jit, static_argnums=0)
def started(grid: Grid, oracle: Any, stacks: Any, seeds: Array, sampled_steps: Array, times: Array) -> Progress:
    """All runs at step 0, which is recorded."""

    def program(oracle: Any, stacks: Any, seeds: Array, sampled_steps: Array, times: Array) -> Progress:
        begin_all = grid.over_runs(begin, (0, None, None), (None, 0, 0))
        states = tuple(begin_all(oracle, stack, seeds, sampled_steps) for stack in stacks)
        zero = jnp.zeros((), int)
        first = grid.snapshots(oracle, stacks, states, zero)
        snapshots = jax.tree.map(lambda a: jnp.zeros((times.size, *a.shape), a.dtype).at[0].set(a), first)
        return Progress(states, snapshots, zero, zero + 1)

    begun: Progress = grid.compiled(program)(oracle, stacks, seeds, sampled_steps, times)
    return begun


@partial(jax.jit, static_argnums=0)
def advanced(
    grid: Grid,
    oracle: Any,
    stacks: Any,
    seeds: Array,
    sampled_steps: Array,
    times: Array,
    progress: Progress,
    stop: Array,
) -> Progress:
    """All runs at step `stop`, recorded at every one of `times` (increasing) up to there."""

    def program(
        oracle: Any, stacks: Any, seeds: Array, sampled_steps: Array, times: Array, progress: Progress, stop: Array
    ) -> Progress:
        block = block_size(oracle.objective.start.shape[-1])
        move_all = grid.over_runs(move, (0, 0, None), (None, 0, None))
        at_all = grid.over_runs(lambda oracle, x: oracle.at(x), (0,), (0,))
        arrive_all = grid.over_runs(arrive, (0, 0, 0, 0, None, None, None, None), (None, 0, 0, 0, 0, 0, None, 0))
        oracle_axis = 0 if grid.oracle_per_seed else None
        draw_all = jax.vmap(draw, (oracle_axis, 0, None))
        draw_more_all = jax.vmap(draw_more, (oracle_axis, None, 0, None))

        def through_block(progress: Progress) -> Progress:
            first, end = progress.k, jnp.minimum(progress.k + block, stop)
            ahead = first + 1 + jnp.arange(block)
            noise = jax.vmap(draw_all, (None, None, 0))(oracle, seeds, ahead)
            more = tuple(
                jax.vmap(draw_more_all, (None, None, None, 0))(oracle, stack.estimator, seeds, ahead)
                for stack in stacks
            )

            def one_step(i: Array, states: tuple[State, ...]) -> tuple[State, ...]:
                k = first + 1 + i
                now, own = jax.tree.map(lambda a: a[i], (noise, more))
                moved = [move_all(oracle, *each, k) for each in zip(stacks, states, strict=True)]
                # One product with the columns of all stacks: with few columns each, it costs little more than theirs.
                points = at_all(oracle, _side_by_side(x for x, _ in moved))
                each = _apart(points, _sizes(states))
                return tuple(
                    arrive_all(oracle, stack, state, memory, point, now, further, k, sampled_steps)
                    for stack, state, (_, memory), point, further in zip(stacks, states, moved, each, own, strict=True)
                )

            def to_next_record(progress: Progress) -> Progress:
                k = jnp.minimum(end, times[progress.recorded])
                states = lax.fori_loop(progress.k - first, k - first, one_step, progress.states)
                due = k == times[progress.recorded]

                def record(snapshots: tuple[Snapshot, ...]) -> tuple[Snapshot, ...]:
                    rows = grid.snapshots(oracle, stacks, states, k)
                    written: tuple[Snapshot, ...] = jax.tree.map(
                        lambda a, row: a.at[progress.recorded].set(row), snapshots, rows
                    )
                    return written

                snapshots = lax.cond(due, record, lambda unchanged: unchanged, progress.snapshots)
                return Progress(states, snapshots, k, progress.recorded + due)

            return lax.while_loop(lambda progress: progress.k < end, to_next_record, progress)

        return lax.while_loop(lambda progress: progress.k < stop, through_block, progress)

    mapped = grid.compiled(program, grid.progress, PartitionSpec())
    later: Progress = mapped(oracle, stacks, seeds, sampled_steps, times, progress, stop)
    return later


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


def block_size(dim: int) -> int:
    """Steps whose noise is drawn at once: enough to pay for the call, few enough to stay in the cache."""
    return max(1, min(256, 4096 // (dim + 1)))
