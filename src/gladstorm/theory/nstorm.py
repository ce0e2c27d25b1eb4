"""NSTORM, normalized STORM: mean-square smooth oracles and E L*_sym(1), with three kinds of noise each.

x ← x − γ v/‖v‖, v ← ∇f(x⁺; ξ) + (1 − η)(v − ∇f(x; ξ)), v⁰ the mean of N_init samples. An update evaluates its sample
twice, so T iterates cost N_init + 2(T − 1), and T without noise.

The terms are named by what they pay for: the way down ("gap"), the error of v⁰ ("initial error"), the samples ("noise",
"noise growth"), the noise of the difference ∇f(x⁺; ξ) − ∇f(x; ξ) ("difference"), and one step's length ("curvature").
The last two split, where curvature grows with the gradient, by what it grows with. For α in between see
`nstorm_sublinear`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

from gladstorm.theory.conversion import wrapped
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import ratio
from gladstorm.theory.statement import Statement
from gladstorm.theory.terms import PowerOfT

QUARTER, FIFTH, THIRD, HALF = Fraction(1, 4), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2)
SQRT2 = math.sqrt(2)
S = math.sqrt(2 * math.exp(3 / 4))  # √(2 e^{3/4}), the growth of E L*_sym(1) over one admissible step


class Nstorm(Statement):
    """The oracle's constants; two stochastic gradients per update."""

    method = "nstorm"
    classes: ClassVar[dict[str, str]] = {
        "smooth": "mean-square smooth",
        "sublinear": "E L*_sym(α), 0 < α < 1",
        "linear": "E L*_sym(1)",
    }
    calls_per_step = 2
    corrects_drift = True

    @classmethod
    def reads(cls, problem: Problem) -> Problem:
        """The constants of the oracle: its samples' differences are what NSTORM adds up."""
        return wrapped(problem)

    def settings(self, T: int) -> dict[str, float]:
        """NSTORM's, with the size of its first batch."""
        return {**super().settings(T), "n_init": self.schedule(T).n_init}

    @classmethod
    def needs(cls) -> tuple[str, ...]:
        """The oracle's mean-square constant, or L0 and L1 of E L*_sym(α)."""
        return ("L",) if cls.smoothness == "smooth" else ("L0", "L1")


class BoundedNoise(Nstorm):
    """Variance G²: η = η0 T^(−2/3), γ = γ0 T^(−2/3)."""

    noise = "bounded"
    has_eta0 = True
    eta_exponent = 2 * THIRD
    gamma_exponent = 2 * THIRD


class NoNoise(Nstorm):
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
    gamma_exponent = 3 * QUARTER
    n_init_exponent = HALF

    def _corollary(self) -> Iterator[PowerOfT]:
        D, B, G, L, g0 = self.problem.gap, self.problem.B, self.problem.G, self.L, self.gamma0
        yield PowerOfT("gap", D / g0, QUARTER)
        yield PowerOfT("initial error", 2, QUARTER)
        yield PowerOfT("difference", 2 * L * g0, QUARTER)
        yield PowerOfT("noise growth", 2 * B * g0, QUARTER)
        yield PowerOfT("noise", 2 * G, HALF)
        yield PowerOfT("curvature", L * g0 / 2, 3 * QUARTER)


class MeanSquareBoundedNoise(MeanSquare, BoundedNoise):
    """Mean-square smooth, bounded variance."""

    source = "Corollary 5.4 (Mean-square smoothness under bounded variance), equation (52)"
    label = "eq:app_nstorm_mss_bv_final"

    def _corollary(self) -> Iterator[PowerOfT]:
        D, G, L, g0, e0 = self.problem.gap, self.problem.G, self.L, self.gamma0, self.eta0
        yield PowerOfT("gap", D / g0, THIRD)
        yield PowerOfT("initial error", 2 * G / e0, THIRD)
        yield PowerOfT("difference", 2 * L * g0 / math.sqrt(e0), THIRD)
        yield PowerOfT("noise", 2 * math.sqrt(e0) * G, THIRD)
        yield PowerOfT("curvature", L * g0 / 2, 2 * THIRD)


