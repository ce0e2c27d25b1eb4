"""Run an experiment: tune, compare, compare at equal budget, vary the step size. Every finished part is remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gladstorm.batches import GrowWithDistance
from gladstorm.experiments import arms
from gladstorm.experiments.arms import DYNAMIC, NORMALIZED, NSGDM, NSTORM, TUNED
from gladstorm.experiments.experiment import GAMMA0_MULTIPLES, PAPER_SEEDS, TUNING_SEEDS, Experiment, Settings
from gladstorm.experiments.jobs import Job, Workshop
from gladstorm.experiments.memory import Memory, simulator_version
from gladstorm.experiments.results import (
    BUDGET,
    EQUAL_STEP,
    MAIN,
    SENSITIVITY,
    TUNING,
    Results,
    last_tenth,
    within,
)
from gladstorm.oracles import BlumGladyshev
from gladstorm.provenance import versions
from gladstorm.record import Record
from gladstorm.theory import Problem, Schedule, Statement, problem_of, theorem, wrapped

EXTENSIONS = 4  # how often a grid is extended before its edge is accepted


def reproduce(experiment: Experiment, settings: Settings, memory: Memory) -> Results:
    """All runs of an experiment."""
    settings.check()
    lab = _Laboratory(experiment, settings, memory)
    tuning = lab.tune()
    schedules = {method: lab.statement(method).schedule(lab.horizon) for method in NORMALIZED}
    gammas = {method: schedule.gamma for method, schedule in schedules.items()}
    gammas |= {method: found.best for method, found in tuning.items()}
    budget = lab.horizon  # NSGDM's and single-sample SGD's calls: nothing changes for these two

    compared = [lab.scheduled(MAIN, method, schedules[method], [gammas[method]]) for method in NORMALIZED]
    compared.append(lab.scheduled(EQUAL_STEP, NSGDM, schedules[NSGDM], [gammas[NSTORM]]))
    compared += [lab.tuned(MAIN, method, [gammas[method]], lab.seeds(method), settings.steps) for method in TUNED]
    for method in NORMALIZED:
        multiples = [gammas[method] * multiple for multiple in GAMMA0_MULTIPLES]
        few = lab.seeds(method)[:PAPER_SEEDS]
        compared.append(lab.scheduled(SENSITIVITY, method, schedules[method], multiples, seeds=few))
    records = lab.workshop.run("comparison", compared)

    halved = lab.statement(NSTORM).schedule(lab.affordable(NSTORM, budget))
    steps = lab.affordable(NSTORM, budget) - 1
    at_budget = {NSTORM: halved.gamma} | {method: tuning[method].best_at_budget for method in DYNAMIC}
    affordable = [lab.scheduled(BUDGET, NSTORM, halved, [halved.gamma], steps=steps)]
    for method in DYNAMIC:
        few = lab.seeds(method)[:PAPER_SEEDS]
        affordable.append(lab.tuned(BUDGET, method, [at_budget[method]], few, tuning[method].steps_to_budget))
    records |= lab.workshop.run("budget", affordable)
    records |= {(TUNING, method): found.record for method, found in tuning.items()}

    config = lab.config() | {
        "budget": budget,
        "step_sizes": gammas,
        "step_sizes_at_budget": gammas | at_budget,
        "grids_extended": {method: sorted(found.extended) for method, found in tuning.items()},
    }
    return Results(config, records)


@dataclass
class _Tuning:
    """A searched step size: the whole grid, and what it says is best."""

    record: Record
    budget: int
    extended: list[float] = field(default_factory=list)

    @property
    def gammas(self) -> list[float]:
        """The step sizes tried."""
        return [float(each) for each in self.record.labels]

    @property
    def best(self) -> float:
        """The best step size for all steps."""
        return self.gammas[_best(scores(self.record))]

    @property
    def best_at_budget(self) -> float:
        """The best step size for the budget."""
        return self.gammas[_best(scores(self.record, self.budget))]

    @property
    def steps_to_budget(self) -> int:
        """Enough steps to spend the budget at the best step size for it."""
        row = _best(scores(self.record, self.budget))
        spent = self.record.steps[within(self.record, self.budget)[row]].max()
        return int(min(self.record.steps[-1], 20 + 1.5 * spent))

    def beyond(self) -> list[float]:
        """Step sizes past the edges of the grid, if a best one is at an edge."""
        best, gammas = {self.best, self.best_at_budget}, self.gammas
        below = [min(gammas) / 10**0.5, min(gammas) / 10] if min(gammas) in best else []
        above = [max(gammas) * 10**0.5, max(gammas) * 10] if max(gammas) in best else []
        return below + above


@dataclass
class _Laboratory:
    """The experiment's problem and the sweeps that are run on it."""

    experiment: Experiment
    settings: Settings
    memory: Memory

    @cached_property
    def workshop(self) -> Workshop:
        """Where the jobs are done."""
        return Workshop(self.experiment.title, self.oracle, self.memory)

    @property
    def horizon(self) -> int:
        """T."""
        return self.settings.steps + 1

    @property
    def growing(self) -> GrowWithDistance:
        """The batches of the dynamic methods."""
        G, sigma2 = self.experiment.G, self.settings.sigma2
        return GrowWithDistance(self.settings.B, G, G**2 if sigma2 is None else sigma2)

    def oracle(self, seed: int) -> BlumGladyshev:
        """The instance of a seed under BG-0 noise."""
        make = self.experiment.small_instance if self.settings.quick else self.experiment.instance
        return BlumGladyshev(make(seed), self.settings.B, self.experiment.G)

    def seeds(self, method: str) -> list[int]:
        """The reported seeds of a method."""
        few = min(PAPER_SEEDS, self.settings.seeds)
        return list(range(self.settings.seeds if method in self.experiment.many_seeds else few))

    @cached_property
    def problem(self) -> Problem:
        """The setting of the theorems, with the constants of seed 0's instance."""
        return problem_of(self.oracle(0))

    def statement(self, method: str) -> Statement:
        """The theorem about a normalized method."""
        problem = wrapped(self.problem) if method == NSTORM else self.problem
        return theorem(method.lower(), problem, gamma0=self.experiment.gamma0[method], eta0=self.experiment.eta0)

    def affordable(self, method: str, calls: int) -> int:
        """The largest horizon a normalized method can be scheduled for at the price of `calls`."""
        statement = self.statement(method)
        horizon = max(1, calls // 2 + 1)
        while horizon > 1 and statement.sfo(horizon) > calls:
            horizon -= 1
        return horizon

    def scheduled(
        self,
        stage: str,
        method: str,
        schedule: Schedule,
        gammas: list[float],
        *,
        steps: int | None = None,
        seeds: list[int] | None = None,
    ) -> Job:
        """A normalized method at some step sizes."""
        seeds = self.seeds(method) if seeds is None else seeds
        steps = self.settings.steps if steps is None else steps
        return Job(stage, method, arms.scheduled(method, schedule, gammas), tuple(gammas), tuple(seeds), steps)

    def tuned(self, stage: str, method: str, gammas: Sequence[float], seeds: Sequence[int], steps: int) -> Job:
        """A tuned method at some step sizes."""
        return Job(stage, method, arms.tuned(method, gammas, self.growing), tuple(gammas), tuple(seeds), steps)

    def tune(self) -> dict[str, _Tuning]:
        """Search the grids on seeds of their own; extend each while a best step size is at its edge."""
        grids = {method: sorted(self.settings.grid or self.experiment.grids[method]) for method in TUNED}
        found = {method: _Tuning(record, self.horizon) for method, record in self._searched(grids).items()}
        for _ in range(EXTENSIONS):
            more = {method: beyond for method, tuning in found.items() if (beyond := tuning.beyond())}
            if not more:
                break
            for method, record in self._searched(more).items():
                found[method].extended += more[method]
                found[method].record = Record.stacked([found[method].record, record])
        return found

    def _searched(self, grids: Mapping[str, list[float]]) -> dict[str, Record]:
        jobs = [self.tuned(TUNING, method, grid, TUNING_SEEDS, self.settings.steps) for method, grid in grids.items()]
        return {method: record for (_, method), record in self.workshop.run(TUNING, jobs).items()}

    def config(self) -> dict[str, Any]:
        """What was run, JSON-ready."""
        experiment, settings = self.experiment, self.settings
        small = {"quick": True} if settings.quick else {}
        objective = self.oracle(0).objective
        return small | {
            "experiment": experiment.name,
            "objective": {"type": type(objective).__name__, "dimension": int(objective.start.size)},
            "alpha": self.problem.alpha,
            "B": settings.B,
            "G": experiment.G,
            "sigma2": float(self.growing.sigma2),
            "steps": settings.steps,
            "horizon": self.horizon,
            "seeds": {
                "paper": list(range(min(PAPER_SEEDS, settings.seeds))),
                "verdicts": list(range(settings.seeds)),
                "tuning": list(TUNING_SEEDS),
            },
            "gamma0": dict(experiment.gamma0),
            "eta0": experiment.eta0,
            "storm_eta": arms.STORM_ETA,
            "grids": {method: list(settings.grid or experiment.grids[method]) for method in TUNED},
            "schedule": {method: self._schedule(method) for method in NORMALIZED},
            "versions": versions(),
            "code": simulator_version(),
        }

    def _schedule(self, method: str) -> dict[str, Any]:
        statement = self.statement(method)
        eta, gamma, n_init, _ = statement.schedule(self.horizon)
        conditions = [
            {"statement": c.statement, "left": c.left, "right": c.right, "holds": c.holds}
            for c in statement.conditions()
        ]
        return {
            "gamma": gamma,
            "eta": eta,
            "n_init": n_init,
            "gamma0": statement.gamma0,
            "eta0": statement.eta0,
            "source": statement.source,
            "conditions": conditions,
            "violations": list(statement.violations()),
            "bound": statement.bound(self.horizon),
        }


def scores(record: Record, sfo: int | None = None) -> np.ndarray:
    """Per step size the tuning criterion: ‖∇f‖ over the last tenth of the iterates (within `sfo` calls), seed mean."""
    values = last_tenth(record, None if sfo is None else within(record, sfo)).mean(axis=-1)
    return np.asarray(np.where(np.isfinite(values), values, np.inf))


def _best(criterion: np.ndarray) -> int:
    return int(np.argmin(criterion))
