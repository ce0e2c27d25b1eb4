"""Some runs of a sweep, simulated together from their first step to their last: a task of a long job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gladstorm.core.parts import describe, in_float64
from gladstorm.jobs import interrupts
from gladstorm.jobs.progress import tell
from gladstorm.methods import Method
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation import devices, engine, layout
from gladstorm.simulation import programs as kept_programs
from gladstorm.simulation.configurations import Configured
from gladstorm.simulation.layout import Piece, Work, lay_out
from gladstorm.simulation.one_run import Snapshot, State
from gladstorm.simulation.record import CURVES, Record

CALL_SECONDS = 0.25  # how long one call of the compiled program should take: the grain of progress and of Ctrl-C
NEVER = 2**62  # a record time no run reaches
COUNTS = ("sfo", "max_batch")  # curves that never fall
LEAST_CAPACITY = 4096  # record times of a program, unless fewer are asked for


class Recording(NamedTuple):
    """Which of so many steps are recorded, and how many record times a program has room for."""

    steps: int
    records: int = 100

    @property
    def times(self) -> np.ndarray:
        """The recorded steps."""
        return record_times(self.steps, self.records)

    @property
    def most(self) -> int:
        """How many there are at most."""
        return min(self.steps, 2 * self.records) + 1

    @property
    def capacity(self) -> int:
        """How many record times a program has room for: of few steps, not as many as were asked for.

        The same for all short runs, so that their number of steps does not change the program.

        >>> [Recording(*each).capacity for each in [(10, 100), (10**6, 100), (1000, 10**8)]]
        [202, 202, 4096]
        """
        return min(2 * self.records + 2, max(LEAST_CAPACITY, 1 << (self.steps + 1).bit_length()))


def record_times(steps: int, records: int) -> np.ndarray:
    """The steps to record: all of few; of many, `records` evenly and `records` geometrically spaced ones and both ends.

    >>> record_times(1000, 5).tolist()
    [0, 1, 6, 32, 178, 200, 400, 600, 800, 1000]
    """
    if steps <= 2 * records:
        return np.arange(steps + 1)
    return np.unique(np.rint([*np.linspace(0, steps, records + 1), *np.geomspace(1, steps, records)]).astype(np.int64))


def sampled_steps(seeds: Sequence[int], steps: int) -> np.ndarray:
    """The step of x̂, for each seed: uniform on 0..K."""
    return np.array([np.random.default_rng(seed).integers(steps + 1) for seed in seeds])


class CutShort(KeyboardInterrupt):
    """An interrupt while runs were simulated; `record` has them up to the last step that was recorded."""

    def __init__(self, runs: Runs, record: Record) -> None:
        super().__init__()
        self.runs, self.record = runs, record


@dataclass(frozen=True, eq=False)
class Runs:
    """Configurations × seeds. Calling it simulates them, on the devices this process may use."""

    oracles: Sequence[Oracle]  # one for all, or one for each seed
    configured: tuple[Configured, ...]
    seeds: tuple[int, ...]
    shaped_for: int  # as many seeds as the largest task of this kind has: tasks of one kind share a program
    recording: Recording

    def identity(self, oracles: Any) -> dict[str, Any]:
        """What decides the result, JSON-ready, given a description of the oracles. Names of methods do not."""
        return {
            "oracles": oracles,
            "methods": [describe(method) for _, method in self.configured],
            "seeds": list(self.seeds),
            "recording": list(self.recording),
        }

    @property
    def weight(self) -> int:
        """Steps of all runs: the unit of progress."""
        return max(1, self.recording.steps) * len(self.configured) * len(self.seeds)

    def __call__(self) -> Record:
        """The record of the runs; `CutShort` has what there is of them when an interrupt comes."""
        oracles = list(self.oracles)
        available = devices.available()
        programs = lay_out(self.work(oracles[0], len(available)), layout.MEASURED)
        arrays = Arrays(len(self.configured), len(self.seeds))
        count = sum(len(program.pieces) for program in programs)
        begun = 0
        with jax.enable_x64(True):
            for program in programs:
                rows = [row for stack in program.stacks for row in stack]
                stacks = tuple(_stack([self.configured[row].method for row in stack]) for stack in program.stacks)
                first = 0
                for piece in program.pieces:
                    simulation = _Simulation(piece, stacks, oracles, self.seeds, self.recording, available)
                    try:
                        for share in simulation.advance():
                            tell(self.weight * (begun + share) / count)
                    except KeyboardInterrupt as interrupt:
                        arrays.place(rows, first, simulation.found())
                        raise CutShort(self, self.recorded(arrays)) from interrupt
                    arrays.place(rows, first, simulation.found())
                    first, begun = first + piece.seeds, begun + 1
        return self.recorded(arrays)

    def work(self, oracle: Oracle, devices: int) -> Work:
        """What is to be laid out over so many devices."""
        return Work(
            structures=[jax.tree.structure(method) for _, method in self.configured],
            seeds=len(self.seeds),
            devices=devices,
            oracle_bytes=sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(oracle)),
            oracle_per_seed=len(self.oracles) > 1,
            shaped_for=self.shaped_for,
        )

    def recorded(self, arrays: Arrays) -> Record:
        """The arrays with what they are about. What they were asked of is known to who asked."""
        return Record(
            configurations=tuple(configuration for configuration, _ in self.configured),
            seeds=np.array(self.seeds, np.int64),
            steps=self.recording.times,
            sampled_step=sampled_steps(self.seeds, self.recording.steps),
            config={"methods": {each.label: describe(method) for each, method in self.configured}, "f_inf": None},
            **arrays.all,
        )


class Arrays:
    """Arrays over (configuration, seed, …), filled as runs finish. What is not simulated yet is not a number."""

    def __init__(self, configurations: int, seeds: int) -> None:
        self._shape = configurations, seeds
        self.all: dict[str, np.ndarray] = {}

    def place(self, rows: Sequence[int], first: int, found: Mapping[str, np.ndarray]) -> None:
        """Put what was found of some configurations, from the seed at `first` on, into its place."""
        for name, array in found.items():
            if name not in self.all:
                blank = np.nan if array.dtype.kind == "f" else _NOT_YET.get(name, 0)
                self.all[name] = np.full((*self._shape, *array.shape[2:]), blank, array.dtype)
            count = min(array.shape[1], self._shape[1] - first)  # a last piece may repeat the first seeds
            self.all[name][list(rows), first : first + count] = array[:, :count]


_NOT_YET = {"reached": -1, "diverged": -1}


class _Simulation:
    """One piece of a program, which can be interrupted between two calls of it."""

    def __init__(
        self,
        piece: Piece,
        stacks: tuple[Method, ...],
        oracles: Sequence[Oracle],
        seeds: Sequence[int],
        recording: Recording,
        available: Sequence[Any],
    ) -> None:
        self._piece, self._recording = piece, recording
        mesh = Mesh(np.array(available[: piece.devices]), ("run",))
        self._grid = engine.Grid(mesh, piece.cut, oracle_per_seed=len(oracles) > 1)
        self._fleet = jax.tree.map(
            lambda placement, argument: jax.device_put(argument, NamedSharding(mesh, placement)),
            self._grid.fleet,
            _fleet(piece, stacks, oracles, seeds, recording),
            is_leaf=lambda node: isinstance(node, PartitionSpec),
        )
        self._stride = engine.block_size(oracles[0].objective.start.size)
        engine.make_room()
        self._so_far = kept_programs.call(engine.started, self._grid, self._fleet)

    def advance(self) -> Iterator[float]:
        """Run to the last step; now and then yield the share that is done."""
        k, steps, stride = 0, self._recording.steps, self._stride
        while k < steps:
            interrupts.check()
            begun = time.monotonic()
            k = min(k + stride, steps)
            later = kept_programs.call(engine.advanced, self._grid, self._fleet, self._so_far, np.int64(k))
            self._so_far = jax.block_until_ready(later)
            yield k / steps
            if time.monotonic() - begun < CALL_SECONDS:
                stride *= 2

    def found(self) -> dict[str, np.ndarray]:
        """What there is of the runs, stack after stack, padding aside: up to the last record time that was reached."""
        sizes = [len(set(rows)) for rows in self._piece.method_rows]
        recorded = int(self._so_far.recorded)
        stacks = [
            self._unpad(states, snapshots, size, recorded)
            for states, snapshots, size in zip(self._so_far.states, self._so_far.snapshots, sizes, strict=True)
        ]
        return {name: np.concatenate([each[name] for each in stacks]) for name in stacks[0]}

    def _unpad(self, states: State, snapshots: Snapshot, configurations: int, recorded: int) -> dict[str, np.ndarray]:
        seeds, times = self._piece.seeds, self._recording.times
        runs = jax.tree.map(lambda a: np.moveaxis(np.asarray(a)[:seeds, :configurations], 1, 0), states)
        curves = jax.tree.map(
            lambda a: np.asarray(a)[: times.size, :seeds, :configurations].transpose(2, 1, 0), snapshots
        )
        arrays: dict[str, np.ndarray] = curves._asdict()
        arrays |= {"diverged": runs.diverged, "last": runs.point.x, "sampled": runs.sampled, "reported": runs.average}
        if isinstance(runs.average, tuple):  # a method without an average reports its iterates
            same = {"reported": "last", "reported_grad_norm": "grad_norm", "reported_value": "value"}
            arrays |= {name: arrays[iterates] for name, iterates in same.items()}
        if recorded < times.size:
            there = np.arange(times.size) < recorded
            arrays |= {name: np.where(there, arrays[name], _blank(arrays[name])) for name in CURVES}
        arrays["reached"] = np.full(runs.diverged.shape, times[recorded - 1], np.int64)
        return _marked(arrays, times[:recorded])


def _blank(array: np.ndarray) -> float | int:
    return np.nan if array.dtype.kind == "f" else 0


def _stack(methods: list[Method]) -> Method:
    """Methods of one structure as one, whose numbers are arrays."""
    stack: Method = jax.tree.map(lambda *numbers: np.array(numbers), *methods)
    return stack


def _fleet(
    piece: Piece, stacks: tuple[Method, ...], oracles: Sequence[Oracle], seeds: Sequence[int], recording: Recording
) -> engine.Fleet:
    """What the runs of a piece are given, padding included."""
    own = [seeds[row] for row in piece.seed_rows]
    oracle = in_float64(oracles[0])
    if len(oracles) > 1:
        oracle = jax.tree.map(
            lambda *numbers: np.stack(numbers), *(in_float64(oracles[row]) for row in piece.seed_rows)
        )
    times = np.full(recording.capacity, NEVER)
    times[: recording.times.size] = recording.times
    padded = (
        jax.tree.map(lambda column, rows=list(rows): column[rows], stack)
        for stack, rows in zip(stacks, piece.method_rows, strict=True)
    )
    sampled, horizon = sampled_steps(own, recording.steps), np.int64(recording.steps)
    return engine.Fleet(oracle, tuple(padded), np.array(own, np.uint32), sampled, times, horizon)


def _marked(arrays: dict[str, np.ndarray], times: np.ndarray) -> dict[str, np.ndarray]:
    """From where a run has diverged on its numbers are not finite, even if ∇f is 0 that far out.

    That is where the engine saw it, or the first recorded step at which f is not finite, whichever comes first.
    """
    seen = arrays["diverged"]
    lost = np.logical_or.accumulate(~np.isfinite(arrays["value"][..., : times.size]), axis=-1)
    lost |= (seen[..., None] >= 0) & (times >= seen[..., None])
    if not lost.any():
        return arrays
    marked = {name: array.copy() for name, array in arrays.items()}
    first = times[lost.argmax(axis=-1)]
    earlier = lost[..., -1] & ((seen < 0) | (first < seen))
    marked["diverged"][earlier] = first[earlier]
    for name in CURVES:
        curve = marked[name][..., : times.size]
        if name in COUNTS:  # as where the engine saw it, a run that has diverged draws no more samples
            before = np.where(lost, 0, curve).max(axis=-1, keepdims=True)
            curve[...] = np.where(lost & earlier[..., None], before, curve)
        else:
            curve[...] = np.where(lost, _blank(curve), curve)
    return marked
