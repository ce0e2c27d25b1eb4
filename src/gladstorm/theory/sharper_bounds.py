"""A second opinion: bounds that are smaller than the paper's, or ask for less, or know more about the oracle.

Each takes the same run as a master bound: γ, η, initial error b0, horizon T. They are derived in this project and are
not in the paper; docs/proofs.md has the proofs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

from gladstorm.theory.class_constants import Expected, symmetric, young
from gladstorm.theory.feedback_bounds import MomentumFeedback, StormFeedback, forgotten_error
from gladstorm.theory.master_bounds import MASTERS, Bound, StormSublinear
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import HORIZON, NON_NEGATIVE, POSITIVE
from gladstorm.theory.statement import Statement
from gladstorm.theory.terms import Condition
from gladstorm.theory.wider_classes import best_linear_class


class MomentumSmooth(Bound):
    """NSGDM, L0-smooth f, any γ and η: not led through the proof for L1 > 0.

    Two times less for the gap and the noise, eight times less for the drift; at η = 1 without noise it is tight.
    """

    method = "nsgdm"
    source = "S1: NSGDM, smooth"
    error_charged = 2

    def _stated(self) -> dict[str, float]:
        D, B, G, L0 = self.problem.gap, self.problem.B, self.problem.G, self.constant("L0")
        gamma, eta, T, K = self.gamma, self.eta, float(self.horizon), self.updates
        scale = 2 * math.sqrt(eta / (2 - eta))
        return {
            "gap": D / (gamma * T),
            "initial error": forgotten_error(self),
            "drift": 2 * L0 * gamma * (1 - eta) / eta,
            "noise": scale * G,
            "noise growth": scale * B * gamma * K / 2,
            "curvature": L0 * gamma / 2,
        }


class StormSmooth(Bound):
    """NSTORM, mean-square smooth oracle: the geometric sums kept, not rounded up."""

    method = "nstorm"
    source = "S2: NSTORM, mean-square smooth"
    error_charged = 2

    def _stated(self) -> dict[str, float]:
        D, B, G, L = self.problem.gap, self.problem.B, self.problem.G, self.constant("L")
        gamma, eta, T = self.gamma, self.eta, float(self.horizon)
        scale = 2 / math.sqrt(eta * (2 - eta))
        return {
            "gap": D / (gamma * T),
            "initial error": forgotten_error(self),
            "difference": scale * L * gamma,
            "noise": scale * eta * G,
            "noise growth": scale * eta * B * gamma * max(0.0, self.updates - 1) / 2,
            "curvature": L * gamma / 2,
        }


class MomentumLongStep(Bound):
    """NSGDM, L*_sym(α), for γ < 3η instead of γ ≤ η; the price of a long step is the factor 1/c, c = 3/4 − γ/(4η)."""

    method = "nsgdm"
    source = "S3: NSGDM, L*_sym(alpha), long steps"

    def conditions(self) -> tuple[Condition, ...]:
        """γ ≤ η is not among them."""
        return Condition("γ ≤ 1", self.gamma, 1.0), Condition("γ < 3 η", self.gamma, 3 * self.eta, strict=True)

    def _stated(self) -> dict[str, float]:
        D, B, G, alpha = self.problem.gap, self.problem.B, self.problem.G, self.problem.alpha
        gamma, eta, b0, T, K = self.gamma, self.eta, self.initial_error, float(self.horizon), self.updates
        k = symmetric(self.constant("L0"), self.constant("L1"), alpha)
        c = 3 / 4 - gamma / (4 * eta)
        if c <= 0:
            raise ValueError(f"MomentumLongStep: gamma must be < 3 eta; got gamma={gamma}, eta={eta}.")
        return {
            "gap": D / (gamma * T) / c,
            "initial error": 2 * b0 / (eta * T) / c,
            "drift": 2 * k.drift * gamma / eta / c,
            "noise": 2 * math.sqrt(eta) * G / c,
            "noise growth": 2 * math.sqrt(eta) * B * gamma * K / 2 / c,
            "curvature": k.base * gamma / 2 / c,
            "growing curvature": k.descent * gamma ** (1 / (1 - alpha)) / c,
        }


class StormSmallConstants(StormSublinear):
    """NSTORM, E L*_sym(α): the master bound with the constants of L*_sym(α), which serve the expected class too."""

    source = "S4: NSTORM, E L*_sym(alpha), smaller constants"

    @property
    def constants(self) -> Expected:
        """K0, K1, K2 of L*_sym(α), and L_α = K1."""
        alpha = self.problem.alpha
        k = symmetric(self.constant("L0"), self.constant("L1"), alpha)
        return Expected(k.base, k.gradient, k.distance, moment=k.gradient, young=young(alpha))


class StormOnWrapper(Bound):
    """NSTORM on `BlumGladyshev`, with f's own constants: there the noise of a difference is B ρ (x⁺ − x).

    It does not grow with the gradient, so the mean-square schedule gives ε^(−4) for every α: runs on the wrapper cannot
    show the price ε^(−(4+α)) of E L*_sym(α).
    """

    method = "nstorm"
    factor: ClassVar[float]  # what absorbing the curvature's growth costs

    @abstractmethod
    def _curvature(self) -> dict[str, float]:
        """What one step's length costs."""

    def _stated(self) -> dict[str, float]:
        D, B, G = self.problem.gap, self.problem.B, self.problem.G
        gamma, eta, b0, T = self.gamma, self.eta, self.initial_error, float(self.horizon)
        terms = {
            "gap": D / (gamma * T),
            "initial error": 2 * b0 / (eta * T),
            "difference": 2 * B * gamma / math.sqrt(eta),
            "noise": 2 * math.sqrt(eta) * G,
            "noise growth": 2 * math.sqrt(eta) * B * T * gamma,
        }
        return {name: self.factor * value for name, value in (terms | self._curvature()).items()}


