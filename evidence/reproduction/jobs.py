"""Simulate what an experiment asks for: jobs on the same instances go together, and what is finished is kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Self, overload

from gladstorm.jobs.progress import log
from gladstorm.jobs.tasks import Executor
from gladstorm.methods import Method
from gladstorm.problems.oracles import BlumGladyshev
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import sweep


@dataclass(frozen=True)
class Job:
    """A method at some step sizes, on some seeds, for some steps."""

    stage: str
    method: str
    parts: Method  # its numbers arrays, one entry per step size
    gammas: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int

    @property
    def name(self) -> str:
        """Name of the job among those that are simulated together."""
        return f"{self.stage}, {self.method}"


@dataclass(frozen=True)
class InstancePerSeed(Sequence[BlumGladyshev]):
    """The instances of some seeds, each made when it is asked for: a hundred of them need not fit in memory."""

    make: Callable[[int], BlumGladyshev]
    seeds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.seeds)

    @overload
    def __getitem__(self, row: int) -> BlumGladyshev: ...

    @overload
    def __getitem__(self, row: slice) -> Self: ...

    def __getitem__(self, row: int | slice) -> BlumGladyshev | Self:
        if isinstance(row, slice):
            return replace(self, seeds=self.seeds[row])
        return self.make(self.seeds[row])


@dataclass(frozen=True)
class JobRunner:
    """Runs jobs on the instances of an experiment, one for each seed."""

    title: str
    make: Callable[[int], BlumGladyshev]
    store: Path
    executor: Executor

    def run(self, name: str, jobs: Sequence[Job]) -> dict[tuple[str, str], Record]:
        """The record of every job by stage and method, with a configuration for each step size."""
        records: dict[tuple[str, str], list[Record]] = {(job.stage, job.method): [] for job in jobs}
        for steps in sorted({job.steps for job in jobs}):
            for seeds, due in _alike([job for job in jobs if job.steps == steps]):
                record = self._simulate(name, due, seeds)
                for job in due:
                    records[job.stage, job.method].append(record[job.name])
        return {key: Record.joined(some) for key, some in records.items()}

    def _simulate(self, name: str, jobs: list[Job], seeds: tuple[int, ...]) -> Record:
        count = sum(len(job.gammas) for job in jobs)
        what = f"{len(jobs)} methods" if len(jobs) > 1 else jobs[0].method
        among = f"{count} step size{'s' if count > 1 else ''}, seeds {seeds[0]}–{seeds[-1]}"
        log(f"{self.title}, {name}: {what}, {among} …")
        record = sweep(
            InstancePerSeed(self.make, seeds),
            {job.name: job.parts for job in jobs},
            steps=jobs[0].steps,
            seeds=seeds,
            store=self.store,
            executor=self.executor,
        )
        config = dict(record.config)
        del config["oracle"]  # instances by the hash of their arrays: the seeds say as much
        return replace(record, config=config)


def _alike(jobs: list[Job]) -> Iterator[tuple[tuple[int, ...], list[Job]]]:
    """Seeds that the same jobs ask for, with these jobs."""
    every = sorted({seed for job in jobs for seed in job.seeds})
    for wanted, group in groupby(every, key=lambda seed: [seed in job.seeds for job in jobs]):
        yield tuple(group), [job for job, asks in zip(jobs, wanted, strict=True) if asks]
