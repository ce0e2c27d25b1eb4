"""NSTORM, normalized STORM: nine regimes, from three kinds of smoothness of the oracle and three kinds of noise.

x ← x − γ v/‖v‖, v ← ∇f(x⁺; ξ) + (1 − η)(v − ∇f(x; ξ)), v⁰ the mean of N_init samples. An update evaluates its sample
twice, so T iterates cost N_init + 2(T − 1), and T without noise.

The terms are named by what they pay for: the way down ("gap"), the error of v⁰ ("initial error"), the samples ("noise",
"noise growth"), the noise of the difference ∇f(x⁺; ξ) − ∇f(x; ξ) ("difference"), and one step's length ("curvature").
The last two split, where curvature grows with the gradient, by what it grows with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

from gladstorm.theory.class_constants import Expected, expected, wrapped
from gladstorm.theory.master_bounds import HALF, SQRT2, S, at_powers
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import Exponent, ratio
from gladstorm.theory.statement import Condition, PowerOfT, Statement

THIRD = Fraction(1, 3)


class Nstorm(Statement):
    """The oracle's constants; two stochastic gradients per update."""

    method = "nstorm"
    classes: ClassVar[dict[str, str]] = {
        "smooth": "mean-square smooth",
        "sublinear": "E L*_sym(α), 0 < α < 1",
        "linear": "E L*_sym(1)",
    }
    level = "L"
    calls_per_step = 2
    corrects_drift = True

    def _corollary(self) -> Iterator[PowerOfT]:
        return at_powers(self)

    @classmethod
    def reads(cls, problem: Problem) -> Problem:
        """The constants of the oracle: its samples' differences are what NSTORM adds up."""
        return wrapped(problem)

    @classmethod
    def within_class(cls, problem: Problem) -> Problem:
        """The problem with B at most L: mean-square smooth samples have noise of at most G + L‖x − x⁰‖.

        ∇f(x; ξ) − ∇f(x) is ∇f(x⁰; ξ) − ∇f(x⁰) plus the centred difference of one sample at x and x⁰. All theorems about
        NSTORM bound the noise by G + B‖x − x⁰‖.

        >>> Nstorm.within_class(Problem(alpha=0, L=1, B=10, G=1, gap=1)).B
        1
        """
        level = problem.L if problem.smoothness == "smooth" else problem.L0 if problem.L1 == 0 else None
        return replace(problem, B=level) if problem.of_paper and level and level < problem.B else problem

    def settings(self, T: int) -> dict[str, float]:
        """NSTORM's, with the size of its first batch."""
        return {**super().settings(T), "n_init": self.schedule(T).n_init}


class StormBoundedNoise(Nstorm):
    """Variance G²: η = η0 T^(−2/3), γ = γ0 T^(−2/3)."""

    noise = "bounded"
    has_eta0 = True
    eta_exponent = gamma_exponent = 2 * THIRD


class StormNoNoise(Nstorm):
    """Exact gradients, v = ∇f(x) whatever η is, here 1: γ = γ0 T^(−1/2), one gradient per iterate."""

    noise = "deterministic"
    calls_per_step = 1
    eta_exponent = Fraction(0)
    gamma_exponent = HALF


class MeanSquare(Nstorm):
    """E‖∇f(y; ξ) − ∇f(x; ξ)‖² ≤ L²‖y − x‖²."""

    smoothness = "smooth"


class MeanSquareGrowingNoise(MeanSquare):
    """Mean-square smooth, BG-0 noise: η = 1/T, γ = γ0 T^(−3/4), and N_init that brings b0 to T^(−1/4)."""

    noise = "bg0"
    source = "Theorem 2(i); Corollary 5.1 (Mean-square smoothness with sharp initialization)"
    label = "cor:app_nstorm_mss"
    eta_exponent = Fraction(1)
    gamma_exponent = Fraction(3, 4)
    n_init_exponent = HALF


class MeanSquareBoundedNoise(MeanSquare, StormBoundedNoise):
    """Mean-square smooth, bounded variance."""

    source = "Corollary 5.4 (Mean-square smoothness under bounded variance), equation (52)"
    label = "eq:app_nstorm_mss_bv_final"


class MeanSquareNoNoise(MeanSquare, StormNoNoise):
    """L-smooth f, exact gradients. Normalized gradient descent: this is the tight bound."""

    source = "Corollary 5.7 (Mean-square smoothness, deterministic), equation (55)"
    label = "eq:app_nstorm_mss_det_final"

    def _corollary(self) -> Iterator[PowerOfT]:
        yield PowerOfT("gap", self.problem.gap / self.gamma0, HALF)
        yield PowerOfT("curvature", self.L * self.gamma0 / 2, HALF)


