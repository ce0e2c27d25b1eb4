"""From the constants of a problem to a run: the theorem that applies, its schedule and its guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gladstorm.theory import nsgdm, nstorm, nstorm_sublinear  # noqa: F401 - importing a module makes its regimes known
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import FRACTION, HORIZON, LONGEST
from gladstorm.theory.search import boundary
from gladstorm.theory.statement import REGIMES, Statement

if TYPE_CHECKING:
    from gladstorm.methods import Method

METHODS = tuple(sorted({method for method, _, _ in REGIMES}))


def theorem(method: str, problem: Problem, *, gamma0: float | None = None, eta0: float = 1.0) -> Statement:
    """The paper's statement about a method on a problem; the regime follows from the problem's numbers.

    Without `gamma0` the admissible minimiser of the leading coefficient is taken.

    >>> theorem("nsgdm", Problem(alpha=0, L0=1, B=0, G=1, gap=2)).source
    "corollary 'Standard smoothness under bounded variance', equation app_smooth_bv_final"
    """
    if gamma0 is not None:
        return _regime(method, problem)(problem, gamma0, eta0)
    return _regime(method, problem)(problem, 1.0, eta0).tune_gamma0()


def for_schedule(method: str, *, alpha: float, gamma0: float, G: float, B: float = 1.0, eta0: float = 1.0) -> Statement:
    """A statement to take η, γ and N_init from: they depend on neither the smoothness constants nor the gap.

    Its bound and conditions are those of constants nobody gave; ask `plan` for real ones.

    >>> for_schedule("nstorm", alpha=0, gamma0=1.0, G=0.7).schedule(10_000).n_init
    49
    """
    return theorem(method, Problem(alpha=alpha, L0=1, L1=0, L=1, B=B, G=G, gap=1), gamma0=gamma0, eta0=eta0)


@dataclass(frozen=True)
class Plan:
    """A statement at one horizon."""

    statement: Statement
    horizon: int  # T
    remarks: tuple[str, ...] = ()  # what was given and is not used

    def __post_init__(self) -> None:
        self.statement.bound(self.horizon)  # refused here if it does not fit in double precision

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        statement, T = self.statement, self.horizon
        eta, gamma, n_init, young_weight = statement.schedule(T)
        conditions = [
            {"statement": c.statement, "left": c.left, "right": c.right, "holds": c.holds}
            for c in statement.conditions()
        ]
        terms = [
            {"name": t.name, "coefficient": float(t.coefficient), "exponent": float(t.exponent), "value": t.value}
            for t in statement.terms(T)
        ]
        return {
            "method": statement.method,
            "alpha": statement.problem.alpha,
            "noise": statement.noise,
            "horizon": T,
            "eta": eta,
            "gamma": gamma,
            "n_init": n_init,
            "lambda": young_weight,
            "conditions": conditions,
            "terms": terms,
            "bound": statement.bound(T),
            "bound_as_printed": statement.bound_as_printed(T),
            "rate": float(statement.rate),
            "sfo": statement.sfo(T),
            "source": statement.source,
        }

    def method(self) -> Method:
        """The method with the planned schedule, ready for `run`; T iterates are `steps=T - 1`."""
        from gladstorm import methods

        eta, gamma, n_init, _ = self.statement.schedule(self.horizon)
        if self.statement.method == "nsgdm":
            return methods.nsgdm(gamma=gamma, eta=eta)
        return methods.nstorm(gamma=gamma, eta=eta, n_init=n_init)


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

    Without `gamma0` the bound at the horizon is minimised over it, subject to the theorem's conditions; `eta0` is 1
    unless given. A gamma0 that violates a condition is not an error: ask the statement for its `violations()`.

    >>> ready = plan("nstorm", horizon=10_000, alpha=0.5, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3, gamma0=0.09, eta0=0.8)
    >>> f"{ready.as_dict()['bound']:.8g}"
    '19.333623'
    """
    problem = Problem(alpha=alpha, L0=L0, L1=L1, L=L, B=B, G=G, gap=gap)
    remarks = []
    if L1 and problem.smoothness == "smooth":
        remarks.append(f"L1 is not used, with alpha = 0 curvature does not grow; got L1={L1}.")
    if eta0 is not None:
        FRACTION.require("plan", "eta0", eta0)
        if eta0 != 1 and not _regime(method, problem).has_eta0:
            remarks.append(f"eta0 is not used, this schedule has none; got eta0={eta0}.")
            eta0 = None
    statement = theorem(method, problem, gamma0=gamma0, eta0=1.0 if eta0 is None else eta0)
    if horizon is not None and eps is None:
        HORIZON.require("plan", "horizon", horizon)
        T = int(horizon)
        statement = statement.tune_gamma0(T) if gamma0 is None else statement
    elif eps is not None and horizon is None:
        statement = _quickest(statement, eps) if gamma0 is None else statement
        T = statement.horizon(eps)
    else:
        raise ValueError(f"plan: exactly one of horizon and eps must be given; got horizon={horizon}, eps={eps}.")
    return Plan(statement, T, tuple(remarks))


def overtakes(challenger: Statement, leader: Statement) -> int | None:
    """The T from which on the challenger's bound is the smaller one; None if it never is within 10^300 iterates.

    Bounds are sums of powers and may cross more than once: this is the last crossing, found by halving T from above.

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


def _regime(method: str, problem: Problem) -> type[Statement]:
    if method not in METHODS:
        raise ValueError(f"theory: method must be one of {', '.join(METHODS)}; got method={method!r}.")
    return REGIMES[method, problem.smoothness, problem.noise]


def _quickest(statement: Statement, eps: float) -> Statement:
    """The statement tuned for the smallest horizon at which a tuned one guarantees eps."""

    def enough(T: int) -> bool:
        return statement.tune_gamma0(T).bound(T) <= eps

    after = statement.horizon(eps)
    while after > 1 and enough(after // 2):
        after //= 2
    return statement.tune_gamma0(boundary(enough, after // 2, after))
