"""Plans, from the constants of a problem to a run: the theorem that applies, its schedule and its guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gladstorm.theory import nsgdm, nstorm
from gladstorm.theory.class_constants import best_linear_class, flat_classes, in_norm, wrapped
from gladstorm.theory.every_setting import OwnSchedule, free_run, takes_own
from gladstorm.theory.plans import Plan
from gladstorm.theory.problem import EUCLID, PAPER_GROWTH, Decay, Norm, Problem
from gladstorm.theory.rules import FRACTION, HORIZON, LONGEST, POSITIVE, OutOfRange
from gladstorm.theory.search import boundary
from gladstorm.theory.sgd import PlainSgd
from gladstorm.theory.statement import REGIMES, Regime, Statement

for row in (*nstorm.ROWS, *nsgdm.ROWS):
    REGIMES[row.kind.method, row.smoothness, row.noise] = row
COVERED_METHODS = ("nsgdm", "nstorm")  # by a theorem of the paper
PLANNED_METHODS = (*COVERED_METHODS, PlainSgd.method)


def theorem(method: str, problem: Problem, *, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The paper's statement about a method on a problem. The numbers of the problem decide which theorem applies.

    Args:
        method, problem: "nsgdm" or "nstorm", and the constants.
        gamma0: γ0 of the schedule. If not given, the admissible one with the smallest leading coefficient.
        eta0: η0 in (0, 1] of the schedule, if it has one.

    >>> theorem("nsgdm", Problem(alpha=0, L0=1, B=0, G=1, gap=2)).source
    'Corollary 4.2 (Standard smoothness under bounded variance), equation (36)'
    """
    return _stated(regime(method, problem).kind, problem, gamma0, eta0)


def for_schedule(method: str, *, alpha: float, gamma0: float, G: float, B: float = 1.0, eta0: float = 1.0) -> Statement:
    """A statement for its η, γ and N_init only, which do not depend on the smoothness constants or the gap.

    Do not use its bound and conditions: they are for made-up constants. `plan` has those for yours.

    Args:
        method, alpha, gamma0, G, eta0: As in `theorem` and `Problem`.
        B: Growth of the noise; only whether it is 0 matters.

    >>> for_schedule("nstorm", alpha=0, gamma0=1.0, G=0.7).schedule(10_000).n_init
    49
    """
    return theorem(method, Problem(alpha=alpha, L0=1, L1=0, L=1, B=B, G=G, gap=1), gamma0=gamma0, eta0=eta0)


