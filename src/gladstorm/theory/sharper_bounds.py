"""A second opinion: bounds that are smaller than the paper's, or ask for less, or know more about the oracle.

Each takes the same run as a master bound: γ, η, initial error b0, horizon T. They are derived in this project and are
not in the paper; docs/proofs.md leads to the proofs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

from gladstorm.theory.class_constants import Expected, best_linear_class, symmetric, young
from gladstorm.theory.master_bounds import Bound, MomentumSublinear, StormMeanSquare, StormSublinear, of_run
from gladstorm.theory.rules import HORIZON, NON_NEGATIVE, POSITIVE
from gladstorm.theory.statement import Condition, Statement


def forgotten_error(run: Bound) -> float:
    """2 b0 (1 − (1 − η)^T)/(η T): v⁰ is forgotten geometrically."""
    T = float(run.horizon)
    forgotten = 1.0 if run.eta == 1 else -math.expm1(T * math.log1p(-run.eta))
    return 2 * run.initial_error * forgotten / (run.eta * T)


class Feedback(Bound):
    """Any growth, norm and decay; whatever feeds on the gradient is brought to the left as it is, and leaves c of it.

    A step has at most the length `stride`·γ, so a change of the gradient along one has that factor, and what a step
    loses to curvature half its square. What weight decay takes is 1 − c too: f is known to have Ψ ≥ (1 − ϑ)‖∇f‖.
    """

    condition: ClassVar[str]

    @property
    @abstractmethod
    def feedback(self) -> float:
        """The part of the gradient that feeds back."""

    @property
    def taken(self) -> float:
        """1 − c: the feedback, and ϑ."""
        decay = self.problem.decay
        return self.feedback + (0.0 if decay is None else decay.inward or 0.0)

    @property
    def growing(self) -> float:
        """L1 where curvature grows, else 0."""
        return 0.0 if self.problem.smoothness == "smooth" else self.constant("L1")

    @property
    def bent(self) -> float:
        """γ e^{L1 γ}, with the length of a step in the exponent for γ: what multiplies L0 and L1 over a step."""
        reach = self.growing * self.gamma * self.stride
        return self.gamma * math.exp(reach) if reach < 700 else math.inf  # where doubles end

    def conditions(self) -> tuple[Condition, ...]:
        """Something of the gradient must be left, and decay must not carry a step past c."""
        stated = []
        if self.growing:
            stated.append(Condition(self.condition, self.taken, 1.0, strict=True))
        if self.problem.decay is not None:
            stated.append(Condition("γ λ ≤ 1", self.gamma * self.problem.decay.rate, 1.0))
        return tuple(stated)

    def _per_gradient_left(self, terms: dict[str, float]) -> dict[str, float]:
        left = 1 - self.taken
        if left <= 0:
            owner = type(self).__name__
            raise ValueError(f"{owner}: gamma must be small enough for the bound's condition; got gamma={self.gamma}.")
        return {name: value / left for name, value in terms.items()}


class MomentumFeedback(Feedback):
    """NSGDM, f ∈ L*_sym(1): the drift feeds on the gradient.

    At L1 = 0 it is S1, at η = 1 without noise S6. The paper's bound asks for γ² T/η ≤ 1/(64 L1²), this one for c > 0.
    """

    method = "nsgdm"
    source = "S7: NSGDM, L*_sym(1)"
    condition = "L1 γ e^(L1 γ) (2 (1 − η)/η + 1/2) < 1"

    @property
    def weights(self) -> tuple[float, float]:
        """How often a step's change of the gradient counts: in the drift, and as curvature."""
        return 2 * self.stride * (1 - self.eta) / self.eta, self.stride**2 / 2

    @property
    def feedback(self) -> float:
        """L1 γ e^{L1 γ} (2 (1 − η)/η + 1/2)."""
        return self.growing * self.bent * sum(self.weights) if self.growing else 0.0

    def _stated(self) -> dict[str, float]:
        D, G, L0, (drift, curvature) = self.problem.gap, self.problem.G, self.constant("L0"), self.weights
        scale = 2 * self.problem.norm.tau * math.sqrt(self.eta / (2 - self.eta))
        terms = {
            "gap": D / (self.gamma * float(self.horizon)),
            "initial error": forgotten_error(self),
            "drift": L0 * self.bent * drift,
            "noise": scale * G,
            "noise growth": scale * self.noise_growth(self.horizon - 1),
            "curvature": L0 * self.bent * curvature,
        }
        return self._per_gradient_left(terms)


class MomentumSmooth(MomentumFeedback):
    """NSGDM, L0-smooth f, any γ and η: S7 without feedback. At η = 1 without noise it is tight."""

    source = "S1: NSGDM, smooth"


