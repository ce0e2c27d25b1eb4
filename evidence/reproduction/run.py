"""Run an experiment: tune, compare, compare at equal budget, vary the step size. What is finished is kept."""

from __future__ import annotations

from pathlib import Path

from evidence.reproduction.compared_methods import DYNAMIC, NORMALIZED, NSGDM, NSTORM, TUNED
from evidence.reproduction.design import Design
from evidence.reproduction.experiment import GAMMA0_MULTIPLES, PAPER_SEEDS, Experiment, ReproductionSettings
from evidence.reproduction.jobs import JobRunner
from evidence.reproduction.results import BUDGET, EQUAL_STEP, MAIN, SENSITIVITY, TUNING, Results
from evidence.reproduction.tuning import tune
from gladstorm.jobs.sources import source_of
from gladstorm.jobs.tasks import HERE, Executor
from gladstorm.theory import Plan


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
    gammas |= {method: found.best for method, found in tuning.items()}
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
    records |= {(TUNING, method): found.record for method, found in tuning.items()}

    config = design.config() | {
        "code": source_of(reproduce, design),
        "budget": budget,
        "step_sizes": gammas,
        "step_sizes_at_budget": gammas | at_budget,
        "grids_extended": {method: sorted(found.extended) for method, found in tuning.items()},
    }
    return Results(config, records)
