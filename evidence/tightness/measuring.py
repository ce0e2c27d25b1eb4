"""How much of every bound is attained: the worst problems of all regimes, along ladders of horizons.

A setting is a regime with constants that let one kind of term lead: then a ratio to the bound is one to that term, and
by scaling its order in the constants is settled with its factor. Multiplying f and the noise by t multiplies L0, L, B,
G, Δ and every ‖∇f‖ by t; stretching x by s multiplies γ0 by s, divides L0, L and B by s and leaves ‖∇f‖ as it is. What
scaling does not settle is the order in T, and that is what the ladder is for.
"""

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from evidence.page import log_slope_weights
from evidence.results import Part, gathered
from evidence.verification.estimator_error import TERMS
from gladstorm.core.estimate import Estimate
from gladstorm.core.results import from_json, to_json
from gladstorm.core.statistics import Mean
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.tasks import HERE, Executor, Store, Task
from gladstorm.theory import Problem, Statement, sharper
from gladstorm.theory.planning import regime
from gladstorm.worst.search import QUICK, Kind, SearchSettings, WorstProblem, stated, worst

TABLE_FORMAT: Final = "gladstorm tightness 2"
HORIZONS: Final = (1000, 4000, 16_000)
FULL: Final = SearchSettings(proposals=6, generations=4, seeds=4, reported=64)
BRIEF: Final = replace(FULL, proposals=2, generations=0)  # where the gap leads: proposals are nearly all there is
FURTHER: Final = replace(FULL, proposals=1, generations=0, population=16)  # at later horizons, from the one before
MARGIN: Final = 0.03  # of an exponent: closer than to any other term's


@dataclass(frozen=True)
class Setting:
    """A regime, constants, and the terms they let lead."""

    leading: str
    method: str
    alpha: float
    B: float
    G: float
    L0: float  # or L, if the statement asks for that
    L1: float = 0.01  # for statements that ask for it: those with alpha > 0
    gap: float = 1e-3
    gamma0: float | None = 1.0
    eta0: float = 1.0
    kind: Kind = "noise"

    def statement(self) -> Statement:
        """The theorem of the paper; L0 stands for L where the statement asks for that."""
        problem = Problem(alpha=self.alpha, L0=self.L0, B=self.B, G=self.G, gap=self.gap)
        constants = {"L0": self.L0, "L1": self.L1, "L": self.L0}
        needed: dict[str, Any] = {name: constants[name] for name in regime(self.method, problem).needs()}
        problem = replace(problem, **needed)
        return stated(self.method, problem, HORIZONS[0], self.gamma0, self.eta0)

    def ladder(self) -> dict[int, SearchSettings]:
        """How much is searched at each horizon."""
        return dict(zip(HORIZONS, (FULL if self.kind == "noise" else BRIEF, FURTHER, FURTHER), strict=True))

    @property
    def name(self) -> str:
        """The regime and what leads."""
        return f"{self.statement().regime}, {self.leading}"


def _settings() -> tuple[Setting, ...]:
    """Settings of each noisy regime: noise alone leading, with little of a gap; the gap leading, as on the way down."""
    settings = []
    for alpha in (0.0, 0.5, 1.0):
        settings += [
            Setting("noise", "nsgdm", alpha, B=0.0, G=1.0, L0=0.2),
            Setting("noise", "nsgdm", alpha, B=0.01, G=1.0, L0=0.2),
            Setting("noise growth", "nsgdm", alpha, B=1.0, G=0.01, L0=0.2, gap=0.01),
            Setting("initial error", "nstorm", alpha, B=0.0, G=1.0, L0=0.3, L1=0.001, eta0=0.1),
            Setting("noise", "nstorm", alpha, B=0.0, G=1.0, L0=0.1, L1=0.001),
            Setting("initial error", "nstorm", alpha, B=0.01, G=0.1, L0=0.1 if alpha < 1 else 0.2, L1=0.001),
            Setting("noise growth", "nstorm", alpha, B=1.0, G=0.01, L0=1.2, L1=0.001, gap=0.01),
        ]
        for method in ("nsgdm", "nstorm"):
            for B, G in ((0.1, 0.1), (0.0, 0.1)):
                settings.append(Setting("gap", method, alpha, B, G, L0=0.2, L1=0.001, gap=4.0, kind="any"))
            # Smooth: at the best γ0 gap and curvature are equal. Else the bounds have more factors on the curvature.
            gamma0 = 0.05 if alpha else None
            settings.append(Setting("gap", method, alpha, 0.0, 0.0, L0=1.0, L1=0.1, gap=1.0, gamma0=gamma0, kind="any"))
    return tuple(settings)