class StormFeedback(Feedback):
    """NSTORM, E L*_sym(1): the noise of the difference feeds on it. c is not rounded down to 1/4, nor e^{L1 γ} up."""

    method = "nstorm"
    source = "S8: NSTORM, E L*_sym(1)"
    level: ClassVar[str] = "L0"  # of the samples
    condition = "κ τ L1 γ e^(L1 γ) (2 ν/η + 1/2) < 1"

    @property
    def weights(self) -> tuple[float, float]:
        """How often a sample's change over a step counts: as noise of the difference, and as curvature."""
        norm, difference = self.problem.norm, math.sqrt(self.eta * (2 - self.eta))
        return 2 * norm.tau * norm.nu * self.stride / difference, norm.widest * self.stride**2 / 2

    @property
    def feedback(self) -> float:
        """κτ L1 γ e^{L1 γ} (2ν/η + 1/2)."""
        norm = self.problem.norm
        counted = 2 * self.stride * norm.tau * norm.nu / self.eta + norm.widest * self.stride**2 / 2
        return norm.kappa * self.growing * self.bent * counted if self.growing else 0.0

    def _stated(self) -> dict[str, float]:
        D, G, (difference, curvature) = self.problem.gap, self.problem.G, self.weights
        scale = 2 * self.problem.norm.tau * math.sqrt(self.eta / (2 - self.eta))
        base, bent, (before, after) = self.constant(self.level), self.bent, self.noise_growths
        terms = {
            "gap": D / (self.gamma * float(self.horizon)),
            "initial error": forgotten_error(self),
            "difference": difference * base * bent,
            "noise": scale * G,
            "noise growth": scale * before,
            "curvature": curvature * base * bent,
        }
        if self.growing:
            bent *= self.growing
            terms |= {
                "difference, noise": difference * bent * G,
                "difference, noise growth": difference * bent * before,
                "curvature, noise": curvature * bent * G,
                "curvature, noise growth": curvature * bent * after,
            }
        return self._per_gradient_left(terms)

    @property
    def noise_growths(self) -> tuple[float, float]:
        """Means of the noise's growth over the updates but the last, and over all."""
        return self.noise_growth(max(0, self.horizon - 2)), self.noise_growth(self.horizon - 1)


class StormSmooth(StormFeedback):
    """NSTORM, mean-square smooth oracle: the geometric sums kept, not rounded up.

    The noise at distance r is at most G + B r^h and at most G + νL r; the smaller mean of the two counts.
    """

    source = "S2: NSTORM, mean-square smooth"
    level = "L"

    @property
    def noise_growths(self) -> tuple[float, float]:
        """The smaller of the two means, for the updates but the last; nothing grows with the other."""
        before = max(0, self.horizon - 2)
        allowed = self.problem.norm.nu * self.constant(self.level) * self.mean_distance(before)
        return min(self.noise_growth(before), allowed), 0.0


class MomentumLongStep(MomentumSublinear):
    """NSGDM, L*_sym(α), for γ < 3η instead of γ ≤ η; the price of a long step is the factor 1/c, c = 3/4 − γ/(4η)."""

    source = "S3: NSGDM, L*_sym(alpha), long steps"

    def conditions(self) -> tuple[Condition, ...]:
        """γ ≤ η is not among them."""
        return Condition("γ ≤ 1", self.gamma, 1.0), Condition("γ < 3 η", self.gamma, 3 * self.eta, strict=True)

    def _stated(self) -> dict[str, float]:
        c = 3 / 4 - self.gamma / (4 * self.eta)
        if c <= 0:
            raise ValueError(f"MomentumLongStep: gamma must be < 3 eta; got gamma={self.gamma}, eta={self.eta}.")
        return {name: value / 2 / c for name, value in super()._stated().items()}  # the paper takes c for 1/2


class StormSmallConstants(StormSublinear):
    """NSTORM, E L*_sym(α): the master bound with the constants of L*_sym(α), which serve the expected class too."""

    source = "S4: NSTORM, E L*_sym(alpha), smaller constants"

    @property
    def constants(self) -> Expected:
        """K0, K1, K2 of L*_sym(α), and L_α = K1."""
        alpha = self.problem.alpha
        k = symmetric(self.constant("L0"), self.constant("L1"), alpha)
        return Expected(k.base, k.gradient, k.distance, k.gradient, young(alpha)).in_norm(self.problem)


