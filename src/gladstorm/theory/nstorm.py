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

from gladstorm.theory.rules import ratio
from gladstorm.theory.statement import Statement
from gladstorm.theory.terms import Power

QUARTER, FIFTH, THIRD, HALF = Fraction(1, 4), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2)
SQRT2 = math.sqrt(2)
S = math.sqrt(2 * math.exp(3 / 4))  # √(2 e^{3/4}), the growth of E L*_sym(1) over one admissible step


class Nstorm(Statement):
    """The oracle's constants; two stochastic gradients per update."""

    method = "nstorm"
    calls_per_step = 2

    @property
    def needs(self) -> tuple[str, ...]:
        """The oracle's mean-square constant, or L0 and L1 of E L*_sym(α)."""
        return ("L",) if self.smoothness == "smooth" else ("L0", "L1")


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
    source = "Theorem 2(i); corollary 'Mean-square smoothness with sharp initialization', cor:app_nstorm_mss"
    eta_exponent = Fraction(1)
    gamma_exponent = 3 * QUARTER
    n_init_exponent = HALF

    def _corollary(self) -> Iterator[Power]:
        D, B, G, L, g0 = self.problem.gap, self.problem.B, self.problem.G, self.L, self.gamma0
        yield Power("gap", D / g0, QUARTER)
        yield Power("initial error", 2, QUARTER)
        yield Power("difference", 2 * L * g0, QUARTER)
        yield Power("noise growth", 2 * B * g0, QUARTER)
        yield Power("noise", 2 * G, HALF)
        yield Power("curvature", L * g0 / 2, 3 * QUARTER)


class MeanSquareBoundedNoise(MeanSquare, BoundedNoise):
    """Mean-square smooth, bounded variance."""

    source = "corollary 'Mean-square smoothness under bounded variance', equation app_nstorm_mss_bv_final"

    def _corollary(self) -> Iterator[Power]:
        D, G, L, g0, e0 = self.problem.gap, self.problem.G, self.L, self.gamma0, self.eta0
        yield Power("gap", D / g0, THIRD)
        yield Power("initial error", 2 * G / e0, THIRD)
        yield Power("difference", 2 * L * g0 / math.sqrt(e0), THIRD)
        yield Power("noise", 2 * math.sqrt(e0) * G, THIRD)
        yield Power("curvature", L * g0 / 2, 2 * THIRD)


class MeanSquareNoNoise(MeanSquare, NoNoise):
    """L-smooth f, exact gradients. Normalized gradient descent: this is the tight bound."""

    source = "corollary 'Mean-square smoothness, deterministic', equation app_nstorm_mss_det_final"

    def _corollary(self) -> Iterator[Power]:
        yield Power("gap", self.problem.gap / self.gamma0, HALF)
        yield Power("curvature", self.L * self.gamma0 / 2, HALF)


class LinearGrowingNoise(Nstorm):
    """E L*_sym(1), BG-0 noise: η = T^(−4/5), γ = γ0 T^(−4/5), one sample to start."""

    smoothness = "linear"
    noise = "bg0"
    source = "Theorem 2(iii); corollary 'Expected 1-symmetric generalized smoothness', cor:app_nstorm_one"
    eta_exponent = 4 * FIFTH
    gamma_exponent = 4 * FIFTH

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(16 √(2e^(3/4)) L1)": ratio(1, 16 * S * self.L1)}

    def _corollary(self) -> Iterator[Power]:
        D, B, G, L0, L1, g0 = self.problem.gap, self.problem.B, self.problem.G, self.L0, self.L1, self.gamma0
        yield Power("gap", 4 * D / g0, FIFTH)
        yield Power("initial error", 8 * G, FIFTH)
        yield Power("noise growth", 8 * B * g0, FIFTH)
        yield Power("difference, noise growth", 16 * S * L1 * B * g0**2, FIFTH)
        yield Power("difference", 8 * S * g0 * L0, 2 * FIFTH)
        yield Power("difference, noise", 16 * S * g0 * L1 * G, 2 * FIFTH)
        yield Power("noise", 8 * G, 2 * FIFTH)
        yield Power("curvature, noise growth", 8 * SQRT2 * L1 * B * g0**2, 3 * FIFTH)
        yield Power("curvature", 4 * SQRT2 * L0 * g0, 4 * FIFTH)
        yield Power("curvature, noise", 8 * SQRT2 * L1 * G * g0, 4 * FIFTH)


class LinearBoundedNoise(BoundedNoise):
    """E L*_sym(1), bounded variance. The paper's second limit is implied by the first."""

    smoothness = "linear"
    source = (
        "corollary 'Expected 1-symmetric generalized smoothness under bounded variance', "
        "equation app_nstorm_one_bv_final"
    )

    def _limits(self) -> dict[str, float]:
        return {
            "γ0 ≤ η0/(16 √(2e^(3/4)) L1)": ratio(self.eta0, 16 * S * self.L1),
            "γ0 ≤ 1/(4√2 L1)": ratio(1, 4 * SQRT2 * self.L1),
        }

    def _corollary(self) -> Iterator[Power]:
        D, G, L0, L1, g0, e0 = self.problem.gap, self.problem.G, self.L0, self.L1, self.gamma0, self.eta0
        root = math.sqrt(e0)
        yield Power("gap", 4 * D / g0, THIRD)
        yield Power("initial error", 8 * G / e0, THIRD)
        yield Power("difference", 8 * S * g0 * L0 / root, THIRD)
        yield Power("difference, noise", 16 * S * g0 * L1 * G / root, THIRD)
        yield Power("noise", 8 * root * G, THIRD)
        yield Power("curvature", 4 * SQRT2 * L0 * g0, 2 * THIRD)
        yield Power("curvature, noise", 8 * SQRT2 * L1 * G * g0, 2 * THIRD)


class LinearNoNoise(NoNoise):
    """E L*_sym(1), exact gradients."""

    smoothness = "linear"
    source = "corollary 'Expected 1-symmetric generalized smoothness, deterministic', equation app_nstorm_one_det_final"

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(4√2 L1)": ratio(1, 4 * SQRT2 * self.L1)}

    def _corollary(self) -> Iterator[Power]:
        yield Power("gap", 2 * self.problem.gap / self.gamma0, HALF)
        yield Power("curvature", 2 * SQRT2 * self.L0 * self.gamma0, HALF)
