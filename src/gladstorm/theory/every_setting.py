"""NSGDM and NSTORM for every growth of the noise, norm and decay: the run with the smallest bound.

The paper's schedules fix how γ and η fall with T and leave one or two factors free. S1, S2, S7 and S8 hold for every γ
and η in every setting, so the best of each can be searched for. For NSTORM under BG-0 noise and E L*_sym(α) that is S9,
whose order no method can beat (docs/optimal.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from gladstorm.theory.class_constants import in_linear_class
from gladstorm.theory.master_bounds import Bound
from gladstorm.theory.nsgdm import Nsgdm
from gladstorm.theory.nstorm import Nstorm
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import HORIZON, POSITIVE, Exponent, exact
from gladstorm.theory.search import descend
from gladstorm.theory.sharper_bounds import (
    MomentumFeedback,
    MomentumSmooth,
    StormFeedback,
    StormSmooth,
    forgotten_error,
)
from gladstorm.theory.statement import REGIMES, Condition, PowerOfT, Prescription, Statement, Term

FAR = 10**200  # a horizon at which only leading terms are left
DAMPED = 1000  # the term of the error of v⁰ is a thousandth of the gap's, …
AFFORDED = 50  # … unless that takes more than a fiftieth of T


class ScaledRun(NamedTuple):
    """A run with its bound, and the scale s at which a class of α < 1 is read as one of α = 1."""

    bound: Bound
    scale: float

    @property
    def logs(self) -> tuple[float, ...]:
        """Logarithms of γ, η and s."""
        return math.log(self.bound.gamma), math.log(self.bound.eta), math.log(self.scale)


def kind_of(method: str, problem: Problem) -> type[Bound]:
    """The bound that holds for every γ and η, for the problem's noise and, if α > 0, for the class of α = 1."""
    smooth = problem.smoothness == "smooth"
    if method == "nsgdm" or problem.noise == "deterministic":
        return MomentumSmooth if smooth else MomentumFeedback
    return StormSmooth if smooth else StormFeedback


def run_at(kind: type[Bound], problem: Problem, T: int, logs: Sequence[float]) -> ScaledRun:
    """The run of log γ, log η and log s. N_init is that of `first_batch`, not rounded: rounding up lowers the bound."""
    gamma, eta, scale = (math.exp(min(log, 600.0)) for log in logs)
    eta = min(eta, 1.0)
    wider = in_linear_class(problem, scale) if problem.smoothness == "sublinear" else problem
    if kind is MomentumSmooth and problem.L0 is None:
        wider = replace(problem, L0=problem.norm.widest * problem.constant("nstorm", "L"))
    error = problem.norm.tau * problem.G
    alone = kind(wider, gamma, eta, error, T)
    return ScaledRun(replace(alone, initial_error=error / math.sqrt(first_batch(alone))), scale)


def first_batch(run: Bound) -> float:
    """N_init for a run whose initial error is τG: so many that it hardly counts, and no more than a fiftieth of T.

    NSGDM begins with one sample.
    """
    if run.method == "nsgdm":
        return 1.0
    wanted = DAMPED * forgotten_error(run) * run.gamma * float(run.horizon) / run.problem.gap
    return max(1.0, min(wanted**2, run.horizon / AFFORDED))


def best_run(method: str, problem: Problem, T: int) -> ScaledRun:
    """The run of T iterates with the smallest bound. Without noise η = 1.

    A bound is a sum of monomials in γ, η and s, divided by 1 minus such a sum, convex in their logarithms but for the
    error of v⁰ and N_init: any result is a valid bound, and nearly always the lowest.
    """
    kind = kind_of(method, problem)

    def value(logs: Sequence[float]) -> float:
        try:
            return run_at(kind, problem, T, logs).bound.guaranteed
        except (ValueError, OverflowError):
            return math.inf

    free = [True, problem.noise != "deterministic", problem.smoothness == "sublinear"]
    start = _balanced(method, problem, T)
    while not math.isfinite(value(start)):
        start[0] -= 1  # shorter steps feed back less
        if start[0] < -700:
            raise ValueError("best_run: constants must be such that a bound fits in double precision.")
    return run_at(kind, problem, T, descend(value, start, free, 0.7))