class ExpectedSublinear(Nstorm):
    """E L*_sym(α), 0 < α < 1: ‖∇f‖^α is split by Young's inequality, x^α ≤ λ x + c_α λ^(−p) with p = α/(1 − α).

    The linear part feeds back into the descent, the constant part appears as the terms named "Young". λ lives in the
    analysis only and the bound falls in it, so it takes its largest value; in exchange every γ0 is admissible.
    """

    smoothness = "sublinear"

    @property
    def constants(self) -> Expected:
        """K0, K1, K2, L_α and c_α of the class."""
        return expected(self.L0, self.L1, self.problem.alpha)

    @property
    def p(self) -> Exponent:
        """Power p = α/(1 − α) of Young's inequality."""
        return self.problem.exact_alpha / (1 - self.problem.exact_alpha)

    @property
    def feedback(self) -> float:
        """1/λ0: how strongly the bound's constants feed on the gradient at the largest admissible λ0."""
        return max(self._feedbacks().values())

    @property
    def young_weight0(self) -> float | None:
        """λ0, the largest admissible one; None for L1 = 0, when the bound does not contain it."""
        weight = ratio(1, self.feedback)
        return weight if weight < math.inf else None

    def conditions(self) -> tuple[Condition, ...]:
        """Upper limits of λ0, which is at the smallest of them."""
        weight = self.young_weight0
        if weight is None:
            return ()
        return tuple(Condition(words, weight, ratio(1, feedback)) for words, feedback in self._feedbacks().items())

    def _feedbacks(self) -> dict[str, float]:
        per_step = self.constants.moment * self.gamma0
        return {"λ0 ≤ 1/(L_α γ0)": per_step, "λ0 ≤ η0/(8 L_α γ0)": 8 * per_step / self.eta0}


class ExpectedSublinearGrowingNoise(ExpectedSublinear):
    """E L*_sym(α), BG-0 noise: η, γ and λ fall with powers of T^θ, θ = 1/(4 + α); N_init brings b0 to T^(−(1−α)θ)."""

    noise = "bg0"
    has_eta0 = True
    source = "Theorem 2(ii); Corollary 5.2 (Expected α-symmetric generalized smoothness)"
    label = "cor:app_nstorm_alpha"

    @property
    def theta(self) -> Exponent:
        """θ = 1/(4 + α)."""
        return 1 / (4 + self.problem.exact_alpha)

    @property
    def eta_exponent(self) -> Exponent:
        """Power 4θ of 1/T in η."""
        return 4 * self.theta

    @property
    def gamma_exponent(self) -> Exponent:
        """Power (3 + α)θ of 1/T in γ."""
        return (3 + self.problem.exact_alpha) * self.theta

    @property
    def n_init_exponent(self) -> Exponent:
        """Power 2(1 − α)θ of T in N_init."""
        return 2 * self.young_exponent

    @property
    def young_exponent(self) -> Exponent:
        """Power (1 − α)θ of 1/T in λ."""
        return (1 - self.problem.exact_alpha) * self.theta


class ExpectedSublinearBoundedNoise(ExpectedSublinear, StormBoundedNoise):
    """E L*_sym(α), bounded variance; λ does not depend on T."""

    source = "Corollary 5.5 (Expected α-symmetric generalized smoothness under bounded variance), equation (53)"
    label = "eq:app_nstorm_alpha_bv_final"


class ExpectedSublinearNoNoise(ExpectedSublinear, StormNoNoise):
    """E L*_sym(α), exact gradients: no noise feeds on the gradient, so λ0 may be 1/(L_α γ0), eight times larger."""

    source = "Corollary 5.8 (Expected α-symmetric generalized smoothness, deterministic), equation (56)"
    label = "eq:app_nstorm_alpha_det_final"

    def _feedbacks(self) -> dict[str, float]:
        return {"λ0 ≤ 1/(L_α γ0)": self.constants.moment * self.gamma0}

    def _corollary(self) -> Iterator[PowerOfT]:
        D, k, g0, p = self.problem.gap, self.constants, self.gamma0, self.p
        yield PowerOfT("gap", 2 * D / g0, HALF)
        yield PowerOfT("curvature", k.base * g0, HALF)
        yield PowerOfT("curvature, Young", k.young * k.moment * self.feedback ** float(p) * g0, HALF)
        yield PowerOfT("curvature, distance", 2 * k.distance * g0 ** float(1 + p), (1 + p) * HALF)


class ExpectedLinear(Nstorm):
    """Regimes of E L*_sym(1)."""

    smoothness = "linear"


class ExpectedLinearGrowingNoise(ExpectedLinear):
    """E L*_sym(1), BG-0 noise: η = T^(−4/5), γ = γ0 T^(−4/5), one sample to start."""

    noise = "bg0"
    source = "Theorem 2(iii); Corollary 5.3 (Expected 1-symmetric generalized smoothness)"
    label = "cor:app_nstorm_one"
    eta_exponent = gamma_exponent = Fraction(4, 5)

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(16 √(2e^(3/4)) L1)": ratio(1, 16 * S * self.L1)}


class ExpectedLinearBoundedNoise(ExpectedLinear, StormBoundedNoise):
    """E L*_sym(1), bounded variance. The paper's second limit is implied by the first."""

    source = "Corollary 5.6 (Expected 1-symmetric generalized smoothness under bounded variance), equation (54)"
    label = "eq:app_nstorm_one_bv_final"

    def _limits(self) -> dict[str, float]:
        first = {"γ0 ≤ η0/(16 √(2e^(3/4)) L1)": ratio(self.eta0, 16 * S * self.L1)}
        return first | {"γ0 ≤ 1/(4√2 L1)": ratio(1, 4 * SQRT2 * self.L1)}


class ExpectedLinearNoNoise(ExpectedLinear, StormNoNoise):
    """E L*_sym(1), exact gradients."""

    source = "Corollary 5.9 (Expected 1-symmetric generalized smoothness, deterministic), equation (57)"
    label = "eq:app_nstorm_one_det_final"

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(4√2 L1)": ratio(1, 4 * SQRT2 * self.L1)}

    def _corollary(self) -> Iterator[PowerOfT]:
        yield PowerOfT("gap", 2 * self.problem.gap / self.gamma0, HALF)
        yield PowerOfT("curvature", 2 * SQRT2 * self.L0 * self.gamma0, HALF)
