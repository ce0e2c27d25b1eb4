"""NSTORM under E L*_sym(α), 0 < α < 1: the regimes between those of `nstorm`, with three kinds of noise.

‖∇f‖^α is split by Young's inequality, x^α ≤ λ x + c_α λ^(−p) with p = α/(1 − α): the linear part feeds back into the
descent, the constant part appears in the bound as the terms named "Young".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gladstorm.theory.class_constants import Expected, expected
from gladstorm.theory.nstorm import HALF, THIRD, BoundedNoise, NoNoise, Nstorm
from gladstorm.theory.problem import Exponent
from gladstorm.theory.rules import ratio
from gladstorm.theory.terms import Condition, PowerOfT


class Sublinear(Nstorm):
    """E L*_sym(α), 0 < α < 1. λ lives in the analysis only and the bound falls in it, so it takes its largest value.

    The price is the factor λ0^(−p), p = α/(1 − α), of the "Young" terms; in exchange every γ0 is admissible.
    """

    smoothness = "sublinear"

    @property
    def constants(self) -> Expected:
        """K0, K1, K2, L_α and c_α of the class."""
        return expected(self.L0, self.L1, self.problem.alpha)

    @property
    def p(self) -> Exponent:
        """α/(1 − α)."""
        alpha = self.problem.exact_alpha
        return alpha / (1 - alpha)

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
        if self.young_weight0 is None:
            return ()
        limits = {words: ratio(1, feedback) for words, feedback in self._feedbacks().items()}
        return tuple(Condition(words, self.young_weight0, limit) for words, limit in limits.items())

    def _feedbacks(self) -> dict[str, float]:
        per_step = self.constants.moment * self.gamma0
        return {"λ0 ≤ 1/(L_α γ0)": per_step, "λ0 ≤ η0/(8 L_α γ0)": 8 * per_step / self.eta0}


class SublinearGrowingNoise(Sublinear):
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
        """4θ."""
        return 4 * self.theta

    @property
    def gamma_exponent(self) -> Exponent:
        """(3 + α)θ."""
        return (3 + self.problem.exact_alpha) * self.theta

    @property
    def n_init_exponent(self) -> Exponent:
        """2(1 − α)θ."""
        return 2 * self.young_exponent

    @property
    def young_exponent(self) -> Exponent:
        """(1 − α)θ."""
        return (1 - self.problem.exact_alpha) * self.theta

    def _corollary(self) -> Iterator[PowerOfT]:
        D, B, G, k = self.problem.gap, self.problem.B, self.problem.G, self.constants
        g0, e0, a, th = self.gamma0, self.eta0, self.problem.exact_alpha, self.theta
        alpha, p, root = float(a), float(self.p), math.sqrt(e0)
        young = k.young * k.moment * self.feedback**p  # c_α L_α λ0^(−p)
        growth, level = k.moment * (B * g0) ** alpha, k.moment * G**alpha
        distance = k.distance * g0 ** (1 + p)
        yield PowerOfT("gap", 4 * D / g0, th)
        yield PowerOfT("initial error", 8 / e0, th)
        yield PowerOfT("difference, Young", 8 * young * g0 / root, th)
        yield PowerOfT("difference, noise growth", 8 * growth * g0 / root, th)
        yield PowerOfT("noise growth", 8 * root * B * g0, th)
        yield PowerOfT("difference", 8 * k.base * g0 / root, (1 + a) * th)
        yield PowerOfT("difference, noise", 8 * level * g0 / root, (1 + a) * th)
        yield PowerOfT("noise", 8 * root * G, 2 * th)
        yield PowerOfT("difference, distance", 8 * distance / root, (1 + 3 * a) / (1 - a) * th)
        yield PowerOfT("curvature", 2 * k.base * g0, (3 + a) * th)
        yield PowerOfT("curvature, noise", 2 * level * g0, (3 + a) * th)
        yield PowerOfT("curvature, Young", 2 * young * g0, 3 * th)
        yield PowerOfT("curvature, noise growth", 2 * growth * g0, 3 * th)
        yield PowerOfT("curvature, distance", 4 * distance, (3 + a) / (1 - a) * th)


class SublinearBoundedNoise(Sublinear, BoundedNoise):
    """E L*_sym(α), bounded variance; λ does not depend on T."""

    source = "Corollary 5.5 (Expected α-symmetric generalized smoothness under bounded variance), equation (53)"
    label = "eq:app_nstorm_alpha_bv_final"

    def _corollary(self) -> Iterator[PowerOfT]:
        D, G, k, g0, e0 = self.problem.gap, self.problem.G, self.constants, self.gamma0, self.eta0
        alpha, p, root = self.problem.alpha, self.p, math.sqrt(e0)
        young = k.young * k.moment * self.feedback ** float(p)  # c_α L_α λ0^(−p)
        level = k.moment * G**alpha
        distance = k.distance * g0 ** float(1 + p)
        yield PowerOfT("gap", 4 * D / g0, THIRD)
        yield PowerOfT("initial error", 8 * G / e0, THIRD)
        yield PowerOfT("difference", 8 * k.base * g0 / root, THIRD)
        yield PowerOfT("difference, Young", 8 * young * g0 / root, THIRD)
        yield PowerOfT("difference, noise", 8 * level * g0 / root, THIRD)
        yield PowerOfT("noise", 8 * root * G, THIRD)
        yield PowerOfT("difference, distance", 8 * distance / root, (1 + 2 * p) * THIRD)
        yield PowerOfT("curvature", 2 * k.base * g0, 2 * THIRD)
        yield PowerOfT("curvature, Young", 2 * young * g0, 2 * THIRD)
        yield PowerOfT("curvature, noise", 2 * level * g0, 2 * THIRD)
        yield PowerOfT("curvature, distance", 4 * distance, 2 * (1 + p) * THIRD)


class SublinearNoNoise(Sublinear, NoNoise):
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
