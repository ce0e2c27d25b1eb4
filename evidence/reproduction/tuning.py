"""Search the step sizes of the tuned methods, on seeds of their own; extend a grid while its best is at its edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evidence.reproduction.compared_methods import TUNED
from evidence.reproduction.design import Design
from evidence.reproduction.experiment import TUNING_SEEDS
from evidence.reproduction.jobs import JobRunner
from evidence.reproduction.results import TUNING
from gladstorm.comparison.scores import best, within
from gladstorm.simulation.record import Record

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
    found = {method: Tuning(record, design.horizon) for method, record in _search(design, runner, grids).items()}
    for _ in range(EXTENSIONS):
        more = {method: beyond for method, tuning in found.items() if (beyond := tuning.beyond())}
        if not more:
            break
        for method, record in _search(design, runner, more).items():
            found[method].extended += more[method]
            found[method].record = Record.stacked([found[method].record, record])
    return found


def _search(design: Design, runner: JobRunner, grids: Mapping[str, list[float]]) -> dict[str, Record]:
    steps = design.settings.steps
    jobs = [design.tuned(TUNING, method, grid, TUNING_SEEDS, steps) for method, grid in grids.items()]
    return {method: record for (_, method), record in runner.run(TUNING, jobs).items()}