class MeanSquareNoNoise(MeanSquare, NoNoise):
    """L-smooth f, exact gradients. Normalized gradient descent: this is the tight bound."""

    source = "Corollary 5.7 (Mean-square smoothness, deterministic), equation (55)"
    label = "eq:app_nstorm_mss_det_final"

    def _corollary(self) -> Iterator[PowerOfT]:
        yield PowerOfT("gap", self.problem.gap / self.gamma0, HALF)
        yield PowerOfT("curvature", self.L * self.gamma0 / 2, HALF)


class LinearGrowingNoise(Nstorm):
    """E L*_sym(1), BG-0 noise: η = T^(−4/5), γ = γ0 T^(−4/5), one sample to start."""

    smoothness = "linear"
    noise = "bg0"
    source = "Theorem 2(iii); Corollary 5.3 (Expected 1-symmetric generalized smoothness)"
    label = "cor:app_nstorm_one"
    eta_exponent = 4 * FIFTH
    gamma_exponent = 4 * FIFTH

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(16 √(2e^(3/4)) L1)": ratio(1, 16 * S * self.L1)}

    def _corollary(self) -> Iterator[PowerOfT]:
        D, B, G, L0, L1, g0 = self.problem.gap, self.problem.B, self.problem.G, self.L0, self.L1, self.gamma0
        yield PowerOfT("gap", 4 * D / g0, FIFTH)
        yield PowerOfT("initial error", 8 * G, FIFTH)
        yield PowerOfT("noise growth", 8 * B * g0, FIFTH)
        yield PowerOfT("difference, noise growth", 16 * S * L1 * B * g0**2, FIFTH)
        yield PowerOfT("difference", 8 * S * g0 * L0, 2 * FIFTH)
        yield PowerOfT("difference, noise", 16 * S * g0 * L1 * G, 2 * FIFTH)
        yield PowerOfT("noise", 8 * G, 2 * FIFTH)
        yield PowerOfT("curvature, noise growth", 8 * SQRT2 * L1 * B * g0**2, 3 * FIFTH)
        yield PowerOfT("curvature", 4 * SQRT2 * L0 * g0, 4 * FIFTH)
        yield PowerOfT("curvature, noise", 8 * SQRT2 * L1 * G * g0, 4 * FIFTH)


class LinearBoundedNoise(BoundedNoise):
    """E L*_sym(1), bounded variance. The paper's second limit is implied by the first."""

    smoothness = "linear"
    source = "Corollary 5.6 (Expected 1-symmetric generalized smoothness under bounded variance), equation (54)"
    label = "eq:app_nstorm_one_bv_final"

    def _limits(self) -> dict[str, float]:
        return {
            "γ0 ≤ η0/(16 √(2e^(3/4)) L1)": ratio(self.eta0, 16 * S * self.L1),
            "γ0 ≤ 1/(4√2 L1)": ratio(1, 4 * SQRT2 * self.L1),
        }

    def _corollary(self) -> Iterator[PowerOfT]:
        D, G, L0, L1, g0, e0 = self.problem.gap, self.problem.G, self.L0, self.L1, self.gamma0, self.eta0
        root = math.sqrt(e0)
        yield PowerOfT("gap", 4 * D / g0, THIRD)
        yield PowerOfT("initial error", 8 * G / e0, THIRD)
        yield PowerOfT("difference", 8 * S * g0 * L0 / root, THIRD)
        yield PowerOfT("difference, noise", 16 * S * g0 * L1 * G / root, THIRD)
        yield PowerOfT("noise", 8 * root * G, THIRD)
        yield PowerOfT("curvature", 4 * SQRT2 * L0 * g0, 2 * THIRD)
        yield PowerOfT("curvature, noise", 8 * SQRT2 * L1 * G * g0, 2 * THIRD)


class LinearNoNoise(NoNoise):
    """E L*_sym(1), exact gradients."""

    smoothness = "linear"
    source = "Corollary 5.9 (Expected 1-symmetric generalized smoothness, deterministic), equation (57)"
    label = "eq:app_nstorm_one_det_final"

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(4√2 L1)": ratio(1, 4 * SQRT2 * self.L1)}

    def _corollary(self) -> Iterator[PowerOfT]:
        yield PowerOfT("gap", 2 * self.problem.gap / self.gamma0, HALF)
        yield PowerOfT("curvature", 2 * SQRT2 * self.L0 * self.gamma0, HALF)
