"""The search for the worst problem of a class: proposals, evolution, and a report on seeds the search has not seen."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from cmaes import CMA

from gladstorm.core.estimate import Estimate
from gladstorm.core.names import require_known
from gladstorm.core.results import from_json
from gladstorm.core.rules import COUNT, SEED, STEPS
from gladstorm.jobs.progress import Progress
from gladstorm.jobs.provenance import versions
from gladstorm.methods import from_plan
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import run
from gladstorm.theory import Plan, Problem, Statement, lower_bound, sharper, theorem
from gladstorm.theory.every_setting import free_run
from gladstorm.worst.family import ProblemClass, instance, propose
from gladstorm.worst.line import LineNoise, LineProblem, audit

FORMAT: Final = "gladstorm worst 2"
FIRST_SEARCH_SEED: Final = 10**6  # those below are reported
STEP: Final = 0.3  # of the evolution, at its beginning
LARGEST_WAY: Final = 0.1  # of the measurement: Δ/(γT) where noise alone is to count
LARGEST_WAY_SOUGHT: Final = 0.08  # less, because a candidate's measurement is rougher, and the largest of many

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
        for name in ("proposals", "seeds"):
            COUNT.require("worst", name, getattr(self, name))
        SEED.require("worst", "generations", self.generations)
        SEED.require("worst", "seed", self.seed)
        if self.population < 4:
            raise ValueError(f"worst: population must be a whole number ≥ 4; got population={self.population}.")
        if self.reported < 2 or self.reported > FIRST_SEARCH_SEED:
            raise ValueError(f"worst: reported must be from 2 to {FIRST_SEARCH_SEED:,} seeds; got {self.reported}.")


QUICK: Final = SearchSettings(proposals=1, generations=2, population=4, seeds=2, reported=4)


@dataclass(frozen=True, kw_only=True)
class WorstProblem:
    """A problem inside a class and what was measured on it, as worst.json has it: enough to measure it again."""

    method: str
    problem: Problem
    gamma0: float
    eta0: float
    horizon: int
    kind: Kind
    instance: LineProblem
    per_seed: tuple[float, ...]  # E‖∇f(x̂)‖ of each seed
    proposals: tuple[int, ...] = ()  # numbers of the best ones, for a search of the same statement at another horizon
    regime: str
    schedule: dict[str, float]
    measured: Estimate  # the mean over seeds
    mean_error: float  # E‖v − ∇f‖
    gap_share: float | None  # Δ/(γT) relative to the measurement; None where that is 0
    audit: dict[str, float]  # used of what the class admits
    terms: dict[str, float]
    bound: float
    printed: float
    sharper: float | None
    sharper_source: str | None
    unreachable: float | None  # the ε that no method guarantees at the same cost, where `lower_bound` has one
    versions: dict[str, Any]

    @property
    def mean(self) -> float:
        """The measured mean of E‖∇f(x̂)‖ over seeds."""
        return float(np.mean(self.per_seed))

    @property
    def ratio(self) -> float:
        """The measurement relative to the bound."""
        return self.mean / self.bound

    @property
    def ratio_to_sharper(self) -> float | None:
        """The measurement relative to the sharper bound, where there is one."""
        return None if self.sharper is None else self.mean / self.sharper


def stated(method: str, problem: Problem, T: int, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """Make the statement whose class is searched; without γ0, with the best one at T.

    Noise of another growth than 2 is for NSGDM with α = 0 alone: samples of NSTORM may not differ by as much near x⁰.
    """
    for rule in (COUNT, STEPS):
        rule.require("worst", "horizon", T)
    if problem.growth == 2:
        statement = theorem(method, problem, gamma0=gamma0, eta0=eta0)
    elif (method, problem.alpha) == ("nsgdm", 0):
        statement = replace(free_run(method, problem), gamma0=1.0 if gamma0 is None else gamma0, eta0=eta0)
    else:
        raise ValueError(f"worst: growth must be 2, but for nsgdm with alpha = 0; got growth={problem.growth:g}.")
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
) -> WorstProblem:
    """Search for the problem on which a statement's method and schedule do worst, among those of its class.

    Args:
        statement: The theorem with its constants.
        horizon: T, the number of iterates.
        kind: "any", or "noise": only problems on which the way down, Δ/(γT), is at most a tenth of what is measured.
        settings: How much is searched and reported.
        progress: Whether to show progress.
        store, executor: Those of `sweep`.
        begin: Numbers of proposals to try first. A proposal adapts to the horizon: what is bad at one is often bad at
            another.

    Raises:
        ValueError: If an argument is wrong, or no problem of this kind was found.
    """
    settings = settings or SearchSettings()
    settings.check()
    require_kind(kind, statement)
    of = ProblemClass(statement, horizon)
    sweeps: dict[str, Any] = {"store": store, "executor": executor}
    chunk, first = settings.population, FIRST_SEARCH_SEED

    def proposed(number: int) -> np.ndarray:
        return propose(np.random.default_rng([settings.seed, number]), of, with_gap=kind == "any")

    def measured(vectors: Sequence[np.ndarray]) -> np.ndarray:
        """Measure candidates on seeds of their own: (E‖∇f(x̂)‖, Δ/(γT)) of each."""
        nonlocal first
        problems = [instance(vector, of) for vector in vectors]
        seeds = range(first, first + len(problems) * settings.seeds)
        first = seeds.stop
        record = _run([_with_noise(each, of) for each in problems for _ in range(settings.seeds)], of, seeds, **sweeps)
        norms = record.mean_grad_norm[0, :, -1].reshape(len(problems), -1).mean(axis=1)
        return np.column_stack([norms, [each.gap() / of.reach for each in problems]])

    numbers = list(dict.fromkeys([*begin, *range(settings.proposals * chunk)]))[: settings.proposals * chunk]
    scores: list[np.ndarray] = []
    with Progress("searching", settings.proposals + settings.generations + 1) as shown:
        for done in range(settings.proposals):
            scores.append(measured([proposed(number) for number in numbers[done * chunk : (done + 1) * chunk]]))
            if progress:
                shown(done + 1)
        best = [numbers[place] for place in worst_first(np.concatenate(scores), kind)[: chunk - 1]]
        evolution = CMA(proposed(best[0]), STEP, seed=settings.seed, population_size=chunk)
        for done in range(settings.generations):
            vectors = [evolution.ask() for _ in range(chunk)]
            order = worst_first(measured(vectors), kind)
            evolution.tell([(vectors[place], float(rank)) for rank, place in enumerate(order)])
            if progress:
                shown(settings.proposals + done + 1)
        finalists = [*(proposed(number) for number in best), evolution.mean]
        order = worst_first(measured(finalists), kind)
    ranked = tuple(best[place] for place in order if place < len(best))
    for place in order:
        worst_problem = measure(of, kind, instance(finalists[place], of), settings.reported, ranked, **sweeps)
        if kind == "any" or (worst_problem.gap_share or 0.0) <= LARGEST_WAY:
            return worst_problem
    raise ValueError(
        "worst: kind must be any, or more must be searched: on no problem found is the descent, Δ/(γT), at most a "
        f"tenth of what is measured; got kind={kind!r} with {settings}."
    )


def require_kind(kind: str, statement: Statement) -> None:
    """Raise a ValueError unless problems of this kind can be searched for."""
    require_known("worst: kind", kind, get_args(Kind))
    if kind == "noise" and statement.noise == "deterministic":
        raise ValueError("worst: kind must be any where there is no noise; got kind='noise' with B = G = 0.")


def worst_first(scores: np.ndarray, kind: str) -> np.ndarray:
    """Order candidates, rows of norm and way down: those inside their kind first, by norm; then by how far outside.

    >>> scores = np.array([[1.0, 0.0], [9.0, 9.0], [2.0, 0.1], [5.0, 2.0]])
    >>> worst_first(scores, "noise").tolist(), worst_first(scores, "any").tolist()
    ([2, 0, 3, 1], [1, 3, 2, 0])
    """
    norms, ways = scores.T
    outside = (ways > LARGEST_WAY_SOUGHT * norms) & (kind == "noise")
    shares = np.divide(ways, norms, out=np.full_like(norms, np.inf), where=norms > 0)
    return np.lexsort((np.where(outside, shares, -norms), outside))


def measure(
    of: ProblemClass, kind: str, problem: LineProblem, seeds: int, proposals: tuple[int, ...] = (), **sweeps: Any
) -> WorstProblem:
    """Measure a problem on the seeds 0, 1, …; `store` and `executor` are those of `sweep`."""
    statement, T, oracle = of.statement, of.horizon, _with_noise(problem, of)
    record = _run(oracle, of, range(seeds), **sweeps)
    norms = record.mean_grad_norm[0, :, -1]
    second, mean = sharper(statement, T), float(np.mean(norms))
    unreachable = None
    if statement.corrects_drift and statement.noise == "bg0":
        unreachable = lower_bound(statement.problem, 1.0).unreachable(statement.sfo(T)) or None
    eta, gamma, n_init, _ = statement.schedule(T)
    require_kind(kind, statement)
    return WorstProblem(
        method=statement.method,
        problem=statement.problem,
        gamma0=statement.gamma0,
        eta0=statement.eta0,
        horizon=T,
        kind="any" if kind == "any" else "noise",
        instance=problem,
        per_seed=tuple(norms.tolist()),
        proposals=proposals,
        regime=statement.regime,
        schedule={"gamma": gamma, "eta": eta, "n_init": n_init},
        measured=Estimate.of_mean(norms),
        mean_error=float(record.mean_error[0, :, -1].mean()),
        gap_share=problem.gap() / of.reach / mean if mean else None,
        audit=audit(oracle, statement, of.reach),
        terms={term.name: term.value for term in statement.terms(T)},
        bound=statement.bound(T),
        printed=statement.bound_as_printed(T),
        sharper=second.bound if second else None,
        sharper_source=second.source if second else None,
        unreachable=unreachable,
        versions=versions(),
    )


def again(
    content: Mapping[str, Any], *, store: str | os.PathLike[str] | None = None, executor: Any = None
) -> WorstProblem:
    """Measure a problem of a worst.json once more: the same numbers on the same machine.

    Raises:
        ValueError: If the file describes none; the sentence says what is missing or wrong.
    """
    try:
        described = from_json(WorstProblem, {name: content[name] for name in content if name != "format"}, "worst.json")
        statement = stated(described.method, described.problem, described.horizon, described.gamma0, described.eta0)
        require_kind(described.kind, statement)
        SearchSettings(reported=len(described.per_seed)).check()
        of = ProblemClass(statement, described.horizon)
        _with_noise(described.instance, of)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        what = str(problem).rstrip(".")
        raise ValueError(f"worst: the file must hold a problem, as `gladstorm worst` writes it; got: {what}.") from None
    return measure(
        of,
        described.kind,
        described.instance,
        len(described.per_seed),
        described.proposals,
        store=store,
        executor=executor,
    )


def _with_noise(problem: LineProblem, of: ProblemClass) -> LineNoise:
    noise = of.statement.problem
    return problem.oracle(noise.B, noise.G, noise.growth)


def _run(oracle: LineNoise | list[LineNoise], of: ProblemClass, seeds: range, **sweeps: Any) -> Record:
    method = from_plan(Plan(of.statement, of.horizon))
    return run(oracle, method, steps=of.horizon - 1, seeds=seeds, records=1, progress=False, **sweeps)
