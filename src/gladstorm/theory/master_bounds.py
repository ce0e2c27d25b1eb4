"""The five master bounds: E‖∇f(x̂)‖ for any γ, η, initial error and horizon. The corollaries are these at a schedule.

Terms carry the names they have in the corollaries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from gladstorm.theory.class_constants import Expected, expected, symmetric
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import (
    FRACTION,
    HORIZON,
    NON_NEGATIVE,
    POSITIVE,
    OfHorizon,
    OutOfRange,
    exact,
    in_range,
    ratio,
)
from gladstorm.theory.statement import Condition, PowerOfT, Statement

HALF = Fraction(1, 2)
SQRT2 = math.sqrt(2)
S = math.sqrt(2 * math.exp(3 / 4))  # √(2 e^{3/4}), the growth of E L*_sym(1) over one admissible step


@dataclass(frozen=True)
class Bound(ABC):
    """A bound on E‖∇f(x̂)‖ for one run: γ and η constant over T iterates, and v⁰ off by b0 on average."""

    problem: Problem
    gamma: float  # γ
    eta: float  # η
    initial_error: float  # b0 = E‖v⁰ − ∇f(x⁰)‖ ≤ G/√N_init
    horizon: int  # T

    method: ClassVar[str]
    source: ClassVar[str]

    def __post_init__(self) -> None:
        owner = type(self).__name__
        POSITIVE.require(owner, "gamma", self.gamma)
        FRACTION.require(owner, "eta", self.eta)
        NON_NEGATIVE.require(owner, "initial_error", self.initial_error)
        HORIZON.require(owner, "horizon", self.horizon)

    def conditions(self) -> tuple[Condition, ...]:
        """Every inequality the theorem asks for, with both sides."""
        return ()

    @abstractmethod
    def _stated(self) -> dict[str, float]:
        """The terms as the theorem writes them."""

    def terms(self) -> dict[str, float]:
        """The bound, term by term."""
        owner = type(self).__name__
        try:
            terms = self._stated()
        except ArithmeticError:
            raise OutOfRange(
                f"{owner}: gamma must be such that the bound fits in double precision; got gamma={self.gamma}."
            ) from None
        return {name: in_range(owner, f"the term {name!r}", value) for name, value in terms.items()}

    @property
    def bound(self) -> float:
        """The right-hand side."""
        return math.fsum(self.terms().values())

    @property
    def guaranteed(self) -> float:
        """The right-hand side; infinite where a condition fails."""
        return self.bound if all(condition.holds for condition in self.conditions()) else math.inf

    @property
    def stride(self) -> float:
        """How many times γ a step may be long: 2 with weight decay."""
        return 1.0 if self.problem.decay is None else 2.0

    def mean_distance(self, updates: float) -> float:
        """The mean of ‖x^k − x⁰‖, k = 0..updates, at full speed; with weight decay over the run."""
        decay = self.problem.decay
        return self.gamma * updates / 2 if decay is None else decay.mean_distance(self.gamma, self.horizon)

    def noise_growth(self, updates: float) -> float:
        """B times the mean of the farthest distance to the power h, k = 0..updates: the noise's growth at full speed.

        The mean of k^h is at most K^h/(1 + h) for h ≤ 1, and (K + 1)^h/(1 + h) for every h. With weight decay it is at
        most that of the mean for h ≤ 1, by Jensen's inequality, and R^h for every h.
        """
        h, decay = self.problem.half_growth, self.problem.decay
        if decay is not None:
            return self.problem.B * math.pow(self.mean_distance(updates) if h <= 1 else decay.radius, h)
        return self.problem.B * math.pow(self.gamma, h) * math.pow(updates if h <= 1 else updates + 1, h) / (1 + h)

    def constant(self, name: str) -> float:
        """L0, L1 or L of the problem."""
        return self.problem.constant(self.method, name)


class MasterBound(Bound):
    """A theorem of the paper for any γ and η. The corollaries are its formula at powers of T (`at_powers`)."""

    @abstractmethod
    def formula(self, gamma: Any, eta: Any, b0: Any, T: Any) -> dict[str, Any]:
        """The terms as the theorem writes them, for numbers or for powers of T."""

    def _stated(self) -> dict[str, float]:
        return self.formula(self.gamma, self.eta, self.initial_error, float(self.horizon))


class MomentumLinear(MasterBound):
    """NSGDM for L*_sym(1), and with L1 = 0 for L0-smooth f."""

    method = "nsgdm"
    source = "Theorem 3 (Single-sample master bound for L0-smoothness and α = 1), equation (20)"

    @property
    def L1(self) -> float:
        """L1 of f, 0 if f is smooth."""
        return 0.0 if self.problem.smoothness == "smooth" else self.constant("L1")

    def conditions(self) -> tuple[Condition, ...]:
        """Conditions on the run, none for L1 = 0; the second implies the first."""
        if self.L1 == 0:
            return ()
        reach = self.gamma * self.L1
        feedback = 32 * reach * reach * float(self.horizon) / self.eta
        return Condition("γ L1 ≤ 1/2", reach, 0.5), Condition("32 L1² γ² T/η ≤ 1/2", feedback, 0.5)

    def formula(self, gamma: Any, eta: Any, b0: Any, T: Any) -> dict[str, Any]:
        """Equation (20)."""
        D, B, G, L0 = self.problem.gap, self.problem.B, self.problem.G, self.constant("L0")
        alone = {
            "gap": 2 * D / (gamma * T),
            "initial error": 4 * b0 / (eta * T),
            "drift": 16 * L0 * gamma / eta,
            "curvature": 2 * L0 * gamma,
            "noise": 4 * G * eta**HALF,
            "noise growth": 4 * B * eta**HALF * gamma * (T - 1) / 2,
        }
        if self.problem.smoothness == "smooth":
            return alone
        coupling = 64 * self.L1**2 * gamma / eta * (gamma * T)
        return alone | {f"coupled {name}": coupling * term * (1 + (name == "gap")) for name, term in alone.items()}


class MomentumSublinear(MasterBound):
    """NSGDM for L*_sym(α), 0 < α < 1; for any growth of the noise and any norm, if the constants are those of it."""

    method = "nsgdm"
    source = "Theorem 4 (Single-sample master bound under L*_sym(α)), equation (32)"

    def conditions(self) -> tuple[Condition, ...]:
        """A unit of length is in the first: it is there to bound γ^(1/(1−α)) by γ."""
        return Condition("γ ≤ 1", self.gamma, 1.0), Condition("γ ≤ η", self.gamma, self.eta)

    def formula(self, gamma: Any, eta: Any, b0: Any, T: Any) -> dict[str, Any]:
        """Equation (32)."""
        p, alpha, h = self.problem, self.problem.exact_alpha, exact(self.problem.half_growth)
        passed = gamma * (T - 1 if h <= 1 else T)
        k = symmetric(self.constant("L0"), self.constant("L1"), p.alpha)
        return {
            "gap": 2 * p.gap / (gamma * T),
            "initial error": 4 * b0 / (eta * T),
            "drift": 4 * k.drift * gamma / eta,
            "noise": 4 * p.norm.tau * p.G * eta**HALF,
            "noise growth": 4 * p.norm.tau * p.B * eta**HALF * passed**h / (1 + h),
            "curvature": k.base * gamma,
            "growing curvature": 2 * k.descent * gamma ** (1 / (1 - alpha)),
        }


class StormMeanSquare(MasterBound):
    """NSTORM for mean-square smooth oracles."""

    method = "nstorm"
    source = "Theorem 5(i) (Single-sample NSTORM master bounds), equation (49)"

    def formula(self, gamma: Any, eta: Any, b0: Any, T: Any) -> dict[str, Any]:
        """Equation (49)."""
        D, B, G, L = self.problem.gap, self.problem.B, self.problem.G, self.constant("L")
        return {
            "gap": D / (gamma * T),
            "initial error": 2 * b0 / (eta * T),
            "difference": 2 * L * gamma / eta**HALF,
            "noise": 2 * G * eta**HALF,
            "noise growth": 2 * B * eta**HALF * T * gamma,
            "curvature": L / 2 * gamma,
        }


class StormSublinear(MasterBound):
    """NSTORM for E L*_sym(α), 0 < α < 1, for any growth of the noise and any norm, if the constants are those of it.

    The bound falls in λ, which is the largest that it may be, η/(8 L_α γ). The paper's mean of E q_k^α over the run is
    taken at its largest, Q_T^α.
    """

    method = "nstorm"
    source = "Theorem 5(ii) (Single-sample NSTORM master bounds), equation (50)"

    @property
    def constants(self) -> Expected:
        """K0, K1, K2, L_α and c_α."""
        return expected(self.constant("L0"), self.constant("L1"), self.problem.alpha).in_norm(self.problem)

    def conditions(self) -> tuple[Condition, ...]:
        """Conditions on λ, none for L1 = 0; the second, at whose edge it is, implies the first."""
        moment = self.constants.moment
        weight = ratio(1, 8 * moment * self.gamma / self.eta)
        if math.isinf(weight):
            return ()
        one_step = Condition("λ ≤ 1/(L_α γ)", weight, ratio(1, moment * self.gamma))
        return one_step, Condition("λ ≤ η/(8 L_α γ)", weight, weight)

    def formula(self, gamma: Any, eta: Any, b0: Any, T: Any) -> dict[str, Any]:
        """Equation (50)."""
        problem, alpha, k, root = self.problem, self.problem.exact_alpha, self.constants, eta**HALF
        p, kappa, tau = alpha / (1 - alpha), problem.norm.kappa, problem.norm.tau
        grown = problem.B * (T * gamma) ** exact(problem.half_growth)
        young = k.young * k.moment * (8 * k.moment * gamma / eta) ** p
        if isinstance(grown, OfHorizon):  # as powers of T: (G + B T γ)^α ≤ G^α + (B T γ)^α
            noises = {"noise": (problem.G / kappa) ** alpha, "noise growth": (grown / kappa) ** alpha}
        else:
            noises = {"noise": ((problem.G + grown) / kappa) ** alpha}
        of_noise = {f"difference, {name}": 8 * k.moment * gamma / root * moment for name, moment in noises.items()}
        of_noise |= {f"curvature, {name}": 2 * k.moment * gamma * moment for name, moment in noises.items()}
        return of_noise | {
            "gap": 4 * problem.gap / (gamma * T),
            "initial error": 8 * b0 / (eta * T),
            "difference": 8 * k.base * gamma / root,
            "difference, Young": 8 * young * gamma / root,
            "difference, distance": 8 * k.distance * gamma ** (1 + p) / root,
            "noise": 8 * tau * problem.G * root,
            "noise growth": 8 * tau * root * grown,
            "curvature": 2 * k.base * gamma,
            "curvature, Young": 2 * young * gamma,
            "curvature, distance": 4 * k.distance * gamma ** (1 + p),
        }


class StormLinear(MasterBound):
    """NSTORM for E L*_sym(1). The paper's mean of E q_k over the run is taken at its largest, Q_T."""

    method = "nstorm"
    source = "Theorem 5(iii) (Single-sample NSTORM master bounds), equation (51)"

    def conditions(self) -> tuple[Condition, ...]:
        """Conditions on the run, none for L1 = 0; the second implies the first."""
        L1 = self.constant("L1")
        if L1 == 0:
            return ()
        feedback = Condition("γ ≤ η/(16 √(2e^(3/4)) L1)", self.gamma, ratio(self.eta, 16 * S * L1))
        return Condition("γ ≤ 1/(4√2 L1)", self.gamma, ratio(1, 4 * SQRT2 * L1)), feedback

    def formula(self, gamma: Any, eta: Any, b0: Any, T: Any) -> dict[str, Any]:
        """Equation (51)."""
        D, G, L0, L1 = self.problem.gap, self.problem.G, self.constant("L0"), self.constant("L1")
        growth, root = self.problem.B * T * gamma, eta**HALF
        return {
            "gap": 4 * D / (gamma * T),
            "initial error": 8 * b0 / (eta * T),
            "difference": 8 * S * L0 * gamma / root,
            "difference, noise": 16 * S * L1 * G * gamma / root,
            "difference, noise growth": 16 * S * L1 * gamma / root * growth,
            "noise": 8 * G * root,
            "noise growth": 8 * root * growth,
            "curvature": 4 * SQRT2 * L0 * gamma,
            "curvature, noise": 8 * SQRT2 * L1 * G * gamma,
            "curvature, noise growth": 8 * SQRT2 * L1 * gamma * growth,
        }


