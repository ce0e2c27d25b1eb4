"""The design of an experiment: its problem, its methods and seeds as jobs, and all of it as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from evidence.reproduction.experiments import PAPER_SEEDS, TUNING_SEEDS, Experiment, ReproductionSettings
from evidence.reproduction.results import NORMALIZED, STORM_ETA, TUNED
from gladstorm.jobs.provenance import versions
from gladstorm.methods import Method, from_plan
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.problems.objectives import Objective
from gladstorm.problems.oracles import BlumGladyshev
from gladstorm.theory import Plan, Problem, Statement, for_wrapper, problem_of


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


def _noisy(instance: Callable[[int], Objective], B: float, G: float, seed: int) -> BlumGladyshev:
    return BlumGladyshev(instance(seed), B, G)


@dataclass(frozen=True)
class Design:
    """An experiment with a user's settings."""

    experiment: Experiment
    settings: ReproductionSettings

    @property
    def horizon(self) -> int:
        """T, the number of iterates."""
        return self.settings.steps + 1

    @property
    def growing(self) -> GrowWithDistance:
        """The batches of the dynamic methods."""
        G, sigma2 = self.experiment.G, self.settings.sigma2
        return GrowWithDistance(self.settings.B, G, G**2 if sigma2 is None else sigma2)

    @property
    def oracle(self) -> Callable[[int], BlumGladyshev]:
        """The instance of a seed under BG-0 noise: all that is sent to who computes."""
        return partial(_noisy, self.experiment.instance, self.settings.B, self.experiment.G)

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
        gamma0, eta0 = self.experiment.gamma0[method], self.experiment.eta0
        return for_wrapper(method.lower(), self.problem, gamma0=gamma0, eta0=eta0)

    def affordable(self, method: str, calls: int) -> int:
        """The largest horizon a normalized method can be scheduled for at the price of `calls`."""
        statement = self.statement(method)
        horizon = max(1, calls // statement.row.calls_per_step + 1)
        while horizon > 1 and statement.sfo(horizon) > calls:
            horizon -= 1
        return horizon

    def planned(
        self, stage: str, method: str, plan: Plan, gammas: list[float], *, seeds: list[int] | None = None
    ) -> Job:
        """A normalized method as planned, but at these step sizes."""
        seeds = self.seeds(method) if seeds is None else seeds
        return Job(stage, method, from_plan(plan, gamma=gammas), tuple(gammas), tuple(seeds), plan.horizon - 1)

    def tuned(self, stage: str, method: str, gammas: Sequence[float], seeds: Sequence[int], steps: int) -> Job:
        """A tuned method at some step sizes."""
        parts = TUNED[method](list(gammas), self.growing)
        return Job(stage, method, parts, tuple(gammas), tuple(seeds), steps)

    def config(self) -> dict[str, Any]:
        """Return the configuration that was run, JSON-ready."""
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
            "storm_eta": STORM_ETA,
            "grids": {method: list(settings.grid or experiment.grids[method]) for method in TUNED},
            "schedule": {method: self._schedule(method) for method in NORMALIZED},
            "versions": versions(),
        }

    def _schedule(self, method: str) -> dict[str, Any]:
        statement = self.statement(method)
        eta, gamma, n_init, _ = statement.schedule(self.horizon)
        return {
            "gamma": gamma,
            "eta": eta,
            "n_init": n_init,
            "gamma0": statement.gamma0,
            "eta0": statement.eta0,
            "source": statement.source,
            "conditions": [condition.as_dict() for condition in statement.conditions()],
            "violations": list(statement.violations()),
            "bound": statement.bound(self.horizon),
        }