SETTINGS: Final = _settings()


@dataclass(frozen=True)
class Uses:
    """Looseness of the proof: what the worst problem leaves of its two inequalities, each at most 1 but for rounding.

    `direction`: E‖∇f(x̂)‖ relative to Δ/(γT) + 2 E‖v − ∇f‖, the descent of normalized steps. `error`: E‖v − ∇f‖ relative
    to what the sharper bound charges for it, half of its terms about the error of v.
    """

    direction: float | None
    error: float | None


@dataclass(frozen=True)
class HorizonLadder:
    """A setting with its worst problem at each horizon."""

    regime: str
    leading: str
    kind: Kind
    source: str
    rate: float
    slope: Estimate  # of log E‖∇f(x̂)‖ against log T, as those of the bounds
    slope_of_bound: float
    slope_of_sharper: float | None
    uses: Uses
    rungs: tuple[WorstProblem, ...]

    @property
    def longest(self) -> WorstProblem:
        """The worst problem at the longest horizon."""
        return self.rungs[-1]


@dataclass(frozen=True)
class Tightness:
    """Results of the study: every setting with its ladder."""

    horizons: tuple[int, ...]
    versions: dict[str, Any]
    rows: tuple[HorizonLadder, ...]


def tightness(
    *, quick: bool = False, store: str | os.PathLike[str] | None = None, executor: Executor = HERE
) -> Tightness:
    """Find the worst problem of every setting at each horizon."""
    settings = [setting for setting in SETTINGS if setting.alpha == 0 and setting.B > 0] if quick else SETTINGS
    ladders = [{20: QUICK, 40: QUICK} if quick else setting.ladder() for setting in settings]
    tasks = [
        Task(setting.name, [repr(setting), repr(ladder)], partial(_row, setting, ladder))
        for setting, ladder in zip(settings, ladders, strict=True)
    ]
    finished = None if store is None else Store(store, Part, ".json")
    rows = (from_json(HorizonLadder, part.content) for part in gathered("searching", tasks, finished, executor))
    return Tightness(tuple(ladders[0]), versions(), tuple(rows))


def _row(setting: Setting, efforts: dict[int, SearchSettings]) -> Part:
    statement = setting.statement()
    rungs: list[WorstProblem] = []
    for T, effort in efforts.items():
        begin = rungs[-1].proposals if rungs else ()
        rungs.append(worst(statement, T, setting.kind, effort, progress=False, begin=begin))
    weights = log_slope_weights(list(efforts))
    sharper_bounds = [rung.sharper for rung in rungs if rung.sharper is not None]
    ladder = HorizonLadder(
        regime=statement.regime,
        leading=setting.leading,
        kind=setting.kind,
        source=statement.source,
        rate=float(statement.rate),
        slope=slope_of(np.array([rung.per_seed for rung in rungs]), weights),
        slope_of_bound=float(weights @ np.log([rung.bound for rung in rungs])),
        slope_of_sharper=float(weights @ np.log(sharper_bounds)) if len(sharper_bounds) == len(rungs) else None,
        uses=uses(statement, rungs[-1]),
        rungs=tuple(rungs),
    )
    return Part(to_json(ladder))


def slope_of(norms: np.ndarray, weights: np.ndarray) -> Estimate:
    """Fit the slope of log E‖∇f(x̂)‖ along a ladder of (horizon, seed), by leaving out one seed after the other.

    Horizons share their seeds, so they are not independent; the jackknife takes that into account.
    """
    n = norms.shape[1]
    slope = float(weights @ np.log(norms.mean(axis=1)))
    without = weights @ np.log((norms.sum(axis=1, keepdims=True) - norms) / (n - 1))
    error = float(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))
    return Estimate(slope, *Mean(slope, error * np.sqrt(n), n).interval())


def uses(statement: Statement, worst_problem: WorstProblem) -> Uses:
    """Measure how much of each inequality of the proof the worst problem uses."""
    measured, error = worst_problem.mean, worst_problem.mean_error
    if not error:
        return Uses(None, None)
    direction = measured / ((worst_problem.gap_share or 0.0) * measured + 2 * error)
    second = sharper(statement, worst_problem.horizon)
    if second is None:
        return Uses(direction, None)
    charged = sum(value for name, value in second.terms().items() if name.startswith(TERMS))
    return Uses(direction, 2 * error / charged)
