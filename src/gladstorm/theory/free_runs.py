"""The best run for a bound: γ, η and N_init of any size, not tied to fixed powers of T.

The paper's schedules fix how γ and η fall with T and leave one or two factors free. The sharper bounds S1, S2, S7 and
S8 hold for every γ and η, so the best of each can be searched for. For NSTORM under BG-0 noise and E L*_sym(α) that is
S9, whose order no method can beat (docs/optimal.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from gladstorm.theory.class_constants import in_linear_class
from gladstorm.theory.master_bounds import Bound
from gladstorm.theory.nstorm import ScheduleInTheta
from gladstorm.theory.problem import HORIZON, POSITIVE, Exponent, Problem
from gladstorm.theory.sharper_bounds import (
    ExactLinear,
    MomentumFeedback,
    MomentumSmooth,
    StormFeedback,
    StormSmooth,
    forgotten_error,
)
from gladstorm.theory.statement import REGIMES, Condition, PowerOfT, Prescription, Term

FAR = 10**200  # a horizon at which only leading terms are left
DAMPED = 1000  # the term of the error of v⁰ is a thousandth of the gap's, …
AFFORDED = 50  # … unless that takes more than a fiftieth of T


@dataclass(frozen=True)
class Run:
    """γ, η, the scale s at which a class of α < 1 is read as one of α = 1, and the bound of the run."""

    bound: Bound
    scale: float

    @property
    def logs(self) -> tuple[float, ...]:
        """Logarithms of γ, η and s."""
        return math.log(self.bound.gamma), math.log(self.bound.eta), math.log(self.scale)


def kind_of(method: str, problem: Problem) -> type[Bound]:
    """The bound that holds for every γ and η, for the problem's noise and, if α > 0, for the class of α = 1."""
    smooth = problem.smoothness == "smooth"
    if problem.noise == "deterministic":
        return MomentumSmooth if smooth else ExactLinear
    if method == "nsgdm":
        return MomentumSmooth if smooth else MomentumFeedback
    return StormSmooth if smooth else StormFeedback


def run_at(kind: type[Bound], problem: Problem, T: int, logs: Sequence[float]) -> Run:
    """The run of log γ, log η and log s. N_init is that of `first_batch`, not rounded: rounding up lowers the bound."""
    gamma, eta, scale = (math.exp(min(log, 600.0)) for log in logs)
    eta = min(eta, 1.0)
    wider = in_linear_class(problem, scale) if problem.smoothness == "sublinear" else problem
    if problem.smoothness == "smooth" and kind is MomentumSmooth:
        wider = replace(problem, L0=problem.L if problem.L0 is None else problem.L0)
    alone = kind(wider, gamma, eta, problem.G, T)
    return Run(replace(alone, initial_error=problem.G / math.sqrt(first_batch(alone))), scale)


def first_batch(run: Bound) -> float:
    """N_init for a run whose initial error is G: so many that it hardly counts, and no more than a fiftieth of T."""
    wanted = DAMPED * forgotten_error(run) * run.gamma * float(run.horizon) / run.problem.gap
    return max(1.0, min(wanted**2, run.horizon / AFFORDED))


def best_run(method: str, problem: Problem, T: int) -> Run:
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
    for _ in range(60):
        noise = _log_sum(_log(problem.G), _log(problem.B / 2) + gamma + math.log(T))
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


def descend(
    value: Callable[[Sequence[float]], float], start: Sequence[float], free: Sequence[bool], size: float
) -> list[float]:
    """The minimiser of a convex function in the free coordinates, by Nelder and Mead's simplex, begun anew until still.

    >>> [round(x, 4) for x in descend(lambda x: (x[0] - 1) ** 2 + (x[1] + x[0]) ** 2, [9.0, 9.0], [True, True], 1.0)]
    [1.0, -1.0]
    """
    axes = [i for i, is_free in enumerate(free) if is_free]
    best, lowest = list(start), value(start)
    while True:
        simplex = [(lowest, best)]
        for i in axes:
            corner = [coordinate + size * (j == i) for j, coordinate in enumerate(best)]
            simplex.append((value(corner), corner))
        at, reached = _simplex(value, simplex)
        if not at < lowest * (1 - 1e-11):
            return reached
        best, lowest, size = reached, at, max(size / 3, 1e-3)


def _simplex(
    value: Callable[[Sequence[float]], float], simplex: list[tuple[float, list[float]]]
) -> tuple[float, list[float]]:
    for _ in range(400):
        simplex.sort(key=lambda corner: corner[0])
        (low, best), (high, worst) = simplex[0], simplex[-1]
        if high - low <= 1e-12 * abs(low):
            break
        others = [corner for _, corner in simplex[:-1]]
        middle = [math.fsum(coordinates) / len(others) for coordinates in zip(*others, strict=True)]

        def moved(factor: float, middle: list[float] = middle, worst: list[float] = worst) -> tuple[float, list[float]]:
            corner = [m + factor * (m - w) for m, w in zip(middle, worst, strict=True)]
            return value(corner), corner

        chosen = moved(1.0)
        if chosen[0] < low:
            chosen = min(chosen, moved(2.0), key=lambda corner: corner[0])
        elif chosen[0] >= simplex[-2][0]:
            chosen = moved(0.5 if chosen[0] < high else -0.5)
        if chosen[0] < high:
            simplex[-1] = chosen
        else:
            shrunk = [[(a + b) / 2 for a, b in zip(best, corner, strict=True)] for _, corner in simplex[1:]]
            simplex[1:] = [(value(corner), corner) for corner in shrunk]
    return min(simplex, key=lambda corner: corner[0])