class StormOnSmoothWrapper(StormOnWrapper):
    """L0-smooth f."""

    source = "S5: NSTORM on the BG-0 wrapper, smooth"
    factor = 1.0

    def _curvature(self) -> dict[str, float]:
        return {"curvature": self.constant("L0") * self.gamma / 2}


class StormOnSublinearWrapper(StormOnWrapper):
    """f ∈ L*_sym(α), 0 < α < 1."""

    source = "S5: NSTORM on the BG-0 wrapper, L*_sym(alpha)"
    factor = 4 / 3

    def _curvature(self) -> dict[str, float]:
        alpha, gamma = self.problem.alpha, self.gamma
        k = symmetric(self.constant("L0"), self.constant("L1"), alpha)
        return {"curvature": k.base * gamma / 2, "growing curvature": k.descent * gamma ** (1 / (1 - alpha))}


class StormOnLinearWrapper(StormOnWrapper):
    """f ∈ L*_sym(1)."""

    source = "S5: NSTORM on the BG-0 wrapper, L*_sym(1)"
    factor = 2.0

    def conditions(self) -> tuple[Condition, ...]:
        """A step must not outrun the curvature's growth."""
        return (Condition("γ L1 ≤ 1/2", self.gamma * self.constant("L1"), 0.5),)

    def _curvature(self) -> dict[str, float]:
        return {"curvature": self.constant("L0") * self.gamma}


class ExactLinear(Bound):
    """Normalized gradient descent, f ∈ L*_sym(1), exact gradients: without noise either method is that."""

    method = "nsgdm"
    source = "S6: deterministic, L*_sym(1)"

    def conditions(self) -> tuple[Condition, ...]:
        """A step must not outrun the curvature's growth."""
        return (Condition("γ L1 ≤ 1/2", self.gamma * self.constant("L1"), 0.5),)

    def _stated(self) -> dict[str, float]:
        D, L0, gamma = self.problem.gap, self.constant("L0"), self.gamma
        reach = self.constant("L1") * gamma
        growth = math.exp(reach)
        kept = 1 - reach / 2 * growth
        if kept <= 0:
            raise ValueError(f"ExactLinear: gamma must be ≤ 1/(2 L1); got gamma={gamma}, L1={self.constant('L1')}.")
        return {"gap": D / (gamma * float(self.horizon)) / kept, "curvature": L0 * gamma / 2 * growth / kept}


