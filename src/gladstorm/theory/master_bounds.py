"""The five master bounds: E‖∇f(x̂)‖ for any γ, η, initial error and horizon. The corollaries are these at a schedule.

Terms carry the names they have in the corollaries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gladstorm.theory.class_constants import Expected, expected, symmetric
from gladstorm.theory.nstorm import SQRT2, S
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import FRACTION, HORIZON, NON_NEGATIVE, POSITIVE, OutOfRange, in_range, ratio
from gladstorm.theory.statement import Condition, Statement


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
    label: ClassVar[str] = ""  # the equation's name in the paper's LaTeX, if it is one of the paper's

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
    def updates(self) -> float:
        """Number of updates K = T − 1."""
        return float(self.horizon - 1)

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
            return self.problem.B * (self.mean_distance(updates) if h <= 1 else decay.radius) ** h
        return self.problem.B * self.gamma**h * (updates if h <= 1 else updates + 1) ** h / (1 + h)

    def constant(self, name: str) -> float:
        """L0, L1 or L of the problem."""
        return self.problem.constant(self.method, name)


class MomentumLinear(Bound):
    """NSGDM for L*_sym(1), and with L1 = 0 for L0-smooth f."""

    method = "nsgdm"
    source = "Theorem 3 (Single-sample master bound for L0-smoothness and α = 1), equation (20)"
    label = "eq:app_l1_master_bound"

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

    def _stated(self) -> dict[str, float]:
        D, B, G, L0 = self.problem.gap, self.problem.B, self.problem.G, self.constant("L0")
        gamma, eta, b0, T, K = self.gamma, self.eta, self.initial_error, float(self.horizon), self.updates
        c = 64 * self.L1**2 * gamma / eta
        return {
            "gap": 2 * D / (gamma * T),
            "initial error": 4 * b0 / (eta * T),
            "drift": 16 * L0 * gamma / eta,
            "curvature": 2 * L0 * gamma,
            "noise": 4 * math.sqrt(eta) * G,
            "noise growth": 4 * math.sqrt(eta) * B * gamma * K / 2,
            "coupled gap": c * 4 * D,
            "coupled initial error": c * 4 * gamma * b0 / eta,
            "coupled drift": c * 16 * L0 * gamma**2 * T / eta,
            "coupled noise": c * 4 * gamma * math.sqrt(eta) * T * G,
            "coupled noise growth": c * 2 * B * gamma**2 * math.sqrt(eta) * K * T,
            "coupled curvature": c * 2 * L0 * gamma**2 * T,
        }


class MomentumSublinear(Bound):
    """NSGDM for L*_sym(α), 0 < α < 1."""

    method = "nsgdm"
    source = "Theorem 4 (Single-sample master bound under L*_sym(α)), equation (32)"
    label = "eq:app_alpha_master_bound"

    def conditions(self) -> tuple[Condition, ...]:
        """A unit of length is in the first: it is there to bound γ^(1/(1−α)) by γ."""
        return Condition("γ ≤ 1", self.gamma, 1.0), Condition("γ ≤ η", self.gamma, self.eta)

    def _stated(self) -> dict[str, float]:
        D, B, G, alpha = self.problem.gap, self.problem.B, self.problem.G, self.problem.alpha
        gamma, eta, b0, T, K = self.gamma, self.eta, self.initial_error, float(self.horizon), self.updates
        k = symmetric(self.constant("L0"), self.constant("L1"), alpha)
        return {
            "gap": 2 * D / (gamma * T),
            "initial error": 4 * b0 / (eta * T),
            "drift": 4 * k.drift * gamma / eta,
            "noise": 4 * math.sqrt(eta) * G,
            "noise growth": 4 * math.sqrt(eta) * B * gamma * K / 2,
            "curvature": k.base * gamma,
            "growing curvature": 2 * k.descent * gamma ** (1 / (1 - alpha)),
        }


class StormMeanSquare(Bound):
    """NSTORM for mean-square smooth oracles."""

    method = "nstorm"
    source = "Theorem 5(i) (Single-sample NSTORM master bounds), equation (49)"
    label = "eq:app_nstorm_master_mss"

    def _stated(self) -> dict[str, float]:
        D, B, G, L = self.problem.gap, self.problem.B, self.problem.G, self.constant("L")
        gamma, eta, b0, T = self.gamma, self.eta, self.initial_error, float(self.horizon)
        return {
            "gap": D / (gamma * T),
            "initial error": 2 * b0 / (eta * T),
            "difference": 2 * L * gamma / math.sqrt(eta),
            "noise": 2 * math.sqrt(eta) * G,
            "noise growth": 2 * math.sqrt(eta) * B * T * gamma,
            "curvature": L / 2 * gamma,
        }


@dataclass(frozen=True)
class StormSublinear(Bound):
    """NSTORM for E L*_sym(α), 0 < α < 1. The bound falls in λ; without one it takes the largest, η/(8 L_α γ).

    The paper's mean of E q_k^α over the run is taken at its largest, Q_T^α.
    """

    young_weight: float | None = None  # λ

    method = "nstorm"
    source = "Theorem 5(ii) (Single-sample NSTORM master bounds), equation (50)"
    label = "eq:app_nstorm_master_alpha"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.young_weight is not None:
            POSITIVE.require(type(self).__name__, "young_weight", self.young_weight)

    @property
    def constants(self) -> Expected:
        """K0, K1, K2, L_α and c_α."""
        return expected(self.constant("L0"), self.constant("L1"), self.problem.alpha)

    @property
    def largest_young_weight(self) -> float:
        """η/(8 L_α γ), infinite for L1 = 0."""
        return ratio(1, 8 * self.constants.moment * self.gamma / self.eta)

    def conditions(self) -> tuple[Condition, ...]:
        """Conditions on the run, none for L1 = 0; the second implies the first."""
        weight = self.young_weight or self.largest_young_weight
        if math.isinf(weight) or self.constants.moment == 0:
            return ()
        one_step = Condition("λ ≤ 1/(L_α γ)", weight, ratio(1, self.constants.moment * self.gamma))
        return one_step, Condition("λ ≤ η/(8 L_α γ)", weight, self.largest_young_weight)

    def _stated(self) -> dict[str, float]:
        D, G, alpha, k = self.problem.gap, self.problem.G, self.problem.alpha, self.constants
        gamma, eta, b0, T = self.gamma, self.eta, self.initial_error, float(self.horizon)
        p, root = alpha / (1 - alpha), math.sqrt(eta)
        Q = G + self.problem.B * T * gamma  # Q_T, the noise scale as far as T steps can go
        weight = self.young_weight or self.largest_young_weight
        young = k.young * k.moment * weight**-p
        distance = k.distance * gamma**p
        return {
            "gap": 4 * D / (gamma * T),
            "initial error": 8 * b0 / (eta * T),
            "difference": 8 * gamma / root * k.base,
            "difference, Young": 8 * gamma / root * young,
            "difference, noise": 8 * gamma / root * k.moment * Q**alpha,
            "difference, distance": 8 * gamma / root * distance,
            "noise": 8 * root * G,
            "noise growth": 8 * root * (Q - G),
            "curvature": 2 * gamma * k.base,
            "curvature, Young": 2 * gamma * young,
            "curvature, distance": 2 * gamma * 2 * distance,
            "curvature, noise": 2 * k.moment * gamma * Q**alpha,
        }


class StormLinear(Bound):
    """NSTORM for E L*_sym(1). The paper's mean of E q_k over the run is taken at its largest, Q_T."""

    method = "nstorm"
    source = "Theorem 5(iii) (Single-sample NSTORM master bounds), equation (51)"
    label = "eq:app_nstorm_master_one"

    def conditions(self) -> tuple[Condition, ...]:
        """Conditions on the run, none for L1 = 0; the second implies the first."""
        L1 = self.constant("L1")
        if L1 == 0:
            return ()
        feedback = Condition("γ ≤ η/(16 √(2e^(3/4)) L1)", self.gamma, ratio(self.eta, 16 * S * L1))
        return Condition("γ ≤ 1/(4√2 L1)", self.gamma, ratio(1, 4 * SQRT2 * L1)), feedback

    def _stated(self) -> dict[str, float]:
        D, G, L0, L1 = self.problem.gap, self.problem.G, self.constant("L0"), self.constant("L1")
        gamma, eta, b0, T = self.gamma, self.eta, self.initial_error, float(self.horizon)
        growth, root = self.problem.B * T * gamma, math.sqrt(eta)
        return {
            "gap": 4 * D / (gamma * T),
            "initial error": 8 * b0 / (eta * T),
            "difference": 8 * S * gamma / root * L0,
            "difference, noise": 8 * S * gamma / root * 2 * L1 * G,
            "difference, noise growth": 8 * S * gamma / root * 2 * L1 * growth,
            "noise": 8 * root * G,
            "noise growth": 8 * root * growth,
            "curvature": 4 * SQRT2 * L0 * gamma,
            "curvature, noise": 8 * SQRT2 * L1 * gamma * G,
            "curvature, noise growth": 8 * SQRT2 * L1 * gamma * growth,
        }


