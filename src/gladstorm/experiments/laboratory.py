"""Run an experiment: tune, compare, compare at equal budget, vary the step size. Every finished part is remembered."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from gladstorm.batches import GrowWithDistance
from gladstorm.experiments import arms
from gladstorm.experiments.arms import DYNAMIC, NORMALIZED, NSGDM, NSTORM, TUNED
from gladstorm.experiments.experiment import GAMMA0_MULTIPLES, PAPER_SEEDS, TUNING_SEEDS, Experiment, Settings
from gladstorm.experiments.memory import Memory, code_version
from gladstorm.experiments.results import (
    BUDGET,
    EQUAL_STEP,
    MAIN,
    SENSITIVITY,
    TUNING,
    Results,
    label,
    last_tenth,
    within,
)
from gladstorm.methods import Method
from gladstorm.oracles import BlumGladyshev
from gladstorm.parts import describe
from gladstorm.record import Record
from gladstorm.simulate import sweep, versions
from gladstorm.theory import Problem, Schedule, Statement, problem_of, theorem, wrapped

BYTES_AT_ONCE = 50_000_000  # of instances simulated together: they share the processor's cache
SEEDS_AT_ONCE = 100
EXTENSIONS = 4  # how often a grid is extended before its edge is accepted


def reproduce(experiment: Experiment, settings: Settings, memory: Memory) -> Results:
    """All runs of an experiment."""
    settings.check()
    lab = _Laboratory(experiment, settings, memory)
    tuning = {method: lab.tune(method) for method in TUNED}
    schedules = {method: lab.statement(method).schedule(lab.horizon) for method in NORMALIZED}
    gammas = {method: schedule.gamma for method, schedule in schedules.items()}
    gammas |= {method: found.best for method, found in tuning.items()}
    budget = lab.horizon  # NSGDM's and single-sample SGD's calls: nothing changes for these two

    momentum = lab.scheduled(MAIN, NSGDM, schedules[NSGDM], [gammas[NSGDM], gammas[NSTORM]])
    records = {
        (MAIN, NSGDM): momentum.only(label(gammas[NSGDM])),
        (MAIN, NSTORM): lab.scheduled(MAIN, NSTORM, schedules[NSTORM], [gammas[NSTORM]]),
        (EQUAL_STEP, NSGDM): momentum.only(label(gammas[NSTORM])),
    }
    for method in TUNED:
        records[MAIN, method] = lab.tuned(MAIN, method, [gammas[method]], lab.seeds(method), settings.steps)

    halved = lab.statement(NSTORM).schedule(lab.affordable(NSTORM, budget))
    steps = lab.affordable(NSTORM, budget) - 1
    records[BUDGET, NSTORM] = lab.scheduled(BUDGET, NSTORM, halved, [halved.gamma], steps=steps)
    at_budget = {NSTORM: halved.gamma}
    for method in DYNAMIC:
        found = tuning[method]
        at_budget[method] = found.best_at_budget
        seeds = lab.seeds(method)[:PAPER_SEEDS]
        records[BUDGET, method] = lab.tuned(BUDGET, method, [found.best_at_budget], seeds, found.steps_to_budget)
    for method in NORMALIZED:
        multiples = [gammas[method] * multiple for multiple in GAMMA0_MULTIPLES]
        seeds = lab.seeds(method)[:PAPER_SEEDS]
        records[SENSITIVITY, method] = lab.scheduled(SENSITIVITY, method, schedules[method], multiples, seeds=seeds)
    records |= {(TUNING, method): found.record for method, found in tuning.items()}

    config = lab.config() | {
        "budget": budget,
        "step_sizes": gammas,
        "step_sizes_at_budget": gammas | at_budget,
        "grids_extended": {method: found.extended for method, found in tuning.items()},
    }
    return Results(config, records)


@dataclass
class Tuned:
    """A searched step size, and the whole grid behind it."""

    record: Record
    best: float
    best_at_budget: float
    steps_to_budget: int  # enough steps to spend the budget at `best_at_budget`
    extended: list[float] = field(default_factory=list)


@dataclass
class _Laboratory:
    """The experiment's problem and the sweeps that are run on it."""

    experiment: Experiment
    settings: Settings
    memory: Memory

    def __post_init__(self) -> None:
        self._instances: dict[int, BlumGladyshev] = {}

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
    ) -> Record:
        """A normalized method at some step sizes."""
        seeds = self.seeds(method) if seeds is None else seeds
        steps = self.settings.steps if steps is None else steps
        return self._run(stage, method, arms.scheduled(method, schedule, gammas), gammas, seeds, steps)

    def tuned(self, stage: str, method: str, gammas: Sequence[float], seeds: Sequence[int], steps: int) -> Record:
        """A tuned method at some step sizes."""
        return self._run(stage, method, arms.tuned(method, gammas, self.growing), gammas, seeds, steps)

    def tune(self, method: str) -> Tuned:
        """Search the grid on seeds of its own; extend it while the best step size is at its edge."""
        grid = sorted(self.settings.grid or self.experiment.grids[method])
        record = self.tuned(TUNING, method, grid, TUNING_SEEDS, self.settings.steps)
        extended: list[float] = []
        for _ in range(EXTENSIONS):
            gammas = [float(each) for each in record.labels]
            choices = {_best(scores(record)), _best(scores(record, self.horizon))}
            more: list[float] = []
            if choices & {gammas.index(min(gammas))}:
                more += [min(gammas) / 10**0.5, min(gammas) / 10]
            if choices & {gammas.index(max(gammas))}:
                more += [max(gammas) * 10**0.5, max(gammas) * 10]
            if not more:
                break
            extended += more
            beyond = self.tuned(TUNING, method, more, TUNING_SEEDS, self.settings.steps)
            record = Record.stacked([record, beyond])
        gammas = [float(each) for each in record.labels]
        at_budget = _best(scores(record, self.horizon))
        spent = record.steps[within(record, self.horizon)[at_budget]].max()
        return Tuned(
            record,
            best=gammas[_best(scores(record))],
            best_at_budget=gammas[at_budget],
            steps_to_budget=int(min(self.settings.steps, 20 + 1.5 * spent)),
            extended=sorted(extended),
        )

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
            "code": code_version(),
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

    def _run(
        self, stage: str, method: str, parts: Method, gammas: Sequence[float], seeds: Sequence[int], steps: int
    ) -> Record:
        """Remembered, or simulated a few seeds at a time."""
        size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(self._instance(seeds[0])))
        together = max(1, min(SEEDS_AT_ONCE, BYTES_AT_ONCE // size))
        pieces = [list(seeds[i : i + together]) for i in range(0, len(seeds), together)]

        def simulate(piece: list[int]) -> Record:
            shown = (
                f"{self.experiment.title}, {stage}: {method}, {len(gammas)} step size(s), seeds {piece[0]}–{piece[-1]}"
            )
            sys.stderr.write(f"{shown} …\n")
            oracles = [self._instance(seed) for seed in piece]
            record = sweep(oracles, [parts], steps=steps, seeds=piece)
            labels = tuple(label(gamma) for gamma in gammas)
            config = record.config | {"methods": dict(zip(labels, record.config["methods"].values(), strict=True))}
            del config["oracle"]  # ten instances by the hash of their arrays: the seeds say as much
            return replace(record, labels=labels, config=config)

        def recalled(piece: list[int]) -> Record:
            oracles = [describe(self._instance(seed)) for seed in piece]
            identity = {"oracles": oracles, "method": describe(parts), "steps": steps, "seeds": piece}
            return self.memory.recall(name, identity, partial(simulate, piece))

        name = f"{stage} {method}".lower().replace(",", "").replace(" ", "-")
        return Record.joined([recalled(piece) for piece in pieces])

    def _instance(self, seed: int) -> BlumGladyshev:
        if seed not in self._instances:
            if len(self._instances) >= SEEDS_AT_ONCE:
                self._instances.clear()  # they may be large
            self._instances[seed] = self.oracle(seed)
        return self._instances[seed]


def scores(record: Record, sfo: int | None = None) -> np.ndarray:
    """Per step size the tuning criterion: ‖∇f‖ over the last tenth of the iterates (within `sfo` calls), seed mean."""
    values = last_tenth(record, None if sfo is None else within(record, sfo)).mean(axis=-1)
    return np.asarray(np.where(np.isfinite(values), values, np.inf))


def _best(criterion: np.ndarray) -> int:
    return int(np.argmin(criterion))
