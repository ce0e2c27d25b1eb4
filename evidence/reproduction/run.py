"""Run an experiment: tune, compare, compare at equal budget, vary the step size. What is finished is kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Self, overload

import numpy as np

from evidence.reproduction.design import Design, Job
from evidence.reproduction.experiments import PAPER_SEEDS, TUNING_SEEDS, Experiment, ReproductionSettings
from evidence.reproduction.results import (
    BUDGET,
    DYNAMIC,
    EQUAL_STEP,
    MAIN,
    NORMALIZED,
    NSGDM,
    NSTORM,
    SENSITIVITY,
    TUNED,
    TUNING,
    Results,
    best,
)
from gladstorm.comparison.scores import within
from gladstorm.jobs.progress import log
from gladstorm.jobs.provenance import source
from gladstorm.jobs.tasks import HERE, Executor
from gladstorm.problems.oracles import BlumGladyshev
from gladstorm.simulation.record import ARRAYS, Record
from gladstorm.simulation.simulate import sweep
from gladstorm.theory import Plan

GAMMA0_MULTIPLES = tuple(10 ** (0.4 * e) for e in range(-5, 6))  # where sensitivity is measured
EXTENSIONS = 4  # how often a grid is extended before its edge is accepted


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
    """Groups of seeds that the same jobs ask for, with these jobs."""
    every = sorted({seed for job in jobs for seed in job.seeds})
    for asking, group in groupby(every, key=lambda seed: [seed in job.seeds for job in jobs]):
        yield tuple(group), [job for job, asks in zip(jobs, asking, strict=True) if asks]


@dataclass
class Tuning:
    """A searched step size: the whole grid, and what it says is best."""

    record: Record
    budget: int
    extended: list[float] = field(default_factory=list)

    @property
    def gammas(self) -> list[float]:
        """The step sizes tried."""
        gammas: list[float] = self.record.numbers("gamma").tolist()
        return gammas

    @property
    def best(self) -> float:
        """The best step size for all steps."""
        return self.gammas[best(self.record)]

    @property
    def best_at_budget(self) -> float:
        """The best step size for the budget."""
        return self.gammas[best(self.record, self.budget)]

    @property
    def steps_to_budget(self) -> int:
        """Enough steps to spend the budget at the best step size for it."""
        row = best(self.record, self.budget)
        spent = self.record.steps[within(self.record, self.budget)[row]].max()
        return int(min(self.record.steps[-1], 20 + 1.5 * spent))

    def beyond(self) -> list[float]:
        """Step sizes past the edges of the grid, if a best one is at an edge."""
        chosen, gammas = {self.best, self.best_at_budget}, self.gammas
        below = [min(gammas) / 10**0.5, min(gammas) / 10] if min(gammas) in chosen else []
        above = [max(gammas) * 10**0.5, max(gammas) * 10] if max(gammas) in chosen else []
        return below + above


def tune(design: Design, runner: JobRunner) -> dict[str, Tuning]:
    """The search of every tuned method."""
    settings, experiment = design.settings, design.experiment
    grids = {method: sorted(settings.grid or experiment.grids[method]) for method in TUNED}
    tunings = {method: Tuning(record, design.horizon) for method, record in _search(design, runner, grids).items()}
    for _ in range(EXTENSIONS):
        more = {method: beyond for method, tuning in tunings.items() if (beyond := tuning.beyond())}
        if not more:
            break
        for method, record in _search(design, runner, more).items():
            tunings[method].extended += more[method]
            tunings[method].record = _with_rows(tunings[method].record, record)
    return tunings


def _with_rows(record: Record, more: Record) -> Record:
    """One record of a method at the step sizes of two, which have the same seeds and steps."""
    arrays = {name: np.concatenate([getattr(record, name), getattr(more, name)]) for name in ARRAYS}
    config = record.config | {"methods": record.config["methods"] | more.config["methods"]}
    return replace(record, configurations=record.configurations + more.configurations, config=config, **arrays)


def _search(design: Design, runner: JobRunner, grids: Mapping[str, list[float]]) -> dict[str, Record]:
    steps = design.settings.steps
    jobs = [design.tuned(TUNING, method, grid, TUNING_SEEDS, steps) for method, grid in grids.items()]
    return {method: record for (_, method), record in runner.run(TUNING, jobs).items()}


def reproduce(
    experiment: Experiment, settings: ReproductionSettings, folder: Path, executor: Executor = HERE
) -> Results:
    """All runs of an experiment. What is finished is kept in the folder, where a second call goes on."""
    settings.check()
    design = Design(experiment.sized(quick=settings.quick), settings)
    runner = JobRunner(experiment.title, design.oracle, folder, executor)
    tuning = tune(design, runner)
    plans = {method: Plan(design.statement(method), design.horizon) for method in NORMALIZED}
    gammas = {method: plan.schedule.gamma for method, plan in plans.items()}
    gammas |= {method: tuned.best for method, tuned in tuning.items()}
    budget = design.horizon  # NSGDM's and single-sample SGD's calls: nothing changes for these two

    compared = [design.planned(MAIN, method, plans[method], [gammas[method]]) for method in NORMALIZED]
    compared.append(design.planned(EQUAL_STEP, NSGDM, plans[NSGDM], [gammas[NSTORM]]))
    compared += [design.tuned(MAIN, method, [gammas[method]], design.seeds(method), settings.steps) for method in TUNED]
    for method in NORMALIZED:
        multiples = [gammas[method] * multiple for multiple in GAMMA0_MULTIPLES]
        few = design.seeds(method)[:PAPER_SEEDS]
        compared.append(design.planned(SENSITIVITY, method, plans[method], multiples, seeds=few))
    records = runner.run("comparison", compared)

    halved = Plan(design.statement(NSTORM), design.affordable(NSTORM, budget))
    at_budget = {NSTORM: halved.schedule.gamma} | {method: tuning[method].best_at_budget for method in DYNAMIC}
    affordable = [design.planned(BUDGET, NSTORM, halved, [at_budget[NSTORM]])]
    for method in DYNAMIC:
        few = design.seeds(method)[:PAPER_SEEDS]
        affordable.append(design.tuned(BUDGET, method, [at_budget[method]], few, tuning[method].steps_to_budget))
    records |= runner.run("budget", affordable)
    records |= {(TUNING, method): tuned.record for method, tuned in tuning.items()}

    config = design.config() | {
        "code": source(),
        "budget": budget,
        "step_sizes": gammas,
        "step_sizes_at_budget": gammas | at_budget,
        "grids_extended": {method: sorted(tuned.extended) for method, tuned in tuning.items()},
    }
    return Results(config, records)