@dataclass(frozen=True)
class FreeStorm(ScheduleInTheta):
    """S9: NSTORM under BG-0 noise and E L*_sym(α), 0 < α < 1, through the class α = 1 at the scale s = s0 T^θ.

    η = η0 T^(−4θ), γ = γ0 T^(−(3+α)θ) as in the paper, θ = 1/(4 + α), but η0 may be above 1, N_init follows the gap,
    and the bound is S8. `tune` makes all of them best for one T. The stochastic gradients it takes are of the order
    (L0 + L1 (BΔ/ε)^α) BΔ²/ε⁴ for ε small enough, uniformly in α: no method has a smaller one.
    """

    scale0: float = 1.0  # s0

    smoothness = "sublinear"
    of_paper: ClassVar[bool] = False
    source = "S9: NSTORM, E L*_sym(alpha), free schedule"

    def __post_init__(self) -> None:
        problem = self.problem
        if (problem.smoothness, problem.noise) != (self.smoothness, self.noise):
            raise ValueError(f"{type(self).__name__}: problem must have BG-0 noise and α of its class; got {problem}.")
        for name in ("gamma0", "eta0", "scale0"):
            POSITIVE.require(self.method, name, getattr(self, name))

    @property
    def rate(self) -> Exponent:
        """θ, the power of 1/T in the bound."""
        return self.theta

    def run(self, T: int) -> Bound:
        """S8 in the class α = 1, for this schedule at T."""
        HORIZON.require(self.method, "horizon", T)
        log, theta = math.log(T), float(self.theta)
        logs = (
            math.log(self.gamma0) - float(self.gamma_exponent) * log,
            math.log(self.eta0) - 4 * theta * log,
            math.log(self.scale0) + theta * log,
        )
        return run_at(StormFeedback, self.problem, T, logs).bound

    def schedule(self, T: int) -> Prescription:
        """η, γ and N_init for T iterates."""
        run = self.run(T)
        return Prescription(run.eta, run.gamma, self._n_init(T), None)

    def conditions(self) -> tuple[Condition, ...]:
        """Condition that something of the gradient is left, for T large enough; before, the bound may be infinite."""
        wider = in_linear_class(self.problem, self.scale0) if self.smoothness == "sublinear" else self.problem
        feedback = 2 * wider.constant(self.method, "L1") * self.gamma0 / self.eta0
        return (Condition("2 α L1 s0^(α−1) γ0/η0 < 1", feedback, 1.0, strict=True),)

    def terms(self, T: int) -> tuple[Term, ...]:
        """The terms of S8; a single infinite one where its condition fails at T."""
        run, exponent = self.run(T), self.theta
        if not all(condition.holds for condition in run.conditions()):
            return (Term("nothing is guaranteed", math.inf, exponent, math.inf),)
        return tuple(Term(name, value * T ** float(exponent), exponent, value) for name, value in run.terms().items())

    def bound_as_printed(self, T: int) -> float:
        """The bound: it is not in the paper."""
        return self.bound(T)

    def tune_gamma0(self, T: int | None = None) -> Self:
        """Take the best γ, η and s at T; without T, at one so large that only leading terms are left."""
        at, theta = FAR if T is None else T, float(self.theta)
        best = best_run(self.method, self.problem, at)
        powers = at ** float(self.gamma_exponent), at ** (4 * theta), at**-theta
        numbers = (number * power for number, power in zip(map(math.exp, best.logs), powers, strict=True))
        return replace(self, **dict(zip(("gamma0", "eta0", "scale0"), numbers, strict=True)))

    tune = tune_gamma0

    def _n_init(self, T: int) -> int:
        return math.ceil(first_batch(replace(self.run(T), initial_error=self.problem.G)))

    def _corollary(self) -> Iterator[PowerOfT]:
        return (PowerOfT(term.name, term.coefficient, term.exponent) for term in self.terms(FAR))


@dataclass(frozen=True)
class FreeStormLinear(FreeStorm):
    """S9 for α = 1, where s is not needed."""

    smoothness = "linear"
    source = "S9: NSTORM, E L*_sym(1), free schedule"


def free_storm(problem: Problem) -> FreeStorm | None:
    """S9 for a problem, to be tuned; None if it is not about it."""
    if problem.noise != "bg0" or problem.smoothness == "smooth" or not problem.L1:
        return None
    return (FreeStormLinear if problem.smoothness == "linear" else FreeStorm)(problem, 1.0)
