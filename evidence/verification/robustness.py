"""How a method's result depends on the step size and on B, at equal SFO.

Two problems, one grid of γ for all methods, and one of B. Every method may spend the same number of stochastic
gradients, and has one more number to tune beside γ: η of the methods that average, σ² of dynamic batches. All grids
have the same size. What is measured is the gradient norm over the last tenth of the iterates that the budget pays for:
a last iterate alone says little. The second number is chosen for each γ, and then γ, by the median over seeds that are
not reported; the chosen configurations are compared seed by seed.

The paper's cubic, x⁰ ~ N(5, 0.1), and phase retrieval drawn as the paper's but at d = 10: there an instance for each of
many seeds is affordable, many being simulated at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from evidence.scores import last_tenth
from evidence.verification.cases import Case
from evidence.verification.checks import PartResult, Parts, rounded
from evidence.verification.settings import APART, Tuned, VerificationSettings
from gladstorm.comparison.scores import failed, in_json, ratio, within
from gladstorm.methods import Method, from_plan, sgd
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.methods.estimators import Momentum
from gladstorm.methods.steps import Plain
from gladstorm.problems.objectives import PhaseRetrieval, Power
from gladstorm.problems.oracles import BlumGladyshev
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import run
from gladstorm.theory import Plan, for_schedule

BUDGET: Final = 10_000
GAMMAS: Final = tuple(float(f"{10**e:.3g}") for e in np.linspace(-4, 0, 9))
ETAS: Final = {"NSGDM": (3e-4, 3e-3, 3e-2, 3e-1), "NSTORM": (3e-4, 3e-3, 3e-2, 3e-1), "SGD": (3e-2, 1e-1, 3e-1, 1.0)}
SIGMA2S: Final = (0.1, 1.0, 10.0, 100.0)  # of G²
TUNING_SEEDS: Final = 16
SPREAD: Final = (0.1, 0.5, 0.9)  # the quantiles over seeds that are reported
NORMALIZED: Final = ("NSGDM", "NSTORM")
PAIRS: Final = (  # one relative to another
    ("NSTORM", "NSGDM"),
    *((plain, normalized) for plain in ("SGD", "SGD, dynamic batch") for normalized in NORMALIZED),
)


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
    """Cubic f(x) = |x|³."""
    return Power.from_seed(seed, 3.0)


def phase_retrieval(seed: int) -> PhaseRetrieval:
    """Thirty measurements for each dimension, as in the paper."""
    return PhaseRetrieval.from_seed(seed, 300, dim=10)


PROBLEMS: Final = (
    ProblemBySeed("cubic, d = 1", cubic, 1 / 2, 0.5, (0.05, 0.16, 0.5, 1.6, 5.0, 16.0, 50.0), 64),
    ProblemBySeed("phase retrieval, d = 10", phase_retrieval, 2 / 3, 1.0, (0.05, 0.5, 5.0, 50.0), 64),
)
COMPARISONS: Final = len(PAIRS) * sum(len(problem.growths) for problem in PROBLEMS)  # intervals that are reported


def methods(problem: ProblemBySeed, B: float) -> dict[str, Tuned]:
    """Methods that are compared. N_init is the theorems'."""
    G = problem.G
    results = {}
    for label in NORMALIZED:
        statement = for_schedule(label.lower(), alpha=problem.alpha, gamma0=1.0, G=G, B=B)
        plan = Plan(statement, BUDGET // statement.calls_per_step)
        steps = (BUDGET - plan.schedule.n_init) // statement.calls_per_step
        results[label] = Tuned(partial(_normalized, plan), GAMMAS, ETAS[label], steps)
    sigma2s = tuple(multiple * G**2 for multiple in SIGMA2S)
    return results | {
        "SGD": Tuned(_with_momentum, GAMMAS, ETAS["SGD"], BUDGET - 1),
        "SGD, dynamic batch": Tuned(partial(_dynamic, B, G), GAMMAS, sigma2s, BUDGET - 1),
    }


def _normalized(plan: Plan, gamma: Any, eta: Any) -> Method:
    return from_plan(plan, gamma=gamma, eta=eta)


def _with_momentum(gamma: Any, eta: Any) -> Method:
    return Method(Momentum(eta), Plain(gamma))  # η = 1 is SGD without


def _dynamic(B: float, G: float, gamma: Any, sigma2: Any) -> Method:
    return sgd(gamma, batch=GrowWithDistance(B, G, sigma2=sigma2))


def parts(_selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Every problem at every B."""
    for problem in PROBLEMS:
        for B in problem.growths:
            yield f"{problem.name}, B = {B}", partial(measure, problem, B, settings.seed)


def measure(problem: ProblemBySeed, B: float, first_seed: int) -> PartResult:
    """A row for each method and γ, and each pair's ratio."""
    tuning = range(first_seed + APART, first_seed + APART + TUNING_SEEDS)
    reported = range(first_seed, first_seed + problem.seeds)
    rows, chosen = [], {}
    for label, tuned in methods(problem, B).items():
        medians = np.median(_spent(problem, B, tuned, *tuned.grid(), tuning)[0], axis=-1).reshape(len(GAMMAS), -1)
        second = np.take(tuned.seconds, np.argmin(medians, axis=1))
        best = int(np.argmin(medians.min(axis=1)))
        late, diverged = _spent(problem, B, tuned, np.array(GAMMAS), second, reported)
        chosen[label] = late[best]
        for row, gamma in enumerate(GAMMAS):
            rows.append(
                {"problem": problem.name, "B": B, "method": label, "gamma": gamma, "second": float(second[row])}
                | {"chosen": row == best, "tuning_median": rounded(float(medians[row].min()))}
                | {"late": _spread(late[row]), "diverged": rounded(float(diverged[row].mean()))}
                | {"seeds": problem.seeds, "tuning_seeds": TUNING_SEEDS, "configurations": medians.size}
            )
    ratios = [
        {"problem": problem.name, "B": B, "method": one, "against": other}
        | {key: None if value is None else rounded(value) for key, value in compared.items()}
        for one, other in PAIRS
        if (compared := in_json(ratio(chosen[one], chosen[other], COMPARISONS)))
    ]
    return PartResult(rows={"robustness": rows, "robustness ratios": ratios})


def _spent(
    problem: ProblemBySeed, B: float, tuned: Tuned, gamma: np.ndarray, second: np.ndarray, seeds: range
) -> tuple[np.ndarray, np.ndarray]:
    """The late norm and whether a run diverged, (configuration, seed)."""
    oracles = [BlumGladyshev(problem.objective(seed), B, problem.G) for seed in seeds]
    record = run(oracles, tuned.made(gamma, second), steps=tuned.steps, seeds=seeds, progress=False)
    return when_spent(record), record.diverged >= 0


def when_spent(record: Record) -> np.ndarray:
    """The mean of ‖∇f‖ over the last tenth of what `BUDGET` pays for, (label, seed); ∞ if the run had diverged."""
    last = within(record, BUDGET)
    values = last_tenth(record, last)
    return np.where(failed(record, last) | ~np.isfinite(values), np.inf, values)


def _spread(values: np.ndarray) -> list[float | None]:
    """Quantiles over seeds, None where they are infinite."""
    return [rounded(float(np.quantile(values, q, method="nearest"))) for q in SPREAD]
