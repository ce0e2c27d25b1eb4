"""Some runs of a sweep, simulated together from their first step to their last: a task of a long job."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gladstorm.core.parts import describe, in_float64
from gladstorm.jobs import interrupts
from gladstorm.jobs.progress import report_progress
from gladstorm.methods import Method
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation import engine
from gladstorm.simulation.configurations import Configured
from gladstorm.simulation.layout import Chunk, Selection, Sizes, lay_out
from gladstorm.simulation.one_run import COUNTS, CUMULATIVE, CURVES, Snapshot, State, path_entries
from gladstorm.simulation.record import Record
from gladstorm.simulation.tables import MARKS, POINTS

CALL_SECONDS = 0.25  # how long one call of the compiled program should take: the grain of progress and of Ctrl-C
NEVER = 2**62  # a record time no run reaches
LEAST_CAPACITY = 4096  # record times of a program, unless fewer are asked for


class Recording(NamedTuple):
    """Steps of a run that are recorded, and how many record times a program has room for."""

    steps: int
    records: int = 100

    @property
    def times(self) -> np.ndarray:
        """The recorded steps."""
        return record_times(self.steps, self.records)

    @property
    def most(self) -> int:
        """Largest number of recorded steps."""
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
    """Runs of configurations × seeds. Calling it simulates them, on the devices this process may use."""

    oracles: Sequence[Oracle]  # one for all, or one for each seed
    oracle_bytes: int  # of one
    configured: tuple[Configured, ...]
    seeds: tuple[int, ...]
    padded_seeds: int  # as many seeds as the largest task of this kind has: tasks of one kind share a program
    recording: Recording

    def select(self, selection: Selection) -> Runs:
        """Some of the runs: those of one task."""
        first, last = selection.seeds.start, selection.seeds.stop
        return dataclasses.replace(
            self,
            oracles=self.oracles if len(self.oracles) == 1 else self.oracles[first:last],
            configured=tuple(self.configured[row] for row in selection.configurations),
            seeds=self.seeds[first:last],
            padded_seeds=selection.padded_seeds,
        )

    def identity(self, oracles: Any) -> dict[str, Any]:
        """Data that decides the result, JSON-ready, given a description of the oracles. Names of methods do not."""
        return {
            "oracles": oracles,
            "methods": [describe(configured.method) for configured in self.configured],
            "seeds": list(self.seeds),
            "recording": list(self.recording),
        }

    @property
    def weight(self) -> int:
        """Steps of all runs: the unit of progress."""
        return max(1, self.recording.steps) * len(self.configured) * len(self.seeds)

    def sizes(self, devices: int) -> Sizes:
        """Numbers that decide the layout of the runs over so many devices."""
        return Sizes(
            structures=tuple(configured.structure for configured in self.configured),
            seeds=len(self.seeds),
            devices=devices,
            oracle_bytes=self.oracle_bytes,
            oracle_per_seed=len(self.oracles) > 1,
            padded_seeds=self.padded_seeds,
        )

    def blank(self, dim: int, **config: Any) -> Record:
        """A record for these runs, of which none has begun; `config` says what else was run."""
        runs, times = (len(self.configured), len(self.seeds)), self.recording.times
        curves = {name: np.full((*runs, times.size), 0 if name in COUNTS else np.nan) for name in CURVES}
        return Record(
            configurations=tuple(configured.configuration for configured in self.configured),
            seeds=np.array(self.seeds, np.int64),
            steps=times,
            **curves,
            path=np.full((*runs, times.size, path_entries(dim)), np.nan),
            **{name: np.full(runs, -1) for name in MARKS},
            **{name: np.full((*runs, dim), np.nan) for name in POINTS},
            sampled_step=sampled_steps(self.seeds, self.recording.steps),
            config={"methods": {row.configuration.label: describe(row.method) for row in self.configured}} | config,
        )

    def __call__(self) -> Record:
        """The record of the runs; `CutShort` has what there is of them when an interrupt comes."""
        oracles, available = list(self.oracles), jax.local_devices()
        chunks = lay_out(self.sizes(len(available)))
        record = self.blank(np.size(oracles[0].objective.start), f_inf=None)
        stacked = cache(self._stack)
        with jax.enable_x64(True):
            for number, chunk in enumerate(chunks):
                inputs = self._inputs(chunk, tuple(map(stacked, chunk.stacks)), oracles)
                simulation = _Simulation(chunk, inputs, available, oracle_per_seed=len(oracles) > 1)
                try:
                    for k in simulation.advance(self.recording.steps):
                        report_progress(self.weight * (number + k / self.recording.steps) / len(chunks))
                except KeyboardInterrupt as interrupt:
                    simulation.write_to(record)
                    raise CutShort(self, record) from interrupt
                simulation.write_to(record)
        return record

    def _stack(self, rows: tuple[int, ...]) -> Method:
        """Configurations of one structure as one method, whose numbers are arrays."""
        methods = [self.configured[row].method for row in rows]
        stack: Method = jax.tree.map(lambda *numbers: np.array(numbers), *methods)
        return stack

    def _inputs(self, chunk: Chunk, stacks: tuple[Method, ...], oracles: Sequence[Oracle]) -> engine.ChunkInputs:
        seeds, recording = [self.seeds[row] for row in chunk.seeds], self.recording
        if len(oracles) > 1:
            exact = [in_float64(oracles[row]) for row in chunk.seeds]
            oracle = jax.tree.map(lambda *numbers: np.stack(numbers), *exact)
        else:
            oracle = in_float64(oracles[0])
        times = np.full(recording.capacity, NEVER)
        times[: recording.times.size] = recording.times
        sampled, horizon = sampled_steps(seeds, recording.steps), np.int64(recording.steps)
        return engine.ChunkInputs(oracle, stacks, np.array(seeds, np.uint32), sampled, times, horizon)


class _Simulation:
    """One chunk, which can be interrupted between two calls of its program."""

    def __init__(
        self, chunk: Chunk, inputs: engine.ChunkInputs, available: Sequence[Any], *, oracle_per_seed: bool
    ) -> None:
        self._chunk = chunk
        mesh = Mesh(np.array(available[: chunk.devices]), ("run",))
        self._grid = engine.Grid(mesh, chunk.cut, oracle_per_seed)
        self._inputs = jax.tree.map(
            lambda spec, argument: jax.device_put(argument, NamedSharding(mesh, spec)),
            self._grid.input_specs,
            inputs,
            is_leaf=lambda node: isinstance(node, PartitionSpec),
        )
        self._stride = engine.block_size(inputs.oracle.objective.start.shape[-1])
        engine.limit_programs()
        self._state = engine.start(self._grid, self._inputs)

    def advance(self, steps: int) -> Iterator[int]:
        """Run to the last step; now and then yield the steps that are done."""
        k, stride = 0, self._stride
        while k < steps:
            interrupts.check()
            begun = time.monotonic()
            k = min(k + stride, steps)
            self._state = jax.block_until_ready(engine.advance(self._grid, self._inputs, self._state, np.int64(k)))
            yield k
            if time.monotonic() - begun < CALL_SECONDS:
                stride *= 2

    def write_to(self, record: Record) -> None:
        """Write what there is of the runs, padding aside, up to the last record time that was reached."""
        chunk, times = self._chunk, record.steps[: int(self._state.recorded)]
        for stack, size, states, snapshots in zip(
            chunk.stacks, chunk.sizes, self._state.states, self._state.snapshots, strict=True
        ):
            arrays = _unpad(states, snapshots, size, chunk.seed_count, times)
            write(record, stack[:size], chunk.seeds[0], _mark_diverged(arrays, times))


def write(record: Record, rows: Sequence[int], first: int, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays over (configuration, seed, …) into a record, from the seed at `first` on; curves may end early."""
    for name, array in arrays.items():
        getattr(record, name)[list(rows), first : first + array.shape[1], *map(slice, array.shape[2:])] = array