def _balanced(method: str, problem: Problem, T: int) -> list[float]:
    """log γ, log η and log s where the terms of gap, noise and curvature are about equal, by iteration on log γ."""
    level = problem.constant(method, REGIMES[method, problem.smoothness, problem.noise].needs()[0])
    curvature, per_step, drifts = _log(level), math.log(problem.gap) - math.log(T), method == "nsgdm"
    if problem.noise == "deterministic":
        return [(per_step - curvature) / 2, 0.0, 0.0]
    gamma = noise = 0.0
    h, tau, decay = problem.half_growth, math.log(problem.norm.tau), problem.decay
    for _ in range(60):
        distance = gamma + math.log(T) if decay is None else math.log(decay.radius)
        noise = tau + _log_sum(_log(problem.G), _log(problem.B / 2) + h * distance)
        if not drifts and problem.alpha:
            curvature = _log_sum(_log(level), _log(problem.L1 or 0.0) + problem.alpha * noise)
        wanted = (3 * per_step - curvature - 2 * noise) / 4 if drifts else (2 * per_step - curvature - noise) / 3
        gamma = (gamma + wanted) / 2
    eta = (curvature + gamma - noise) * (2 / 3 if drifts else 1)
    return [gamma, min(0.0, eta), noise]


def _log(number: float) -> float:
    return math.log(number) if number > 0 else -600.0