def for_wrapper(method: str, problem: Problem, *, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The statement about a method if the noise of `BlumGladyshev` is added to f.

    Args:
        method, gamma0, eta0: As in `theorem`.
        problem: The problem with f's own constants.

    >>> for_wrapper("nstorm", Problem(alpha=0, L0=3, B=4, G=1, gap=1), gamma0=1.0).problem.L
    5.0
    """
    return theorem(method, regime(method, problem).kind.reads(problem), gamma0=gamma0, eta0=eta0)


def plan(
    method: str,
    *,
    horizon: int | None = None,
    eps: float | None = None,
    alpha: float,
    L0: float | None = None,
    L1: float | None = None,
    L: float | None = None,
    B: float,
    G: float,
    gap: float,
    gamma0: float | None = None,
    eta0: float | None = None,
    growth: float = PAPER_GROWTH,
    norm: Norm | str = EUCLID,
    constants: str | None = None,
    decay: Decay | None = None,
    batch: str = "one",
    excess: float = 1.0,
) -> Plan:
    """The schedule and the guarantee for a horizon, or for the smallest horizon that guarantees eps.

    Args:
        method: "nsgdm", "nstorm" or "sgd".
        horizon: T, the number of iterates. Give either horizon or eps.
        eps: the bound on E‖∇f(x̂)‖ to reach.
        alpha, L0, L1, L, B, G, gap, growth: Those of `Problem`.
        gamma0: γ0 of the schedule. If not given, the admissible one with the smallest bound; for NSTORM under BG-0
            noise and α > 0 S9, if eta0 is not given either and it is better. A value that violates a condition is no
            error: `plan(...).statement.violations()` says so.
        eta0: η0 in (0, 1] of the schedule; 1 if not given.
        norm: In which steps have length 1: euclid, sign(d), spectral(m, n), layers(…), or a `Norm`; the bound is in its
            dual norm. With another growth or norm than the paper's, with decay, and for SGD, γ and η are those with the
            smallest bound, so gamma0 and eta0 must be left out.
        constants: In another norm than euclid: "norm" if L0, L1, L and B are those of this norm, or "euclid" if they
            are Euclidean and must be converted, which makes them larger (`in_norm`).
        decay: Of the weights: the bound is on Ψ(x̂), or on ‖∇f(x̂)‖ if f grows outwards (`Decay`).
        batch: "one", or for SGD "sigma" or "sigma2": batches that grow like the noise's deviation or variance.
        excess: x: such batches take 1 + x times the fewest samples, and 1 + 1/x times the fewest steps.

    >>> ready = plan("nstorm", horizon=10_000, alpha=0.5, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3, gamma0=0.09, eta0=0.8)
    >>> f"{ready.as_dict()['bound']:.8g}"
    '19.333623'
    """
    if method not in PLANNED_METHODS:
        raise ValueError(f"plan: method must be one of {', '.join(PLANNED_METHODS)}; got method={method!r}.")
    step = Norm.from_text(norm) if isinstance(norm, str) else norm
    problem = Problem(alpha=alpha, L0=L0, L1=L1, L=L, B=B, G=G, gap=gap, growth=growth, norm=step, decay=decay)
    problem = _of_norm(problem, constants, of_samples=method == nstorm.Nstorm.method)
    of_paper = problem.of_paper and method in COVERED_METHODS
    free = gamma0 is None and eta0 is None
    if not (of_paper or free):
        raise ValueError(
            "plan: gamma0 and eta0 must be left out with another growth than 2 or another norm than euclid, with decay "
            f"and for sgd, where the schedule is searched; got gamma0={gamma0}, eta0={eta0}."
        )
    if method in COVERED_METHODS and batch != "one":
        raise ValueError(
            f"plan: batch must be one for {method}: Theorem H, of batches like the noise, is about sgd alone; "
            f"here any batch of b ≤ 1/η, with γ and η both b times as large, has the same guarantee at the same "
            f"samples, but for at most √2 times the noise's terms (Theorem G); got batch={batch!r}."
        )
    POSITIVE.require("plan", "excess", excess)
    remarks = []
    if L1 and problem.smoothness == "smooth":
        remarks.append(f"L1 is not used, as curvature does not grow with alpha = 0; got L1={L1}.")
    if eta0 is not None:
        FRACTION.require("plan", "eta0", eta0)
        if eta0 != 1 and not regime(method, problem).has_eta0:
            remarks.append(f"eta0 is not used, as this schedule has none; got eta0={eta0}.")
            eta0 = None
    if method in COVERED_METHODS:
        covered = regime(method, problem).kind.within_class(problem)
        own: OwnSchedule | None = free_run(method, covered) if free and takes_own(method, covered) else None
    else:
        covered, own = problem, PlainSgd(problem, 1.0, batch=batch, excess=excess)
    statement, T = _Choice(method, covered, gamma0, 1.0 if eta0 is None else eta0, own, not of_paper).at(horizon, eps)
    if decay is not None and decay.inward is None and decay.start == 0:
        weak = statement.schedule(T).gamma * decay.rate * T <= 1 / 2
        remarks += ["As λγT ≤ 1/2, ‖∇f‖ is at most 2Ψ along the run."] if weak else []
    return Plan(statement, T, tuple(remarks), problem)


def _of_norm(problem: Problem, constants: str | None, *, of_samples: bool) -> Problem:
    """The problem with constants of its norm, converted if they are Euclidean."""
    norm = problem.norm
    if norm.euclidean or constants == "norm":
        return problem
    if constants != "euclid" or norm.rho is None:
        way = "" if norm.rho is None else f", or 'euclid' to convert them: B and L by ρ = {norm.rho:.4g}, L0 by ρ²"
        raise ValueError(
            f"plan: constants must be 'norm', if they are those of norm={norm.name} and its dual{way}; "
            f"got constants={constants!r}."
        )
    return in_norm(problem, of_samples=of_samples)


def compare_plans(**given: Any) -> tuple[dict[str, Plan], dict[str, str]]:
    """Plans of all methods from the constants of f, as `plan` takes them; and why it refuses a method, where it does.

    Where `plan` keeps to the paper's schedule there is a second one with the best schedule for our sharper bound.

    NSTORM has the constants of f with the paper's noise added (`wrapped`) if that is the growth; otherwise those of
    samples are as given.

    >>> plans, refused = compare_plans(alpha=0, L0=1, B=0.5, G=1, gap=1, eps=0.1, growth=2)
    >>> for method, made in plans.items():
    ...     print(f"{method}: {made.horizon:.1g}")
    sgd: 9e+05
    nsgdm: 4e+11
    nstorm: 1e+07
    nsgdm, own schedule: 2e+08
    nstorm, own schedule: 5e+05
    """
    POSITIVE.require("plan", "excess", given.get("excess", 1.0))
    plans: dict[str, Plan] = {}
    refused: dict[str, str] = {}
    named = ("alpha", "L0", "L1", "L", "B", "G", "gap")
    f = Problem(**{name: given.get(name) for name in named})  # type: ignore[arg-type]
    for name in ("L0",) if f.alpha == 0 else ("L0", "L1"):
        f.constant("compare", name)
    of_samples: dict[str, Any] = {}
    if given.get("growth", PAPER_GROWTH) == PAPER_GROWTH and given.get("norm", EUCLID) == EUCLID:
        oracle = wrapped(f)
        of_samples = {"L0": oracle.L0, "L1": oracle.L1, "L": oracle.L if f.L is None else f.L}
    options = {"sgd": ("batch", "excess"), "nsgdm": ("gamma0", "eta0"), "nstorm": ("gamma0", "eta0")}
    for method, taken in options.items():
        left_out = {name for names in options.values() for name in names} - set(taken)
        request = {name: value for name, value in given.items() if name not in left_out}
        try:
            plans[method] = plan(method, **(request | (of_samples if method == "nstorm" else {})))
        except ValueError as refusal:
            if method == "nsgdm":
                raise
            refused[method] = str(refusal)
    if given.get("gamma0") is None and given.get("eta0") is None:
        for method in [name for name, made in plans.items() if made.statement.of_paper]:
            problem = plans[method].statement.problem
            choice = _Choice(method, problem, None, 1.0, free_run(method, problem), alone=True)
            plans[f"{method}, own schedule"] = Plan(*choice.at(given.get("horizon"), given.get("eps")))
    return plans, refused


@dataclass(frozen=True)
class _Choice:
    """The theorems that cover a problem: that of its own class, and those of classes which contain it."""

    method: str
    problem: Problem
    gamma0: float | None  # the best one if None
    eta0: float
    own: OwnSchedule | None  # this project's statement, if its schedule may be taken
    alone: bool = False  # whether only this one may

    def at(self, horizon: int | None, eps: float | None) -> tuple[Statement, int]:
        """The best for a horizon, or the quickest for an accuracy, and its horizon."""
        if horizon is not None and eps is None:
            HORIZON.require("plan", "horizon", horizon)
            return self.best(int(horizon)), int(horizon)
        if eps is not None and horizon is None:
            POSITIVE.require("plan", "eps", eps)
            return self.quickest(eps)
        raise ValueError(f"plan: exactly one of horizon and eps must be given; got horizon={horizon}, eps={eps}.")

    def best(self, T: int) -> Statement:
        """The one of the smallest bound at T among those whose conditions hold; the problem's own if none is.

        A γ0 that was given stands for a run, so another theorem counts only if it prescribes the same run.
        """
        if self.own is not None and self.alone:
            return self.own.tune(T)
        level = self.problem.constant(self.method, regime(self.method, self.problem).needs()[0])
        classes = (self.problem, *flat_classes(self.problem, level))
        if len(classes) == 1:
            wider = best_linear_class(self.problem, lambda problem: self._bound(problem, T))
            classes += () if wider is None else (wider,)
        stated = self._stated(min(classes, key=lambda problem: self._bound(problem, T)), T)
        if self.own is None:
            return stated
        tuned = self.own.tune(T)
        return tuned if tuned.bound(T) < stated.bound(T) else stated

    def quickest(self, eps: float) -> tuple[Statement, int]:
        """The smallest horizon that guarantees eps, and the statement that does.

        From the longest horizon down: the statement that is best just before a horizon gives a shorter one, where
        another may be best; until none does.
        """

        def soonest(statement: Statement, enough: int) -> tuple[Statement, int]:
            def at(T: int) -> Statement:
                return statement if self.gamma0 is not None else statement.tune_gamma0(T)

            T = boundary(lambda T: at(T).bound(T) <= eps, 0, enough)
            return at(T), T

        statement, T = self.best(LONGEST), LONGEST
        if statement.bound(T) > eps:
            raise ValueError(f"plan: eps must be reachable within 10^300 iterates; got eps={eps}.")
        while T > 1 and (closer := self.best(T - 1)).bound(T - 1) <= eps:
            statement, T = soonest(closer, T - 1)
        return statement, T

    def _stated(self, problem: Problem, T: int) -> Statement:
        row = regime(self.method, problem)
        return _stated(row.kind, problem, self.gamma0, self.eta0 if row.has_eta0 else 1.0, T)

    def _bound(self, problem: Problem, T: int) -> float:
        """Infinite where the theorem does not hold for this run, or says nothing in double precision."""
        try:
            statement = self._stated(problem, T)
            bound = statement.bound(T)
        except OutOfRange:
            return math.inf
        same_run = self.gamma0 is None or problem == self.problem
        same_run = same_run or self._stated(self.problem, T).schedule(T)[:3] == statement.schedule(T)[:3]
        return bound if same_run and not statement.violations() else math.inf


def _stated(
    kind: type[Statement], problem: Problem, gamma0: float | None, eta0: float, T: int | None = None
) -> Statement:
    """The statement with the γ0 that is given; if none is, with the best one for T, or for every T large enough."""
    return kind(problem, 1.0, eta0).tune_gamma0(T) if gamma0 is None else kind(problem, gamma0, eta0)


def overtakes(challenger: Statement, leader: Statement) -> int | None:
    """The T from which on the challenger's bound is smaller than the leader's; None if there is none up to 10^300.

    Bounds are sums of powers and may cross more than once; this is the last crossing, found by halving T from above.

    >>> problem = Problem(alpha=0, L0=1, L=1, B=0.5, G=1, gap=1)
    >>> overtakes(theorem("nstorm", problem, gamma0=3.0), theorem("nsgdm", problem, gamma0=0.25))
    1
    """

    def ahead(T: int) -> bool:
        return challenger.bound(T) < leader.bound(T)

    if not ahead(LONGEST):
        return None
    after = LONGEST
    while after > 1 and ahead(after // 2):
        after //= 2
    return boundary(ahead, after // 2, after)


def regime(method: str, problem: Problem) -> Regime:
    """The paper's row about a method that applies to a problem."""
    setting = (problem.smoothness, problem.noise)
    if (method, *setting) not in REGIMES:
        covered = [covering for covering in COVERED_METHODS if (covering, *setting) in REGIMES]
        raise ValueError(f"theory: method must be one of {', '.join(covered)}; got method={method!r}.")
    return REGIMES[method, *setting]
