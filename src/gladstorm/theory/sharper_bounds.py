"""A second opinion: bounds that are smaller than the paper's, or ask for less, or know more about the oracle.

Each takes the same run as a master bound: γ, η, initial error b0, horizon T. They are derived in this project and are
not in the paper.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

from gladstorm.theory.class_constants import Expected, symmetric, young
from gladstorm.theory.master_bounds import Bound, StormSublinear
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import HORIZON, NON_NEGATIVE, POSITIVE
from gladstorm.theory.statement import Statement
from gladstorm.theory.terms import Condition, Schedule


class MomentumSmooth(Bound):
    """NSGDM, L0-smooth f, any γ and η: not led through the proof for L1 > 0.

    Two times less for the gap and the noise, eight times less for the drift; at η = 1 without noise it is tight.
    """

    method = "nsgdm"
    source = "S1: NSGDM, smooth"

    def _stated(self) -> dict[str, float]:
        D, B, G, L0 = self.problem.gap, self.problem.B, self.problem.G, self.constant("L0")
        gamma, eta, T, K = self.gamma, self.eta, float(self.horizon), self.updates
        scale = 2 * math.sqrt(eta / (2 - eta))
        return {
            "gap": D / (gamma * T),
            "initial error": _forgotten_error(self),
            "drift": 2 * L0 * gamma * (1 - eta) / eta,
            "noise": scale * G,
            "noise growth": scale * B * gamma * K / 2,
            "curvature": L0 * gamma / 2,
        }


class StormSmooth(Bound):
    """NSTORM, mean-square smooth oracle: the geometric sums kept, not rounded up."""

    method = "nstorm"
    source = "S2: NSTORM, mean-square smooth"

    def _stated(self) -> dict[str, float]:
        D, B, G, L = self.problem.gap, self.problem.B, self.problem.G, self.constant("L")
        gamma, eta, T = self.gamma, self.eta, float(self.horizon)
        scale = 2 / math.sqrt(eta * (2 - eta))
        return {
            "gap": D / (gamma * T),
            "initial error": _forgotten_error(self),
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
    """Normalized gradient descent, f ∈ L*_sym(1), exact gradients."""

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


_SHARPER: dict[tuple[str, str, str], type[Bound]] = {
    ("nsgdm", "smooth", "bg0"): MomentumSmooth,
    ("nsgdm", "smooth", "bounded"): MomentumSmooth,
    ("nsgdm", "smooth", "deterministic"): MomentumSmooth,
    ("nsgdm", "sublinear", "bg0"): MomentumLongStep,
    ("nsgdm", "sublinear", "bounded"): MomentumLongStep,
    ("nsgdm", "linear", "deterministic"): ExactLinear,
    ("nstorm", "smooth", "bg0"): StormSmooth,
    ("nstorm", "smooth", "bounded"): StormSmooth,
    ("nstorm", "sublinear", "bg0"): StormSmallConstants,
    ("nstorm", "sublinear", "bounded"): StormSmallConstants,
}


def sharper(statement: Statement, T: int) -> Bound | None:
    """The sharper bound for the run a statement prescribes, with the exact initial error; None where there is none.

    >>> from gladstorm.theory import Problem, theorem
    >>> statement = theorem("nsgdm", Problem(alpha=0, L0=1.5, B=0.4, G=0.7, gap=3), gamma0=0.09)
    >>> second = sharper(statement, 10_000)
    >>> round(second.bound, 2), round(statement.bound(10_000), 2)
    (7.36, 15.1)
    """
    kind = _SHARPER.get((statement.method, statement.smoothness, statement.noise))
    if kind is None:
        return None
    eta, gamma, n_init, _ = statement.schedule(T)
    return kind(statement.problem, gamma, eta, statement.problem.G / math.sqrt(n_init), T)


_ON_WRAPPER: dict[str, type[StormOnWrapper]] = {
    "smooth": StormOnSmoothWrapper,
    "sublinear": StormOnSublinearWrapper,
    "linear": StormOnLinearWrapper,
}


def on_wrapper(problem: Problem, schedule: Schedule, T: int) -> StormOnWrapper:
    """The bound of NSTORM with this schedule on the BG-0 wrapper around f; the problem holds f's own constants."""
    initial_error = problem.G / math.sqrt(schedule.n_init)
    return _ON_WRAPPER[problem.smoothness](problem, schedule.gamma, schedule.eta, initial_error, T)


def travel_lower_bound(L0: float, gamma: float, T: int, descent: float) -> float:
    """What the mean of ‖∇f‖ over T normalized steps cannot fall below: descent/(γ T) − L0 γ/2, for L0-smooth f.

    `descent` is f(x⁰) − f(x^T). A step of length γ descends by at most γ‖∇f‖ + L0 γ²/2, whatever the estimator.
    """
    NON_NEGATIVE.require("travel_lower_bound", "L0", L0)
    POSITIVE.require("travel_lower_bound", "gamma", gamma)
    HORIZON.require("travel_lower_bound", "horizon", T)
    return descent / (gamma * float(T)) - L0 * gamma / 2


def _forgotten_error(run: Bound) -> float:
    # 2 b0 (1 − (1 − η)^T)/(η T): v⁰ is forgotten geometrically.
    T = float(run.horizon)
    forgotten = 1.0 if run.eta == 1 else -math.expm1(T * math.log1p(-run.eta))
    return 2 * run.initial_error * forgotten / (run.eta * T)