MASTERS: dict[tuple[str, str], type[Bound]] = {
    ("nsgdm", "smooth"): MomentumLinear,
    ("nsgdm", "sublinear"): MomentumSublinear,
    ("nsgdm", "linear"): MomentumLinear,
    ("nstorm", "smooth"): StormMeanSquare,
    ("nstorm", "sublinear"): StormSublinear,
    ("nstorm", "linear"): StormLinear,
}


def master(statement: Statement, T: int) -> Bound:
    """The general bound behind a statement, for its schedule at T and with the exact initial error G/√N_init.

    >>> from gladstorm.theory import Problem, theorem
    >>> statement = theorem("nstorm", Problem(alpha=0, L=2, B=0.4, G=0.7, gap=3), gamma0=0.09)
    >>> master(statement, 10_000).bound <= statement.bound(10_000)
    True
    """
    kind = MASTERS.get((statement.method, statement.smoothness))
    if kind is None:
        raise ValueError(f"master: the statement must have a master bound; got a statement about {statement.regime}.")
    return of_run(kind, statement.problem, statement, T)


def of_run(kind: type[Bound], problem: Problem, statement: Statement, T: int) -> Bound:
    """A bound for the run a statement prescribes, with the exact initial error."""
    eta, gamma, n_init, _ = statement.schedule(T)
    return kind(problem, gamma, eta, problem.norm.tau * problem.G / math.sqrt(n_init), T)
