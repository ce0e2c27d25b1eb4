"""Is it inertia that momentum has and STORM lacks? Phase retrieval over instances, γ, η, μ, horizons and two noises.

Every seed has its own instance and its own noise, shared by all methods: comparisons are paired. All use one γ: that of
NSTORM's schedule at the horizon, scaled by √(d/100) like the distance from x⁰ to x*, and multiples of it. The best of a
method's grid is chosen on the first half of the seeds and judged on the second.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from evidence.scores import last_tenth
from evidence.verification.cases import Case
from evidence.verification.checks import FAMILY, PartResult, Parts, rounded
from evidence.verification.settings import VerificationSettings
from gladstorm.core.statistics import share_interval
from gladstorm.methods import Method
from gladstorm.methods.batches import FirstLarge
from gladstorm.methods.estimators import Inertia
from gladstorm.methods.steps import Normalized
from gladstorm.problems.objectives import PhaseRetrieval
from gladstorm.problems.oracles import BlumGladyshev, FullRankOracle
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import sweep
from gladstorm.theory import for_schedule

B, G, GAMMA0, N_INIT = 0.5, 1.0, 7.5, 4  # the paper's, but B, which it does not state
NOISES: Final[dict[str, Callable[..., Any]]] = {"wrapper": BlumGladyshev, "full rank": FullRankOracle}
# (η, μ) of STORM with inertia. μ = 1 is STORM itself; η = 1 leaves the fresh gradient, so there μ is momentum's η.
FORGETTING: Final = (1.25e-4, 3.7e-4, 7e-4, 1e-3, 2.2e-3, 5e-3, 1.1e-2, 2.5e-2)
GRIDS: Final = {
    "momentum": tuple((1.0, eta) for eta in FORGETTING),
    "STORM": tuple((eta, 1.0) for eta in FORGETTING),
    "STORM with inertia": tuple((eta, mu) for eta in (3.7e-4, 2.2e-3) for mu in FORGETTING[1::2]),
}
SCHEDULED: Final = {"momentum": (1.0, 2.2e-3), "STORM": (3.7e-4, 1.0)}  # the theorems' η at T = 10,001


@dataclass(frozen=True)
class InertiaSize:
    """A set of problems."""

    dim: int
    measurements: int
    horizon: int
    instances: int
    multiples: tuple[float, ...]  # of NSTORM's γ

    @property
    def gamma(self) -> float:
        """NSTORM's γ at this horizon and distance."""
        schedule = for_schedule("nstorm", alpha=2 / 3, gamma0=GAMMA0, G=G, B=B).schedule(self.horizon)
        return float(schedule.gamma * np.sqrt(self.dim / 100))


SIZES: Final = (
    InertiaSize(25, 750, 10_001, 64, (0.5, 1.0, 2.0)),
    InertiaSize(25, 750, 20_001, 64, (1.0,)),
)
COMPARED: Final = {  # one against another; the scheduled ones on all instances, the best ones on the second half
    "scheduled": ("STORM", "momentum"),
    "best_storm": ("STORM", "momentum"),
    "best_inertia": ("STORM with inertia", "momentum"),
    "gained": ("STORM with inertia", "STORM"),
}
SHARES: Final = len(COMPARED) * len(NOISES) * sum(len(size.multiples) for size in SIZES)  # intervals that are reported


def parts(_selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Every size under every noise."""
    for size, noise in itertools.product(SIZES, NOISES):
        yield f"inertia, {size}, {noise}", partial(measure, size, noise, settings.seed)


def measure(size: InertiaSize, noise: str, first_seed: int) -> PartResult:
    """Measure one setting."""
    return PartResult(rows={"inertia": rows(size, noise, first_seed)})


def rows(size: InertiaSize, noise: str, first_seed: int) -> list[dict[str, Any]]:
    """One row for each γ."""
    seeds = range(first_seed, first_seed + size.instances)
    problems = [PhaseRetrieval.from_seed(seed, size.measurements, dim=size.dim) for seed in seeds]
    signals = [PhaseRetrieval.signal(seed, size.measurements, dim=size.dim) for seed in seeds]
    oracles = [NOISES[noise](problem, B, G) for problem in problems]
    keys = [(each, *numbers) for each in size.multiples for grid in GRIDS.values() for numbers in grid]
    multiple, eta, mu = np.array(keys).T
    method = Method(Inertia(eta, mu), Normalized(multiple * size.gamma), FirstLarge(np.where(eta == 1, 1, N_INIT)))
    record = sweep(oracles, [method], steps=size.horizon - 1, seeds=seeds, progress=False)
    late = dict(zip(keys, last_tenth(record), strict=True))
    away = dict(zip(keys, _distance(record, np.array(signals)), strict=True))
    facts = {"noise": noise, "d": size.dim, "T": size.horizon, "instances": size.instances}
    return [
        {**facts, "gamma": rounded(each * size.gamma), "multiple": each, "grids": GRIDS}
        | _compared({key[1:]: values for key, values in late.items() if key[0] == each})
        | {"to_solution": {name: _means(away, each, grid) for name, grid in GRIDS.items()}}
        for each in size.multiples
    ]


def _distance(record: Record, signals: np.ndarray) -> np.ndarray:
    """‖x^K − (±x*)‖, the nearer one, (label, seed)."""
    both = [np.linalg.norm(record.last - sign * signals, axis=-1) for sign in (1, -1)]
    return np.asarray(np.minimum(*both))


def _compared(late: dict[tuple[float, float], np.ndarray]) -> dict[str, Any]:
    """The grids, the best of each, and on how many instances one method is below another."""
    half = next(iter(late.values())).size // 2
    best = {name: min(grid, key=lambda key: late[key][:half].mean()) for name, grid in GRIDS.items()}
    judged = {name: late[key][half:] for name, key in best.items()}
    scheduled = {name: late[key] for name, key in SCHEDULED.items()}
    return {
        "last_tenth": {name: [rounded(float(late[key].mean())) for key in grid] for name, grid in GRIDS.items()},
        "standard_error": {
            name: [rounded(float(late[key].std(ddof=1) / np.sqrt(late[key].size))) for key in grid]
            for name, grid in GRIDS.items()
        },
        "best": {name: {"eta_mu": best[name], "mean": rounded(float(judged[name].mean()))} for name in GRIDS},
        "below": {
            question: share_below(*((scheduled if question == "scheduled" else judged)[name] for name in pair))
            for question, pair in COMPARED.items()
        },
    }


def _means(away: dict[Any, np.ndarray], multiple: float, grid: tuple[tuple[float, float], ...]) -> list[float | None]:
    return [rounded(float(away[multiple, *key].mean())) for key in grid]


def share_below(one: np.ndarray, other: np.ndarray) -> list[float | None]:
    """The share of instances on which one is below the other, with Clopper and Pearson's interval among `SHARES`.

    >>> share_below(np.zeros(8), np.ones(8))[0]
    1.0
    """
    below = int(np.sum(one < other))
    return [rounded(each) for each in (below / one.size, *share_interval(below, one.size, 1 - FAMILY / SHARES))]