def _log_sum(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


class OwnSchedule(Statement):
    """A statement of this project about every growth a of the noise, whose schedule is searched for one T."""

    of_paper: ClassVar[bool] = False

    @property
    def half_growth(self) -> Exponent:
        """h = a/2 as a fraction, if it is a simple one; 0 where noise is bounded, also by the decay of weights."""
        return exact(self.problem.half_growth if self.noise == "bg0" and self.problem.decay is None else 0.0)

    def bound_as_printed(self, T: int) -> float:
        """The bound: it is not in the paper."""
        return self.bound(T)

    def conditions(self) -> tuple[Condition, ...]:
        """No inequality: where a condition of the bound fails, its terms are infinite."""
        return ()

    def _limits(self) -> dict[str, float]:
        return {}

    def _corollary(self) -> Iterator[PowerOfT]:
        return (PowerOfT(term.name, term.coefficient, term.exponent) for term in self.terms(FAR))


@dataclass(frozen=True)
class FreeRun(OwnSchedule):
    """The best run for S1, S2, S7 or S8, for every growth a of the noise, every norm, and with decay.

    The schedule has the theorems' form, but η0 may be above 1, and a class of α < 1 is read as one of α = 1 at the
    scale s = s0 T^(−scale_exponent). `tune` makes all of them best for one T.
    """

    scale0: float = 1.0  # s0

    def __post_init__(self) -> None:
        for name in ("gamma0", "eta0", "scale0"):
            POSITIVE.require(self.method, name, getattr(self, name))

    @property
    def source(self) -> str:
        """The bound of the run, with its growth, norm and decay where they are not the paper's."""
        p, bound = self.problem, kind_of(self.method, self.problem).source
        words = "" if p.of_paper else f"; growth {p.growth:g}, norm {p.norm.name}"
        return f"{bound}, free schedule{words}" + ("" if p.decay is None else f", decay {p.decay.rate:g}")

    @property
    def rate(self) -> Exponent:
        """Power θ of 1/T in the bound: 1/(4 + 2h) if v drifts, else 1/(3 + h + αh); α counts where curvature grows."""
        h, alpha = self.half_growth, self.problem.exact_alpha if self.problem.L1 else 0
        if self.noise == "deterministic":
            return Fraction(1, 2)
        return 1 / (3 + h + alpha * h) if self.corrects_drift else 1 / (4 + 2 * h)

    @property
    def eta_exponent(self) -> Exponent:
        """Power (2 + 2h)θ of 1/T in η."""
        return Fraction(0) if self.noise == "deterministic" else (2 + 2 * self.half_growth) * self.rate

    @property
    def gamma_exponent(self) -> Exponent:
        """Power 1 − θ of 1/T in γ: the run's length γT grows like 1/bound."""
        return 1 - self.rate

    @property
    def scale_exponent(self) -> Exponent:
        """Power of 1/T in the scale s: that of the gradient, or of the noise where the run ends, which grows."""
        of_noise = self.corrects_drift and self.noise != "deterministic"
        return -self.half_growth * self.rate if of_noise else self.rate

    def run(self, T: int) -> Bound:
        """The bound of the run at T."""
        HORIZON.require(self.method, "horizon", T)
        numbers = zip((self.gamma0, self.eta0, self.scale0), self._exponents, strict=True)
        logs = [math.log(number) - float(exponent) * math.log(T) for number, exponent in numbers]
        return run_at(kind_of(self.method, self.problem), self.problem, T, logs).bound

    def schedule(self, T: int) -> Prescription:
        """η, γ and N_init for T iterates."""
        run = self.run(T)
        return Prescription(run.eta, run.gamma, self._n_init(T), None)

    def terms(self, T: int) -> tuple[Term, ...]:
        """Terms of the bound; a single infinite one where its condition fails at T."""
        run, exponent = self.run(T), self.rate
        if not all(condition.holds for condition in run.conditions()):
            return (Term("nothing is guaranteed", math.inf, exponent, math.inf),)
        return tuple(Term(name, value * T ** float(exponent), exponent, value) for name, value in run.terms().items())

    def tune_gamma0(self, T: int | None = None) -> Self:
        """Take the best γ, η and s at T; without T, at one so large that only leading terms are left."""
        at = FAR if T is None else T
        logs = zip(best_run(self.method, self.problem, at).logs, self._exponents, strict=True)
        numbers = (math.exp(log) * at ** float(exponent) for log, exponent in logs)
        return replace(self, **dict(zip(("gamma0", "eta0", "scale0"), numbers, strict=True)))

    tune = tune_gamma0

    @property
    def _exponents(self) -> tuple[Exponent, Exponent, Exponent]:
        return self.gamma_exponent, self.eta_exponent, self.scale_exponent

    def _n_init(self, T: int) -> int:
        whole = replace(self.run(T), initial_error=self.problem.norm.tau * self.problem.G)
        return math.ceil(first_batch(whole))


class FreeMomentum(FreeRun, Nsgdm):
    """NSGDM with the best γ and η: samples of the order L0 Δ (G² + B² (Δ/ε)^a)/ε⁴, times τ²."""


class FreeStorm(FreeRun, Nstorm):
    """NSTORM with the best γ and η; S9 is that under BG-0 noise and E L*_sym(α), α > 0.

    The stochastic gradients of S9 are of the order (L0 + L1 (BΔ/ε)^α) BΔ²/ε⁴ for ε small enough, uniformly in α: no
    method has a smaller one. N_init follows the gap.
    """

    @property
    def source(self) -> str:
        """S9 for the problems of the paper's open question, else the bound of the run."""
        if not self.problem.of_paper or self.noise != "bg0" or self.smoothness == "smooth":
            return super().source
        return f"S9: NSTORM, E L*_sym({'1' if self.smoothness == 'linear' else 'alpha'}), free schedule"

    def conditions(self) -> tuple[Condition, ...]:
        """Condition that something of the gradient is left, for T large enough; before, the bound may be infinite."""
        if self.smoothness == "smooth" or self.noise == "deterministic":
            return ()
        wider, norm = self.problem, self.problem.norm
        if self.smoothness == "sublinear":
            wider = in_linear_class(self.problem, self.scale0)
        L1 = norm.kappa * norm.tau * norm.nu * wider.constant(self.method, "L1")
        steps, left = (2.0, 1.0) if (decay := self.problem.decay) is None else (4.0, 1 - (decay.inward or 0.0))
        words = f"{steps:g} α κ τ ν L1 s0^(α−1) γ0/η0 < {left:g}"
        return (Condition(words, steps * L1 * self.gamma0 / self.eta0, left, strict=True),)


def takes_own(method: str, problem: Problem) -> bool:
    """Whether a plan takes our schedule: S9, which answers the paper's question, and where the paper has no theorem."""
    s9 = method == "nstorm" and problem.noise == "bg0" and problem.smoothness != "smooth" and problem.L1
    return bool(s9) or not problem.of_paper


def free_run(method: str, problem: Problem) -> FreeRun:
    """The free run of NSGDM or NSTORM, to be tuned."""
    if method == "nstorm" and problem.noise == "deterministic" and problem.smoothness != "smooth":
        L0, L1 = problem.constant(method, "L0"), problem.constant(method, "L1")  # of samples; f's in the dual norm:
        widest, kappa = problem.norm.widest, problem.norm.kappa
        problem = replace(problem, L0=widest * L0, L1=widest * kappa**problem.alpha * L1)
    return (FreeMomentum if method == "nsgdm" else FreeStorm)(problem, 1.0)
