"""The search for the worst problem of a class: proposals, evolution, and a report on seeds the search has not seen."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal, get_args

import numpy as np

from gladstorm.core.names import require_known
from gladstorm.core.parts import check
from gladstorm.core.rules import COUNT, SEED, STEPS
from gladstorm.core.statistics import mean_of
from gladstorm.jobs.progress import Progress
from gladstorm.jobs.provenance import versions
from gladstorm.methods import from_plan
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import run
from gladstorm.theory import Plan, Problem, Statement, lower_bound, sharper, theorem
from gladstorm.worst.family import ProblemClass, gap, instance
from gladstorm.worst.line import Line, LineNoise, audit
from gladstorm.worst.proposals import propose

FORMAT: Final = "gladstorm worst 1"
FIRST_SEARCH_SEED: Final = 10**6  # those below are reported
STEP: Final = 0.3  # of the evolution, at its beginning
SHARE: Final = 0.08  # of the measurement that Δ/(γT) may be where the gap is not to count: below the tenth of `worst`
#                      because a candidate's measurement is rougher, and the largest of many

ON_LINE: Final = [field.name for field in fields(Line)]  # what a problem consists of, as data
OF_NOISE: Final = [field.name for field in fields(LineNoise) if field.name != "objective"]

Kind = Literal["noise", "any"]


@dataclass(frozen=True)
class SearchSettings:
    """How much is searched and reported."""

    proposals: int = 8  # populations of them
    generations: int = 30
    population: int = 32
    seeds: int = 8  # of each candidate
    reported: int = 256  # seeds
    seed: int = 0  # of the search

    def check(self) -> None:
        """Raise a ValueError unless every number is a count; two seeds have an interval, one has none."""
        for name in ("proposals", "population", "seeds"):
            COUNT.require("worst", name, getattr(self, name))
        SEED.require("worst", "generations", self.generations)
        SEED.require("worst", "seed", self.seed)
        if self.reported < 2 or self.reported > FIRST_SEARCH_SEED:
            raise ValueError(f"worst: reported must be from 2 to {FIRST_SEARCH_SEED:,} seeds; got {self.reported}.")


QUICK: Final = SearchSettings(proposals=1, generations=2, population=4, seeds=2, reported=4)


@dataclass(frozen=True)
class Found:
    """A problem inside a class, and what was measured on it."""

    of: ProblemClass
    kind: str
    oracle: LineNoise
    norms: np.ndarray  # E‖∇f(x̂)‖ of each seed
    errors: np.ndarray  # the mean of ‖v − ∇f‖ of each seed
    proposals: tuple[int, ...] = ()  # the numbers of the best ones, for a search of the same statement at another T

    @property
    def measured(self) -> float:
        """E‖∇f(x̂)‖."""
        return float(self.norms.mean())

    @property
    def gap_share(self) -> float:
        """Δ/(γT) of this problem, relative to the measurement."""
        return gap(self.oracle) / self.of.reach / self.measured if self.measured else math.inf

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-ready: enough to measure again."""
        statement, T = self.of.statement, self.of.horizon
        second = sharper(statement, T)
        eta, gamma, n_init, _ = statement.schedule(T)
        parts = {name: getattr(self.oracle.objective, name) for name in ON_LINE}
        parts |= {name: getattr(self.oracle, name) for name in OF_NOISE}
        unreachable = None  # the ε that no method guarantees at the same cost, where `lower_bound` has one
        if statement.corrects_drift and statement.noise == "bg0":
            unreachable = lower_bound(statement.problem, 1.0).unreachable(statement.sfo(T)) or None
        return {
            "kind": self.kind,
            "regime": statement.regime,
            "problem": asdict(statement.problem),
            "method": statement.method,
            "gamma0": statement.gamma0,
            "eta0": statement.eta0,
            "horizon": T,
            "schedule": {"gamma": gamma, "eta": eta, "n_init": n_init},
            "instance": {name: np.asarray(value).tolist() for name, value in parts.items()},
            "audit": audit(self.oracle, statement, self.of.reach),
            "seeds": self.norms.size,
            "measured": self.measured,
            "interval": list(mean_of(self.norms).interval()),
            "mean_error": float(self.errors.mean()),
            "gap_share": self.gap_share,
            "bound": statement.bound(T),
            "sharper": second.bound if second else None,
            "sharper_source": second.source if second else None,
            "printed": statement.bound_as_printed(T),
            "unreachable": unreachable,
            "ratio": self.measured / statement.bound(T),
            "ratio_to_sharper": self.measured / second.bound if second else None,
            "terms": {term.name: term.value for term in statement.terms(T)},
            "versions": versions(),
        }


