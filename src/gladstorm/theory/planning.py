"""From the constants of a problem to a run: the theorem that applies, its schedule and its guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from gladstorm.theory import nsgdm, nstorm, nstorm_sublinear  # noqa: F401 - importing a module makes its regimes known
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import FRACTION, HORIZON, LONGEST, OutOfRange
from gladstorm.theory.search import boundary
from gladstorm.theory.statement import REGIMES, Statement
from gladstorm.theory.terms import Prescription
from gladstorm.theory.wider_classes import best_linear_class

COVERED_METHODS = tuple(sorted({method for method, _, _ in REGIMES}))


def theorem(method: str, problem: Problem, *, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The paper's statement about a method on a problem. The numbers of the problem decide which theorem applies.

    method: "nsgdm" or "nstorm".
    gamma0: γ0 of the schedule. If not given, the admissible one with the smallest leading coefficient.
    eta0: η0 in (0, 1] of the schedule, if it has one.

    >>> theorem("nsgdm", Problem(alpha=0, L0=1, B=0, G=1, gap=2)).source
    'Corollary 4.2 (Standard smoothness under bounded variance), equation (36)'
    """
    if gamma0 is not None:
        return regime(method, problem)(problem, gamma0, eta0)
    return regime(method, problem)(problem, 1.0, eta0).tune_gamma0()


def for_schedule(method: str, *, alpha: float, gamma0: float, G: float, B: float = 1.0, eta0: float = 1.0) -> Statement:
    """A statement for its η, γ and N_init only, which do not depend on the smoothness constants or the gap.

    Do not use its bound and conditions: they are for made-up constants. `plan` has those for yours. B only decides the
    kind of noise.

    >>> for_schedule("nstorm", alpha=0, gamma0=1.0, G=0.7).schedule(10_000).n_init
    49
    """
    return theorem(method, Problem(alpha=alpha, L0=1, L1=0, L=1, B=B, G=G, gap=1), gamma0=gamma0, eta0=eta0)


def for_wrapper(method: str, problem: Problem, *, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The statement about a method if the noise of `BlumGladyshev` is added to f; `problem` has f's own constants.

    >>> for_wrapper("nstorm", Problem(alpha=0, L0=3, B=4, G=1, gap=1), gamma0=1.0).problem.L
    5.0
    """
    return theorem(method, regime(method, problem).reads(problem), gamma0=gamma0, eta0=eta0)


@dataclass(frozen=True)
class Plan:
    """A statement at one horizon: print it, or ask for its schedule, its source, or all of it with `as_dict`."""

    statement: Statement  #: the theorem, with its γ0 and η0
    horizon: int  #: T, the number of iterates
    remarks: tuple[str, ...] = ()  #: what was given and is not used
    asked: Problem | None = None  #: the problem asked about, if the statement is about a wider class

    def __post_init__(self) -> None:
        self.statement.bound(self.horizon)  # refused here if it does not fit in double precision

    def __repr__(self) -> str:
        """What it says, in a few lines."""
        statement, T = self.statement, self.horizon
        eta, gamma, n_init, _ = statement.schedule(T)
        given = {field.name: getattr(self.problem, field.name) for field in fields(self.problem)}
        constants = ", ".join(f"{name}={value:g}" for name, value in given.items() if value is not None)
        violations = [f"violated:  {each}" for each in statement.violations()]
        lines = [
            f"Plan: {statement.method.upper()} for T = {counted(T)} iterates",
            f"problem:   {constants}",
            f"schedule:  gamma = {gamma:.6g}, eta = {eta:.6g}, n_init = {counted(n_init)}",
            f"bound:     E‖∇f(x̂)‖ ≤ {statement.bound(T):.6g}, for {counted(statement.sfo(T))} stochastic gradients",
            f"source:    {statement.source}",
            *self._wider(),
            *(violations or ["conditions hold"]),
            *(f"remark:    {each}" for each in self.remarks),
        ]
        return "\n".join(line if len(line) <= 100 else line[:99] + "…" for line in lines)

    @property
    def problem(self) -> Problem:
        """The problem that was asked about."""
        return self.statement.problem if self.asked is None else self.asked

    @property
    def source(self) -> str:
        """The theorem. If it is about a wider class than the problem's, also the constants in that class."""
        return "; ".join([self.statement.source, *self._wider()])

    def _wider(self) -> list[str]:
        wider, alpha = self.statement.problem, self.problem.alpha
        if wider.alpha == alpha:
            return []
        return [f"of alpha = 1: L0 = {wider.L0:.6g}, L1 = {wider.L1:.6g}, a class that contains alpha = {alpha:g}'s"]

    @property
    def schedule(self) -> Prescription:
        """η, γ, N_init and λ at the horizon."""
        return self.statement.schedule(self.horizon)

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        statement, T = self.statement, self.horizon
        eta, gamma, n_init, young_weight = self.schedule
        terms = [
            {"name": t.name, "coefficient": float(t.coefficient), "exponent": float(t.exponent), "value": t.value}
            for t in statement.terms(T)
        ]
        return {
            "method": statement.method,
            "alpha": self.problem.alpha,
            "noise": statement.noise,
            "horizon": T,
            "eta": eta,
            "gamma": gamma,
            "n_init": n_init,
            "lambda": young_weight,
            "conditions": [condition.as_dict() for condition in statement.conditions()],
            "terms": terms,
            "bound": statement.bound(T),
            "bound_as_printed": statement.bound_as_printed(T),
            "rate": float(statement.rate),
            "sfo": statement.sfo(T),
            "source": self.source,
        }


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
) -> Plan:
    """The schedule and the guarantee for a horizon, or for the smallest horizon that guarantees eps.

    method: "nsgdm" or "nstorm".
    horizon: T, the number of iterates. Give either horizon or eps.
    eps: the bound on E‖∇f(x̂)‖ to reach.
    alpha, L0, L1, L, B, G, gap: the constants of your problem, as in `Problem`.
    gamma0: γ0 of the schedule. If not given, the one with the smallest bound that satisfies the theorem's conditions.
        A value that violates a condition is no error: `plan(...).statement.violations()` says so.
    eta0: η0 in (0, 1] of the schedule; 1 if not given.

    >>> ready = plan("nstorm", horizon=10_000, alpha=0.5, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3, gamma0=0.09, eta0=0.8)
    >>> f"{ready.as_dict()['bound']:.8g}"
    '19.333623'
    """
    problem = Problem(alpha=alpha, L0=L0, L1=L1, L=L, B=B, G=G, gap=gap)
    remarks = []
    if L1 and problem.smoothness == "smooth":
        remarks.append(f"L1 is not used, as curvature does not grow with alpha = 0; got L1={L1}.")
    if eta0 is not None:
        FRACTION.require("plan", "eta0", eta0)
        if eta0 != 1 and not regime(method, problem).has_eta0:
            remarks.append(f"eta0 is not used, as this schedule has none; got eta0={eta0}.")
            eta0 = None
    choice = _Choice(method, problem, gamma0, 1.0 if eta0 is None else eta0)
    if horizon is not None and eps is None:
        HORIZON.require("plan", "horizon", horizon)
        T = int(horizon)
    elif eps is not None and horizon is None:
        T = choice.quickest(eps)
    else:
        raise ValueError(f"plan: exactly one of horizon and eps must be given; got horizon={horizon}, eps={eps}.")
    return Plan(choice.best(T), T, tuple(remarks), problem)


