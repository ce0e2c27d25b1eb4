"""Plans, from the constants of a problem to a run: the theorem that applies, its schedule and its guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gladstorm.theory import nsgdm, nstorm  # noqa: F401 - importing a module makes its regimes known
from gladstorm.theory.class_constants import best_linear_class, flat_classes
from gladstorm.theory.free_runs import free_run
from gladstorm.theory.problem import (
    EUCLID,
    FRACTION,
    HORIZON,
    LONGEST,
    PAPER_GROWTH,
    POSITIVE,
    Norm,
    OutOfRange,
    Problem,
)
from gladstorm.theory.search import boundary
from gladstorm.theory.statement import REGIMES, Prescription, Statement

if TYPE_CHECKING:
    from gladstorm.plotting.figures import Figure

COVERED_METHODS = tuple(sorted({method for method, _, _ in REGIMES}))


def theorem(method: str, problem: Problem, *, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The paper's statement about a method on a problem. The numbers of the problem decide which theorem applies.

    Args:
        method: "nsgdm" or "nstorm".
        problem: the constants of the problem.
        gamma0: γ0 of the schedule. If not given, the admissible one with the smallest leading coefficient.
        eta0: η0 in (0, 1] of the schedule, if it has one.

    >>> theorem("nsgdm", Problem(alpha=0, L0=1, B=0, G=1, gap=2)).source
    'Corollary 4.2 (Standard smoothness under bounded variance), equation (36)'
    """
    return _stated(regime(method, problem), problem, gamma0, eta0)


def for_schedule(method: str, *, alpha: float, gamma0: float, G: float, B: float = 1.0, eta0: float = 1.0) -> Statement:
    """A statement for its η, γ and N_init only, which do not depend on the smoothness constants or the gap.

    Do not use its bound and conditions: they are for made-up constants. `plan` has those for yours.

    Args:
        method: "nsgdm" or "nstorm".
        alpha: α in [0, 1] of the smoothness class.
        gamma0: γ0 of the schedule.
        G: Standard deviation of the noise at x⁰.
        B: Growth of the noise; only whether it is 0 matters.
        eta0: η0 in (0, 1] of the schedule, if it has one.

    >>> for_schedule("nstorm", alpha=0, gamma0=1.0, G=0.7).schedule(10_000).n_init
    49
    """
    return theorem(method, Problem(alpha=alpha, L0=1, L1=0, L=1, B=B, G=G, gap=1), gamma0=gamma0, eta0=eta0)