def stated(method: str, problem: Problem, T: int, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The statement whose class is searched; without γ0, with the best one at T."""
    for rule in (COUNT, STEPS):
        rule.require("worst", "horizon", T)
    statement = theorem(method, problem, gamma0=gamma0, eta0=eta0)
    if gamma0 is None:
        statement = statement.tune_gamma0(T)
    if violations := statement.violations():
        raise ValueError(violations[0])
    steepest = "L" if "L" in statement.needs() else "L0"
    if getattr(statement, steepest) == 0:
        raise ValueError("worst: L0 (of nstorm with alpha = 0, L) must be > 0, f' changes by it; got 0.")
    return statement


def worst(
    statement: Statement,
    horizon: int,
    kind: str = "noise",
    settings: SearchSettings | None = None,
    *,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
    begin: Sequence[int] = (),
) -> Found:
    """Search for the problem on which a statement's method and schedule do worst, among those of its class.

    Args:
        statement: The theorem with its constants.
        horizon: T, the number of iterates.
        kind: "any", or "noise": a problem then counts in full only where the way down, Δ/(γT), is at most a tenth of
            what is measured.
        settings: How much is searched and reported.
        progress: Whether to show progress.
        store, executor: Those of `sweep`.
        begin: Numbers of proposals to try first. A proposal adapts to the horizon: what is bad at one is often bad at
            another.
    """
    settings = settings or SearchSettings()
    settings.check()
    require_kind(kind, statement)
    of = ProblemClass(statement, horizon)
    sweeps: dict[str, Any] = {"store": store, "executor": executor}
    chunk, first = settings.population, FIRST_SEARCH_SEED

    def proposed(number: int) -> np.ndarray:
        return propose(np.random.default_rng([settings.seed, number]), of, with_gap=kind == "any")

    def values(vectors: Sequence[np.ndarray]) -> np.ndarray:
        nonlocal first
        oracles = [instance(vector, of) for vector in vectors]
        seeds = range(first, first + len(oracles) * settings.seeds)
        first = seeds.stop
        record = _run([oracle for oracle in oracles for _ in range(settings.seeds)], of, seeds, **sweeps)
        norms = record.mean_grad_norm[0, :, -1].reshape(len(oracles), -1).mean(axis=1)
        return norms if kind == "any" else counted(norms, np.array([gap(oracle) for oracle in oracles]) / of.reach)

    numbers = list(dict.fromkeys([*begin, *range(settings.proposals * chunk)]))[: settings.proposals * chunk]
    scores: list[float] = []
    with Progress("searching", settings.proposals + settings.generations + 1) as shown:
        for done in range(settings.proposals):
            scores += values([proposed(number) for number in numbers[done * chunk : (done + 1) * chunk]]).tolist()
            if progress:
                shown(done + 1)
        best = [numbers[place] for place in np.argsort(-np.array(scores), kind="stable")[: chunk - 1]]
        evolution = Evolution(proposed(best[0]), STEP, chunk, np.random.default_rng(settings.seed))
        for done in range(settings.generations):
            evolution.tell(values(list(evolution.ask())))
            if progress:
                shown(settings.proposals + done + 1)
        finalists = [*(proposed(number) for number in best), evolution.mean]
        order = np.argsort(-values(finalists), kind="stable")
    ranked = tuple(best[place] for place in order if place < len(best))
    chosen = instance(finalists[order[0]], of)
    return replace(measure(of, kind, chosen, settings.reported, **sweeps), proposals=ranked)


def require_kind(kind: str, statement: Statement) -> None:
    """Raise a ValueError unless problems of this kind can be searched for."""
    require_known("worst: kind", kind, get_args(Kind))
    if kind == "noise" and statement.noise == "deterministic":
        raise ValueError("worst: kind must be any where there is no noise; got kind='noise' with B = G = 0.")


def counted(norms: np.ndarray, ways: np.ndarray) -> np.ndarray:
    """What measurements count for where the way down, Δ/(γT), is limited: the more it is, the less.

    >>> counted(np.array([1.0, 1.0, 0.0]), np.array([0.05, 0.16, 0.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    allowed = SHARE * norms
    counts: np.ndarray = norms * np.divide(allowed, ways, out=np.ones_like(norms), where=ways > allowed)
    return counts


def measure(of: ProblemClass, kind: str, oracle: LineNoise, seeds: int, **sweeps: Any) -> Found:
    """Measure a problem on the seeds 0, 1, …; `store` and `executor` are those of `sweep`."""
    record = _run(oracle, of, range(seeds), **sweeps)
    return Found(of, kind, oracle, record.mean_grad_norm[0, :, -1], record.mean_error[0, :, -1])


def again(kept: Mapping[str, Any], *, store: str | os.PathLike[str] | None = None, executor: Any = None) -> Found:
    """Measure a problem that `as_dict` described once more: the same numbers on the same machine.

    Raises:
        ValueError: If it describes none; the sentence says what is missing or wrong.
    """
    try:
        of, oracle = _described(kept)
        kind, seeds = kept["kind"], COUNT.whole("worst", "seeds", kept["seeds"])
        require_kind(kind, of.statement)
        SearchSettings(reported=seeds).check()
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        what = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem).rstrip(".")
        raise ValueError(f"worst: the file must hold a problem, as `gladstorm worst` writes it; got: {what}.") from None
    return measure(of, kind, oracle, seeds, store=store, executor=executor)


def _described(kept: Mapping[str, Any]) -> tuple[ProblemClass, LineNoise]:
    """The class and the problem that `as_dict` described."""
    horizon = COUNT.whole("worst", "horizon", kept["horizon"])
    statement = stated(kept["method"], Problem(**kept["problem"]), horizon, float(kept["gamma0"]), kept["eta0"])
    data = {
        name: np.asarray(value, float) if isinstance(value, list) else float(value)
        for name, value in kept["instance"].items()
    }
    line = Line(**{name: data[name] for name in ON_LINE})
    oracle = LineNoise(line, **{name: data[name] for name in OF_NOISE})
    check(oracle)
    pieces = np.shape(line.left)
    shapes = {"start": (1,), "left": pieces, "width": pieces, "slope": pieces, "first": (), "lowest": ()}
    shapes |= {"B": (), "G": (), "q": (2,), "share": (2,), "turns": (*pieces, 2)}
    for name, shape in shapes.items():
        if np.shape(data[name]) != shape:
            raise ValueError(f"{name} has the shape {np.shape(data[name])} in place of {shape}")
    return ProblemClass(statement, horizon), oracle


def _run(oracle: LineNoise | list[LineNoise], of: ProblemClass, seeds: range, **sweeps: Any) -> Record:
    method = from_plan(Plan(of.statement, of.horizon))
    return run(oracle, method, steps=of.horizon - 1, seeds=seeds, records=1, progress=False, **sweeps)


class Evolution:
    """A normal distribution that moves towards vectors of large value. `ask`, evaluate, `tell`, and again.

    It is covariance matrix adaptation, the (μ/μ_w, λ) strategy of Hansen (arXiv:1604.00772) with the constants
    recommended there. Not the package `cmaes`: its weights of the worse half are negative, so that from the second
    generation on it searches elsewhere even with the same random numbers, and the published numbers of `worst` and
    `tightness` are those of this search.

    `step` is σ, about how far from the mean the best vector may be, and `population` is λ.
    """

    def __init__(self, mean: np.ndarray, step: float, population: int, rng: np.random.Generator) -> None:
        self.mean, self.step, self.population, self.rng = mean, step, population, rng
        self._covariance, self._generation = np.eye(mean.size), 0
        self._path, self._covariance_path = np.zeros(mean.size), np.zeros(mean.size)

    def ask(self) -> np.ndarray:
        """λ vectors, a row each."""
        scales, axes = np.linalg.eigh(self._covariance)
        self._root = axes * np.sqrt(np.maximum(scales, 1e-20))
        self._drawn = self.rng.normal(size=(self.population, self.mean.size))
        asked: np.ndarray = self.mean + self.step * self._drawn @ self._root.T
        return asked

    def tell(self, values: np.ndarray) -> None:
        """The values of the vectors asked for last: the better half moves the mean, their spread the covariance."""
        n, best = self.mean.size, np.argsort(-values)[: self.population // 2]
        weights = math.log(self.population / 2 + 0.5) - np.log(np.arange(1, best.size + 1))
        weights /= weights.sum()
        mass = 1 / np.sum(weights**2)  # μ_eff
        for_path = (mass + 2) / (n + mass + 5)  # c_σ
        for_covariance = (4 + mass / n) / (n + 4 + 2 * mass / n)  # c_c
        rank_one = 2 / ((n + 1.3) ** 2 + mass)  # c_1
        many = min(1 - rank_one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))  # c_μ
        damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + for_path
        usual = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # E‖N(0, I)‖

        moves = self._drawn[best] @ self._root.T
        move, drawn = weights @ moves, weights @ self._drawn[best]
        axes = self._root / np.linalg.norm(self._root, axis=0)
        self.mean = self.mean + self.step * move
        self._generation += 1
        self._path = (1 - for_path) * self._path + math.sqrt(for_path * (2 - for_path) * mass) * (axes @ drawn)
        length = np.linalg.norm(self._path) / math.sqrt(1 - (1 - for_path) ** (2 * self._generation))
        steady = float(length < (1.4 + 2 / (n + 1)) * usual)
        self._covariance_path = (1 - for_covariance) * self._covariance_path + steady * move * math.sqrt(
            for_covariance * (2 - for_covariance) * mass
        )
        self._covariance = (
            (1 - rank_one - many + rank_one * (1 - steady) * for_covariance * (2 - for_covariance)) * self._covariance
            + rank_one * np.outer(self._covariance_path, self._covariance_path)
            + many * (moves.T * weights) @ moves
        )
        self.step *= math.exp(for_path / damping * (np.linalg.norm(self._path) / usual - 1))