def _unpad(states: State, snapshots: Snapshot[Any], size: int, seeds: int, times: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays that a Record has of the runs of a stack, without padding."""
    arrays = {
        name: np.asarray(a)[: times.size, :seeds, :size].swapaxes(0, 2)
        for name in (*CURVES, "path")
        if not isinstance(a := getattr(snapshots, name), tuple)
    }
    if "stationarity" not in arrays:  # a step whose theorems are about ‖∇f‖
        arrays |= {"stationarity": arrays["grad_norm"], "mean_stationarity": arrays["mean_grad_norm"]}
    ends = {"diverged": states.diverged, "last": states.point.x, "sampled": states.sampled, "reported": states.average}
    arrays |= {
        name: np.moveaxis(np.asarray(a)[:seeds, :size], 1, 0) for name, a in ends.items() if not isinstance(a, tuple)
    }
    if "reported" not in arrays:  # a method without an average reports its iterates
        same = {"reported": "last", "reported_grad_norm": "grad_norm", "reported_value": "value"}
        arrays |= {name: arrays[iterates] for name, iterates in same.items()}
    return arrays | {"reached": np.full((size, seeds), times[-1])}


def _mark_diverged(arrays: dict[str, np.ndarray], times: np.ndarray) -> dict[str, np.ndarray]:
    """Make the numbers of runs that diverged not finite from there on, even if ∇f is 0 that far out.

    That is where the engine saw it, or the first recorded step at which f is not finite, whichever comes first.
    """
    seen = arrays["diverged"]
    lost = np.logical_or.accumulate(~np.isfinite(arrays["value"]), axis=-1)
    lost |= (seen[..., None] >= 0) & (times >= seen[..., None])
    if not lost.any():
        return arrays
    first = times[lost.argmax(axis=-1)]
    earlier = lost[..., -1] & ((seen < 0) | (first < seen))

    def mark(name: str) -> np.ndarray:
        curve = arrays[name]
        if name in CUMULATIVE:  # as where the engine saw it, a run that has diverged draws no more samples
            before = np.where(lost, 0, curve).max(axis=-1, keepdims=True)
            return np.where(lost & earlier[..., None], before, curve)
        return np.where(lost, 0 if name in COUNTS else np.nan, curve)

    marked = {name: mark(name) for name in CURVES} | {"diverged": np.where(earlier, first, seen)}
    if "path" in arrays:
        marked["path"] = np.where(lost[..., None], np.nan, arrays["path"])
    return arrays | marked