SECOND_OPINIONS: dict[tuple[str, str, str], type[Bound]] = {
    ("nsgdm", "smooth", "bg0"): MomentumSmooth,
    ("nsgdm", "smooth", "bounded"): MomentumSmooth,
    ("nsgdm", "smooth", "deterministic"): MomentumSmooth,
    ("nsgdm", "sublinear", "bg0"): MomentumLongStep,
    ("nsgdm", "sublinear", "bounded"): MomentumLongStep,
    ("nsgdm", "linear", "bg0"): MomentumFeedback,
    ("nsgdm", "linear", "bounded"): MomentumFeedback,
    ("nsgdm", "linear", "deterministic"): ExactLinear,
    ("nstorm", "smooth", "bg0"): StormSmooth,
    ("nstorm", "smooth", "bounded"): StormSmooth,
    ("nstorm", "sublinear", "bg0"): StormSmallConstants,
    ("nstorm", "sublinear", "bounded"): StormSmallConstants,
    ("nstorm", "linear", "bg0"): StormFeedback,
    ("nstorm", "linear", "bounded"): StormFeedback,
    ("nstorm", "linear", "deterministic"): ExactLinear,
}


def sharper(statement: Statement, T: int) -> Bound | None:
    """This project's smaller bound for a statement's run, with the exact initial error; None if there is none.

    It is not in the paper; docs/proofs.md has the proof. For 0 < α < 1 it may be a bound for α = 1, whose class
    contains the problem's; `bound.problem` and `bound.source` say so.

    >>> from gladstorm.theory import Problem, theorem
    >>> statement = theorem("nsgdm", Problem(alpha=0, L0=1.5, B=0.4, G=0.7, gap=3), gamma0=0.09)
    >>> second = sharper(statement, 10_000)
    >>> round(second.bound, 2), round(statement.bound(10_000), 2)
    (7.36, 15.1)
    """
    kind = SECOND_OPINIONS.get((statement.method, statement.smoothness, statement.noise))
    in_wider = _in_linear_class(statement, T)
    if kind is None:
        return in_wider if in_wider is not None and in_wider.bound < statement.bound(T) else None
    own = of_run(kind, statement.problem, statement, T)
    return own if in_wider is None or _guaranteed(own) <= in_wider.bound else in_wider


def _in_linear_class(statement: Statement, T: int) -> Bound | None:
    """The best bound of α = 1 for the run a statement about 0 < α < 1 prescribes; None where none holds."""
    setting = (statement.method, "linear", statement.noise)
    kind = SECOND_OPINIONS.get(setting) or MASTERS.get(setting[:2])
    if kind is None:
        return None
    wider = best_linear_class(statement.problem, lambda problem: _guaranteed(of_run(kind, problem, statement, T)))
    found = None if wider is None else of_run(kind, wider, statement, T)
    return None if found is None or _guaranteed(found) == math.inf else found


def _guaranteed(bound: Bound) -> float:
    """Infinite where a condition fails."""
    return bound.bound if all(condition.holds for condition in bound.conditions()) else math.inf


def of_run(kind: type[Bound], problem: Problem, statement: Statement, T: int) -> Bound:
    """A bound for the run a statement prescribes, with the exact initial error."""
    eta, gamma, n_init, _ = statement.schedule(T)
    return kind(problem, gamma, eta, problem.G / math.sqrt(n_init), T)


_ON_WRAPPER: dict[tuple[str, str], type[Bound]] = {
    ("nstorm", "smooth"): StormOnSmoothWrapper,
    ("nstorm", "sublinear"): StormOnSublinearWrapper,
    ("nstorm", "linear"): StormOnLinearWrapper,
}


def on_wrapper(statement: Statement, problem: Problem, T: int) -> Bound | None:
    """A bound for a statement's run if the noise of `BlumGladyshev` is added to f; None if there is none.

    `problem` has f's own constants.
    """
    kind = _ON_WRAPPER.get((statement.method, problem.smoothness))
    if kind is None:
        return None
    return of_run(kind, problem, statement, T)


def travel_lower_bound(L0: float, gamma: float, T: int, descent: float) -> float:
    """A lower bound on the mean of ‖∇f‖ over T normalized steps, for L0-smooth f: descent/(γ T) − L0 γ/2.

    `descent` is f(x⁰) − f(x^T). A step of length γ lowers f by at most γ‖∇f‖ + L0 γ²/2, whatever the estimator.
    """
    NON_NEGATIVE.require("travel_lower_bound", "L0", L0)
    POSITIVE.require("travel_lower_bound", "gamma", gamma)
    HORIZON.require("travel_lower_bound", "horizon", T)
    return descent / (gamma * float(T)) - L0 * gamma / 2