@dataclass(frozen=True)
class _Choice:
    """The theorems that cover a problem: that of its own class, and those of classes which contain it."""

    method: str
    problem: Problem
    gamma0: float | None  # the best one if None
    eta0: float

    def best(self, T: int) -> Statement:
        """The one of the smallest bound at T among those whose conditions hold; the problem's own if none is.

        A γ0 that was given stands for a run, so another theorem counts only if it prescribes the same run.
        """
        wider = best_linear_class(self.problem, lambda problem: self._bound(problem, T))
        if wider is None or not self._bound(wider, T) < self._bound(self.problem, T):
            return self._stated(self.problem, T)
        return self._stated(wider, T)

    def quickest(self, eps: float) -> int:
        """The smallest horizon that guarantees eps.

        The class that is best just before a horizon gives a shorter one, where another may be best; until none does.
        """
        try:
            T = self._horizon(theorem(self.method, self.problem, gamma0=self.gamma0, eta0=self.eta0), eps)
        except OutOfRange:  # of its own class; a wider one may have smaller constants
            T = LONGEST
        while T > 1 and (closer := self.best(T - 1)).bound(T - 1) <= eps:
            T = self._horizon(closer, eps)
        return T

    def _horizon(self, statement: Statement, eps: float) -> int:
        """The smallest one at which this statement, tuned unless γ0 was given, guarantees eps."""
        after = statement.horizon(eps)
        if self.gamma0 is not None:
            return after

        def enough(T: int) -> bool:
            return statement.tune_gamma0(T).bound(T) <= eps

        while after > 1 and enough(after // 2):
            after //= 2
        return boundary(enough, after // 2, after)

    def _stated(self, problem: Problem, T: int) -> Statement:
        kind = regime(self.method, problem)
        statement = kind(problem, self.gamma0 or 1.0, self.eta0 if kind.has_eta0 else 1.0)
        return statement.tune_gamma0(T) if self.gamma0 is None else statement

    def _bound(self, problem: Problem, T: int) -> float:
        """Infinite where the theorem does not hold for this run, or says nothing in double precision."""
        try:
            statement = self._stated(problem, T)
            bound = statement.bound(T)
        except OutOfRange:
            return math.inf
        return bound if self._is_asked_for(statement, T) and not statement.violations() else math.inf

    def _is_asked_for(self, statement: Statement, T: int) -> bool:
        if self.gamma0 is None or statement.problem == self.problem:
            return True
        own = regime(self.method, self.problem)(self.problem, self.gamma0, self.eta0)
        return own.schedule(T)[:3] == statement.schedule(T)[:3]


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


def counted(number: int) -> str:
    """A whole number with all its digits, or, where these are many, the first few.

    >>> counted(12345), counted(10**24)
    ('12,345', '1e+24')
    """
    return f"{number:,}" if number < 10**15 else f"{number:.4g}"


def regime(method: str, problem: Problem) -> type[Statement]:
    """The class of the statement about a method that applies to a problem."""
    setting = (problem.smoothness, problem.noise)
    if (method, *setting) not in REGIMES:
        covered = [each for each in COVERED_METHODS if (each, *setting) in REGIMES]
        raise ValueError(f"theory: method must be one of {', '.join(covered)}; got method={method!r}.")
    return REGIMES[method, *setting]