class StormOnWrapper(Bound):
    """NSTORM on `BlumGladyshev`, with f's own constants: there the noise of a difference is B ρ (x⁺ − x).

    It does not grow with the gradient, so the mean-square schedule gives ε^(−4) for every α: runs on the wrapper cannot
    show the price ε^(−(4+α)) of E L*_sym(α). Absorbing the curvature's growth costs a factor of 4/3, for α = 1 of 2.
    """

    method = "nstorm"
    source = "S5: NSTORM on the BG-0 wrapper"

    def conditions(self) -> tuple[Condition, ...]:
        """For α = 1 a step must not outrun the curvature's growth."""
        linear = self.problem.smoothness == "linear"
        return (Condition("γ L1 ≤ 1/2", self.gamma * self.constant("L1"), 0.5),) if linear else ()

    def _stated(self) -> dict[str, float]:
        p, gamma = self.problem, self.gamma
        as_samples = replace(p, alpha=0.0, L=p.B)  # a difference of their noise is B ρ (x⁺ − x)
        terms = StormMeanSquare(as_samples, gamma, self.eta, self.initial_error, self.horizon).terms()
        if p.smoothness == "smooth":
            return terms | {"curvature": self.constant("L0") * gamma / 2}
        if p.smoothness == "linear":
            factor, curvature = 2.0, {"curvature": self.constant("L0") * gamma}
        else:
            factor, k = 4 / 3, symmetric(self.constant("L0"), self.constant("L1"), p.alpha)
            curvature = {"curvature": k.base * gamma / 2, "growing curvature": k.descent * gamma ** (1 / (1 - p.alpha))}
        return {name: factor * value for name, value in (terms | curvature).items()}


class ExactLinear(MomentumFeedback):
    """Normalized gradient descent, f ∈ L*_sym(1), exact gradients: S7 at η = 1, as either method is then."""

    source = "S6: deterministic, L*_sym(1)"
    weights = (0.0, 1 / 2)

    def _stated(self) -> dict[str, float]:
        return {name: value for name, value in super()._stated().items() if name in ("gap", "curvature")}


_NOISY: dict[tuple[str, str], type[Bound]] = {
    ("nsgdm", "smooth"): MomentumSmooth,
    ("nsgdm", "sublinear"): MomentumLongStep,
    ("nsgdm", "linear"): MomentumFeedback,
    ("nstorm", "smooth"): StormSmooth,
    ("nstorm", "sublinear"): StormSmallConstants,
    ("nstorm", "linear"): StormFeedback,
}
SECOND_OPINIONS: dict[tuple[str, str, str], type[Bound]] = {
    ("nsgdm", "smooth", "deterministic"): MomentumSmooth,
    ("nsgdm", "linear", "deterministic"): ExactLinear,
    ("nstorm", "linear", "deterministic"): ExactLinear,
} | {(*setting, noise): kind for setting, kind in _NOISY.items() for noise in ("bg0", "bounded")}


def sharper(statement: Statement, T: int) -> Bound | None:
    """This project's smaller bound for a statement's run, with the exact initial error; None if there is none.

    It is not in the paper; docs/proofs.md leads to the proof. For 0 < α < 1 it may be a bound for α = 1, whose class
    contains the problem's; `bound.problem` and `bound.source` say so.

    >>> from gladstorm.theory import Problem, theorem
    >>> statement = theorem("nsgdm", Problem(alpha=0, L0=1.5, B=0.4, G=0.7, gap=3), gamma0=0.09)
    >>> second = sharper(statement, 10_000)
    >>> round(second.bound, 2), round(statement.bound(10_000), 2)
    (7.36, 15.1)
    """
    if not statement.problem.of_paper:
        return None  # its own bound is the sharpest that is known
    method, noise = statement.method, statement.noise
    wide = SECOND_OPINIONS[method, "linear", noise]
    best = best_linear_class(statement.problem, lambda problem: of_run(wide, problem, statement, T).guaranteed)
    bounds = [] if best is None else [of_run(wide, best, statement, T)]
    if kind := SECOND_OPINIONS.get((method, statement.smoothness, noise)):
        bounds.insert(0, of_run(kind, statement.problem, statement, T))
    elif bounds and bounds[0].guaranteed >= statement.bound(T):
        return None
    return min(bounds, key=lambda bound: bound.guaranteed, default=None)


def travel_lower_bound(L0: float, gamma: float, T: int, descent: float) -> float:
    """A lower bound on the mean of ‖∇f‖ over T normalized steps, for L0-smooth f: descent/(γ T) − L0 γ/2.

    A step of length γ lowers f by at most γ‖∇f‖ + L0 γ²/2, whatever the estimator.

    Args:
        L0, gamma, T: The smoothness constant of f, the length of a step and their number.
        descent: f(x⁰) − f(x^T).
    """
    NON_NEGATIVE.require("travel_lower_bound", "L0", L0)
    POSITIVE.require("travel_lower_bound", "gamma", gamma)
    HORIZON.require("travel_lower_bound", "horizon", T)
    return descent / (gamma * float(T)) - L0 * gamma / 2
