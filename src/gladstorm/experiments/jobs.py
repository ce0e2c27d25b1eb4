"""Simulate what an experiment asks for: jobs on the same instances go together, and finished parts are remembered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import jax
import numpy as np

from gladstorm.experiments.memory import Memory
from gladstorm.experiments.results import label
from gladstorm.methods import Method
from gladstorm.oracles import BlumGladyshev
from gladstorm.parts import describe
from gladstorm.record import Record
from gladstorm.simulate import sweep

BYTES_AT_ONCE = 50_000_000  # of instances in a part: what a killed run loses is small
SEEDS_AT_ONCE = 100


@dataclass(frozen=True)
class Job:
    """A method at some step sizes, on some seeds, for some steps."""

    stage: str
    method: str
    parts: Method  # its numbers arrays, one entry per step size
    gammas: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int


class Workshop:
    """Where the jobs of an experiment are done."""

    def __init__(self, title: str, instance: Callable[[int], BlumGladyshev], memory: Memory) -> None:
        self._title = title
        self._make = instance
        self._memory = memory
        self._instances: dict[int, BlumGladyshev] = {}

    def run(self, name: str, jobs: Sequence[Job]) -> dict[tuple[str, str], Record]:
        """The record of every job by stage and method; its labels are its step sizes."""
        found: dict[tuple[str, str], list[Record]] = {(job.stage, job.method): [] for job in jobs}
        for steps in sorted({job.steps for job in jobs}):
            for seeds, due in self._parts([job for job in jobs if job.steps == steps]):
                for job, record in zip(due, self._apart(self._recalled(name, due, seeds), due), strict=True):
                    found[job.stage, job.method].append(record)
        return {key: Record.joined(records) for key, records in found.items()}

    def _parts(self, jobs: list[Job]) -> Iterator[tuple[list[int], list[Job]]]:
        """Seeds that the same jobs ask for, a few at a time, with these jobs."""
        size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(self._instance(jobs[0].seeds[0])))
        most = max(1, min(SEEDS_AT_ONCE, BYTES_AT_ONCE // size))
        every = sorted({seed for job in jobs for seed in job.seeds})
        for wanted, group in groupby(every, key=lambda seed: [seed in job.seeds for job in jobs]):
            seeds = list(group)
            due = [job for job, asks in zip(jobs, wanted, strict=True) if asks]
            for first in range(0, len(seeds), most):
                yield seeds[first : first + most], due

    def _recalled(self, name: str, jobs: list[Job], seeds: list[int]) -> Record:
        methods = {f"{job.stage}, {job.method}": job.parts for job in jobs}

        def simulate() -> Record:
            count = sum(len(job.gammas) for job in jobs)
            what = f"{len(jobs)} methods" if len(jobs) > 1 else jobs[0].method
            among = f"{count} step size{'s' if count > 1 else ''}, seeds {seeds[0]}–{seeds[-1]}"
            sys.stderr.write(f"{self._title}, {name}: {what}, {among} …\n")
            record = sweep([self._instance(seed) for seed in seeds], methods, steps=jobs[0].steps, seeds=seeds)
            config = dict(record.config)
            del config["oracle"]  # ten instances by the hash of their arrays: the seeds say as much
            return replace(record, config=config)

        identity = {
            "oracles": [describe(self._instance(seed)) for seed in seeds],
            "methods": {key: describe(parts) for key, parts in methods.items()},
            "steps": jobs[0].steps,
            "seeds": seeds,
        }
        return self._memory.recall(name, identity, simulate)

    def _apart(self, record: Record, jobs: list[Job]) -> Iterator[Record]:
        """The record of each job, in their order."""
        labels = iter(record.labels)
        for job in jobs:
            own = record.only(*(next(labels) for _ in job.gammas))
            names = tuple(map(label, job.gammas))
            config = own.config | {"methods": dict(zip(names, own.config["methods"].values(), strict=True))}
            yield replace(own, labels=names, config=config)

    def _instance(self, seed: int) -> BlumGladyshev:
        if seed not in self._instances:
            if len(self._instances) >= SEEDS_AT_ONCE:
                self._instances.clear()  # they may be large
            self._instances[seed] = self._make(seed)
        return self._instances[seed]
