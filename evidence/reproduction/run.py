"""Run an experiment: tune, compare, compare at equal budget, vary the step size. What is finished is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evidence.reproduction.design import Design
from evidence.reproduction.experiment import PAPER_SEEDS, TUNING_SEEDS, Experiment, ReproductionSettings
from evidence.reproduction.jobs import JobRunner
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
)
from evidence.scores import best
from gladstorm.comparison.scores import within
from gladstorm.jobs.provenance import source
from gladstorm.jobs.tasks import HERE, Executor
from gladstorm.simulation.record import Record
from gladstorm.theory import Plan

GAMMA0_MULTIPLES = tuple(10 ** (0.4 * e) for e in range(-5, 6))  # where sensitivity is measured
EXTENSIONS = 4  # how often a grid is extended before its edge is accepted


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
            tunings[method].record = Record.stacked([tunings[method].record, record])
    return tunings


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