MASTERS: dict[tuple[str, str], type[MasterBound]] = {
    ("nsgdm", "smooth"): MomentumLinear,
    ("nsgdm", "sublinear"): MomentumSublinear,
    ("nsgdm", "linear"): MomentumLinear,
    ("nstorm", "smooth"): StormMeanSquare,
    ("nstorm", "sublinear"): StormSublinear,
    ("nstorm", "linear"): StormLinear,
}


def at_powers(statement: Statement) -> Iterator[PowerOfT]:
    """The terms of a statement's master bound at its schedule, as powers of T. b0 is G, or the cap due to N_init."""
    problem, cap = statement.problem, statement.n_init_exponent
    gamma = OfHorizon(statement.gamma0, -statement.gamma_exponent)
    eta = OfHorizon(statement.eta0, -statement.eta_exponent)
    b0 = OfHorizon(problem.G, 0) if cap is None else OfHorizon(1.0, -cap / 2)
    formula = MASTERS[statement.method, statement.smoothness](problem, 1.0, 1.0, 0.0, 1).formula
    for name, term in formula(gamma, eta, b0, OfHorizon(1.0, 1)).items():
        if problem.B or not name.endswith("noise growth"):
            yield PowerOfT(name, term.coefficient, -term.exponent)


def master(statement: Statement, T: int) -> Bound:
    """The general bound behind a statement, for its schedule at T and with the exact initial error G/√N_init.

    >>> from gladstorm.theory import Problem, theorem
    >>> statement = theorem("nstorm", Problem(alpha=0, L=2, B=0.4, G=0.7, gap=3), gamma0=0.09)
    >>> master(statement, 10_000).bound <= statement.bound(10_000)
    True
    """
    return of_run(MASTERS[statement.method, statement.smoothness], statement.problem, statement, T)


def of_run(kind: type[Bound], problem: Problem, statement: Statement, T: int) -> Bound:
    """A bound for the run a statement prescribes, with the exact initial error."""
    eta, gamma, n_init, _ = statement.schedule(T)
    return kind(problem, gamma, eta, problem.norm.tau * problem.G / math.sqrt(n_init), T)