def for_wrapper(method: str, problem: Problem, *, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The statement about a method if the noise of `BlumGladyshev` is added to f.

    Args:
        method: "nsgdm" or "nstorm".
        problem: The problem with f's own constants.
        gamma0: As in `theorem`.
        eta0: As in `theorem`.

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
    original: Problem | None = None  #: the problem that was given, if the statement is about a wider class

    def __post_init__(self) -> None:
        self.statement.bound(self.horizon)  # refused here if it does not fit in double precision

    def __repr__(self) -> str:
        """Text of the plan, in a few lines."""
        lines = [self._title(), *(f"{name:<11}{text}" for name, text in self._facts())]
        return "\n".join(line if len(line) <= 100 else line[:99] + "…" for line in lines)

    def _repr_html_(self) -> str:
        from gladstorm.core.screen import html_picture, html_table  # not before: NumPy, which the theory does without

        return html_table(self._title(), [("", ""), *self._facts()]) + html_picture(self.plot, "the bound against T")

    def plot(self) -> Figure:
        """Draw the bound and each of its terms against T. A notebook shows the figure that is returned.

        Raises:
            ValueError: If matplotlib is not installed.
        """
        from gladstorm.plotting.figures import bounds  # matplotlib takes a second, and may be missing

        return bounds([self])

    def _title(self) -> str:
        return f"Plan: {self.statement.method.upper()} for T = {counted(self.horizon)} iterates"

    def _facts(self) -> list[tuple[str, str]]:
        statement, T = self.statement, self.horizon
        eta, gamma, n_init, _ = statement.schedule(T)
        given = {name: getattr(self.problem, name) for name in ("alpha", "L0", "L1", "L", "B", "G", "gap")}
        if not self.problem.of_paper:
            given |= {"growth": self.problem.growth, "tau": self.problem.norm.tau}
        bound, calls = f"{statement.bound(T):.6g}", counted(statement.sfo(T))
        dual = "" if self.problem.norm == EUCLID else "_*"
        return [
            ("problem:", ", ".join(f"{name}={value:g}" for name, value in given.items() if value is not None)),
            ("schedule:", f"gamma = {gamma:.6g}, eta = {eta:.6g}, n_init = {counted(n_init)}"),
            ("bound:", f"E‖∇f(x̂)‖{dual} ≤ {bound}, for {calls} stochastic gradients"),
            ("source:", statement.source),
            *(("", sentence) for sentence in self._wider()),
            ("class:", self.constants),
            *([("violated:", sentence) for sentence in statement.violations()] or [("conditions", "hold")]),
            *(("remark:", remark) for remark in self.remarks),
        ]

    @property
    def problem(self) -> Problem:
        """The problem that was given."""
        return self.statement.problem if self.original is None else self.original

    @property
    def source(self) -> str:
        """The theorem's source. If it is about a wider class than the problem's, also the constants in that class."""
        return "; ".join([self.statement.source, *self._wider()])

    def _wider(self) -> list[str]:
        statement, alpha, B = self.statement, self.problem.alpha, self.statement.problem.B
        words = []
        if statement.problem.alpha != alpha:
            constants = ", ".join(f"{name} = {getattr(statement, name):.6g}" for name in statement.needs())
            words.append(
                f"of alpha = {statement.problem.alpha:g}: {constants}, a class that contains alpha = {alpha:g}'s"
            )
        if B != self.problem.B:
            words.append(f"B = {B:.6g}: noise of mean-square smooth samples grows no faster")
        return words

    @property
    def constants(self) -> str:
        """The smoothness class that the statement is about, whose it is, and its constants."""
        statement = self.statement
        owner = "samples" if statement.corrects_drift else "f"
        norm = self.problem.norm
        in_norm = "" if norm == EUCLID else f" in the norm {norm.name} and its dual, τ = {norm.tau:.6g}"
        return f"{statement.classes[statement.smoothness]}{in_norm}, constants of {owner}: {self._values()}"

    def _values(self) -> str:
        statement = self.statement
        names = regime(statement.method, statement.problem).needs()
        return ", ".join(f"{name} = {getattr(statement, name):.6g}" for name in names)

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
            "class": self.constants,
            "growth": self.problem.growth,
            "norm": self.problem.norm.name,
            "tau": self.problem.norm.tau,
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
    growth: float = PAPER_GROWTH,
    norm: Norm | str = EUCLID,
) -> Plan:
    """The schedule and the guarantee for a horizon, or for the smallest horizon that guarantees eps.

    Args:
        method: "nsgdm" or "nstorm".
        horizon: T, the number of iterates. Give either horizon or eps.
        eps: the bound on E‖∇f(x̂)‖ to reach.
        alpha: α in [0, 1], as in `Problem`, and so are the six that follow.
        L0: smoothness constant.
        L1: growth of the curvature.
        L: mean-square constant.
        B: growth of the noise.
        G: noise at x⁰.
        gap: f(x⁰) − inf f.
        gamma0: γ0 of the schedule. If not given, the one with the smallest bound that satisfies the theorem's
            conditions; for NSTORM under BG-0 noise and α > 0 also another schedule, S9, if eta0 is not given either and
            it is better. A value that violates a condition is no error: `plan(...).statement.violations()` says so.
        eta0: η0 in (0, 1] of the schedule; 1 if not given.
        growth: a ≥ 0: noise deviates by at most G + B‖x − x⁰‖^(a/2). The paper has 2.
        norm: In which steps have length 1: euclid, sign(d), spectral(m, n), layers(…), or a `Norm`. The constants are
            those of this norm, and the bound is on the gradient in its dual norm. With another growth or norm than the
            paper's, γ and η are those with the smallest bound (S1, S2, S7 or S8), so gamma0 and eta0 must be left out.

    >>> ready = plan("nstorm", horizon=10_000, alpha=0.5, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3, gamma0=0.09, eta0=0.8)
    >>> f"{ready.as_dict()['bound']:.8g}"
    '19.333623'
    """
    in_norm = Norm.from_text(norm) if isinstance(norm, str) else norm
    problem = Problem(alpha=alpha, L0=L0, L1=L1, L=L, B=B, G=G, gap=gap, growth=growth, norm=in_norm)
    if not problem.of_paper and (gamma0 is not None or eta0 is not None):
        raise ValueError(
            f"plan: gamma0 and eta0 must be left out with another growth than 2 or another norm than euclid, for which "
            f"the schedule is searched; got gamma0={gamma0}, eta0={eta0}."
        )
    remarks = []
    if L1 and problem.smoothness == "smooth":
        remarks.append(f"L1 is not used, as curvature does not grow with alpha = 0; got L1={L1}.")
    if eta0 is not None:
        FRACTION.require("plan", "eta0", eta0)
        if eta0 != 1 and not regime(method, problem).has_eta0:
            remarks.append(f"eta0 is not used, as this schedule has none; got eta0={eta0}.")
            eta0 = None
    free = gamma0 is None and eta0 is None
    covered = regime(method, problem).within_class(problem)
    choice = _Choice(method, covered, gamma0, 1.0 if eta0 is None else eta0, free)
    if horizon is not None and eps is None:
        HORIZON.require("plan", "horizon", horizon)
        statement, T = choice.best(int(horizon)), int(horizon)
    elif eps is not None and horizon is None:
        POSITIVE.require("plan", "eps", eps)
        statement, T = choice.quickest(eps)
    else:
        raise ValueError(f"plan: exactly one of horizon and eps must be given; got horizon={horizon}, eps={eps}.")
    return Plan(statement, T, tuple(remarks), problem)


@dataclass(frozen=True)
class _Choice:
    """The theorems that cover a problem: that of its own class, and those of classes which contain it."""

    method: str
    problem: Problem
    gamma0: float | None  # the best one if None
    eta0: float
    free: bool  # whether another schedule than the paper's may be taken

    def best(self, T: int) -> Statement:
        """The one of the smallest bound at T among those whose conditions hold; the problem's own if none is.

        A γ0 that was given stands for a run, so another theorem counts only if it prescribes the same run.
        """
        level = self.problem.constant(self.method, regime(self.method, self.problem).needs()[0])
        free = free_run(self.method, self.problem) if self.free else None
        if free is not None and not self.problem.of_paper:
            return free.tune(T)
        classes = (self.problem, *flat_classes(self.problem, level))
        if len(classes) == 1:
            wider = best_linear_class(self.problem, lambda problem: self._bound(problem, T))
            classes += () if wider is None else (wider,)
        stated = self._stated(min(classes, key=lambda problem: self._bound(problem, T)), T)
        if free is None:
            return stated
        tuned = free.tune(T)
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
        kind = regime(self.method, problem)
        return _stated(kind, problem, self.gamma0, self.eta0 if kind.has_eta0 else 1.0, T)

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
        covered = [covering for covering in COVERED_METHODS if (covering, *setting) in REGIMES]
        raise ValueError(f"theory: method must be one of {', '.join(covered)}; got method={method!r}.")
    return REGIMES[method, *setting]
