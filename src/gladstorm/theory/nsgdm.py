"""NSGDM, normalized SGD with momentum: nine regimes, from three kinds of smoothness and three kinds of noise.

x ← x − γ v/‖v‖, v ← (1 − η) v + η ∇f(x; ξ), v⁰ = ∇f(x⁰; ξ⁰). One sample per iterate, so T iterates cost T.

The terms are named by what they pay for: the way down ("gap"), the error of v⁰ ("initial error"), the gradient moving
under the momentum ("drift"), the samples ("noise", "noise growth"), and one step's length ("curvature").
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

from gladstorm.theory.class_constants import Symmetric, symmetric
from gladstorm.theory.master_bounds import HALF, at_powers
from gladstorm.theory.rules import ratio
from gladstorm.theory.statement import PowerOfT, Statement


class Nsgdm(Statement):
    """f's own constants; one stochastic gradient per iterate."""

    method = "nsgdm"
    classes: ClassVar[dict[str, str]] = {
        "smooth": "L0-smooth",
        "sublinear": "L*_sym(α), 0 < α < 1",
        "linear": "L*_sym(1)",
    }
    level = "L0"
    calls_per_step = 1
    corrects_drift = False

    def _corollary(self) -> Iterator[PowerOfT]:
        return at_powers(self)


class GrowingNoise(Nsgdm):
    """Variance B²‖x − x⁰‖² + G²: η = T^(−2/3), γ = γ0 T^(−5/6)."""

    noise = "bg0"
    eta_exponent = Fraction(2, 3)
    gamma_exponent = Fraction(5, 6)


class BoundedNoise(Nsgdm):
    """Variance G²: η = T^(−1/2), γ = γ0 T^(−3/4). The paper drops the noise term's T^(−1/4) to T^(−1/2)."""

    noise = "bounded"
    eta_exponent = HALF
    gamma_exponent = Fraction(3, 4)

    def _printed(self) -> Iterator[PowerOfT]:
        for term in self._corollary():
            yield term._replace(exponent=HALF) if term.name.endswith("noise") else term


class NoNoise(Nsgdm):
    """Exact gradients: η = 1, γ = γ0 T^(−1/2)."""

    noise = "deterministic"
    eta_exponent = Fraction(0)
    gamma_exponent = HALF


class Smooth(Nsgdm):
    """Regimes of L0-smooth f."""

    smoothness = "smooth"


class SmoothGrowingNoise(Smooth, GrowingNoise):
    """L0-smooth f, BG-0 noise."""

    source = "Theorem 1(i); Corollary 3.1 (Standard smoothness under BG-0), equation (25)"
    label = "eq:app_smooth_bg0_final"


class SmoothBoundedNoise(Smooth, BoundedNoise):
    """L0-smooth f, bounded variance."""

    source = "Corollary 4.2 (Standard smoothness under bounded variance), equation (36)"
    label = "eq:app_smooth_bv_final"
    errata = ("E1",)


class SmoothNoNoise(Smooth, NoNoise):
    """L0-smooth f, exact gradients. The paper prints 2Δ/γ0 and 2 L0 γ0: true, and larger than needed."""

    source = "Corollary 4.5 (Standard smoothness, deterministic), equation (39)"
    label = "eq:app_smooth_det_final"
    errata = ("E10",)

    def _corollary(self) -> Iterator[PowerOfT]:
        yield PowerOfT("gap", self.problem.gap / self.gamma0, HALF)
        yield PowerOfT("curvature", self.L0 * self.gamma0 / 2, HALF)

    def _printed(self) -> Iterator[PowerOfT]:
        yield PowerOfT("gap", 2 * self.problem.gap / self.gamma0, HALF)
        yield PowerOfT("curvature", 2 * self.L0 * self.gamma0, HALF)


class Sublinear(Nsgdm):
    """f ∈ L*_sym(α), 0 < α < 1."""

    smoothness = "sublinear"

    @property
    def constants(self) -> Symmetric:
        """K0, C_α and C̃_α of the class."""
        return symmetric(self.L0, self.L1, self.problem.alpha)

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1": 1.0}


class SublinearGrowingNoise(Sublinear, GrowingNoise):
    """f ∈ L*_sym(α), BG-0 noise. The proof needs only γ ≤ min(1, η), that is γ0 ≤ T^(1/6) at horizon T."""

    source = "Theorem 1(ii); Corollary 4.1 (L*_sym(α) smoothness under BG-0), equation (35)"
    label = "eq:app_alpha_bg0_final"


class SublinearBoundedNoise(Sublinear, BoundedNoise):
    """f ∈ L*_sym(α), bounded variance. The slip of the smooth case; the proof needs only γ0 ≤ T^(1/4) at horizon T."""

    source = "Corollary 4.4 (L*_sym(α) smoothness under bounded variance), equation (38)"
    label = "eq:app_alpha_bv_final"
    errata = ("E2",)


class SublinearNoNoise(Sublinear, NoNoise):
    """f ∈ L*_sym(α), exact gradients. The paper asks for γ0 ≤ 1 although its proof does not."""

    source = "Corollary 4.7 (L*_sym(α) smoothness, deterministic), equation (41)"
    label = "eq:app_alpha_det_final"

    def _corollary(self) -> Iterator[PowerOfT]:
        k, g0, p1 = self.constants, self.gamma0, 1 / (1 - self.problem.exact_alpha)
        yield PowerOfT("gap", 4 * self.problem.gap / (3 * g0), HALF)
        yield PowerOfT("curvature", 2 * k.base * g0 / 3, HALF)
        yield PowerOfT("growing curvature", 4 * k.descent * g0 ** float(p1) / 3, p1 * HALF)


class Linear(Nsgdm):
    """f ∈ L*_sym(1): the smooth bound, and once more coupled to the growth of the curvature."""

    smoothness = "linear"

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(8 L1)": ratio(1, 8 * self.L1)}


class LinearGrowingNoise(Linear, GrowingNoise):
    """f ∈ L*_sym(1), BG-0 noise."""

    source = "Theorem 1(iii); Corollary 3.2 (1-generalized smoothness under BG-0), equation (26)"
    label = "eq:app_sym1_bg0_final"


class LinearBoundedNoise(Linear, BoundedNoise):
    """f ∈ L*_sym(1), bounded variance. The slip of the smooth case, twice: in the sum and inside the bracket."""

    source = "Corollary 4.3 (1-generalized smoothness under bounded variance), equation (37)"
    label = "eq:app_sym1_bv_final"
    errata = ("E3", "E4")


class LinearNoNoise(NoNoise):
    """f ∈ L*_sym(1), exact gradients. The paper prints twice what its proof gives."""

    smoothness = "linear"
    source = "Corollary 4.6 (1-generalized smoothness, deterministic), equation (40)"
    label = "eq:app_sym1_det_final"
    errata = ("E9",)

    def _limits(self) -> dict[str, float]:
        return {"γ0 ≤ 1/(2 L1)": ratio(1, 2 * self.L1)}

    def _corollary(self) -> Iterator[PowerOfT]:
        yield PowerOfT("gap", 2 * self.problem.gap / self.gamma0, HALF)
        yield PowerOfT("curvature", 2 * self.L0 * self.gamma0, HALF)

    def _printed(self) -> Iterator[PowerOfT]:
        return (term._replace(coefficient=2 * term.coefficient) for term in self._corollary())
