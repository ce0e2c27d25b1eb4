"""How a method's result depends on the step size and on B, at equal SFO.

Two problems, one grid of γ for all methods, and one of B. Every method may spend the same number of stochastic
gradients; what is measured is the gradient norm where they are spent, and its mean until then. The paper's cubic,
x⁰ ~ N(5, 0.1), and phase retrieval drawn as the paper's but at d = 10: there an instance for each of a hundred seeds is
affordable, many being simulated at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gladstorm.methods import Method, from_plan, sgd
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.objectives import PhaseRetrieval, Power
from gladstorm.oracles import BlumGladyshev
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import run
from gladstorm.studies.scores import at, within
from gladstorm.studies.verification.checks import rounded
from gladstorm.theory import Plan, for_schedule

BUDGET: Final = 10_000
GAMMAS: Final = tuple(float(f"{10**e:.3g}") for e in np.linspace(-4, 0, 9))
SPREAD: Final = (0.1, 0.5, 0.9)  # the quantiles over seeds that are reported


@dataclass(frozen=True)
class ProblemBySeed:
    """A problem for each seed."""

    name: str
    objective: Callable[[int], Any]  # of a seed
    alpha: float
    G: float
    growths: tuple[float, ...]  # B
    seeds: int


def cubic(seed: int) -> Power:
    """f(x) = |x|³."""
    return Power.from_seed(seed, 3.0)


def phase_retrieval(seed: int) -> PhaseRetrieval:
    """Thirty measurements for each dimension, as in the paper."""
    return PhaseRetrieval.from_seed(seed, 300, dim=10)


PROBLEMS: Final = (
    ProblemBySeed("cubic, d = 1", cubic, 1 / 2, 0.5, (0.05, 0.16, 0.5, 1.6, 5.0, 16.0, 50.0), 128),
    ProblemBySeed("phase retrieval, d = 10", phase_retrieval, 2 / 3, 1.0, (0.05, 0.5, 5.0, 50.0), 104),
)


def methods(problem: ProblemBySeed, B: float) -> dict[str, tuple[Method, int]]:
    """The methods over the grid of γ, and the steps the budget pays for. η and N_init are the theorems'."""
    gammas, G = list(GAMMAS), problem.G
    normalized = {}
    for name in ("nsgdm", "nstorm"):
        statement = for_schedule(name, alpha=problem.alpha, gamma0=1.0, G=G, B=B)
        plan = Plan(statement, BUDGET // statement.calls_per_step)
        steps = (BUDGET - plan.schedule.n_init) // statement.calls_per_step
        normalized[name.upper()] = (from_plan(plan, gamma=gammas), steps)
    return normalized | {
        "SGD": (sgd(gammas), BUDGET - 1),
        "SGD, dynamic batch": (sgd(gammas, batch=GrowWithDistance(B, G, sigma2=G**2)), BUDGET - 1),
    }


def rows(problem: ProblemBySeed, B: float, first_seed: int) -> list[dict[str, Any]]:
    """A row for each method and γ."""
    seeds = range(first_seed, first_seed + problem.seeds)
    oracles = [BlumGladyshev(problem.objective(seed), B, problem.G) for seed in seeds]
    found = []
    for label, (method, steps) in methods(problem, B).items():
        record = run(oracles, method, steps=steps, seeds=seeds, progress=False)
        final, mean = when_spent(record)
        for row, gamma in enumerate(GAMMAS):
            found.append(
                {"problem": problem.name, "B": B, "method": label, "gamma": gamma, "seeds": problem.seeds}
                | {"final": _spread(final[row]), "mean": _spread(mean[row])}
                | {"diverged": rounded(float(np.mean(record.diverged[row] >= 0)))}
            )
    return found


def when_spent(record: Record) -> tuple[np.ndarray, np.ndarray]:
    """‖∇f‖ at the last recorded step that `BUDGET` pays for, and its mean until then, (label, seed); ∞ if diverged."""
    last = within(record, BUDGET)
    failed = (record.diverged >= 0) & (record.diverged <= record.steps[last])

    def there(curve: np.ndarray) -> np.ndarray:
        values = at(curve, last)
        return np.where(failed | ~np.isfinite(values), np.inf, values)

    return there(record.grad_norm), there(record.mean_grad_norm)


def _spread(values: np.ndarray) -> list[float | None]:
    """Quantiles over seeds, None where they are infinite."""
    return [rounded(float(np.quantile(values, q, method="nearest"))) for q in SPREAD]
