"""NSGDM, normalized SGD with momentum: nine regimes, from three kinds of smoothness and three kinds of noise.

x ← x − γ v/‖v‖, v ← (1 − η) v + η ∇f(x; ξ), v⁰ = ∇f(x⁰; ξ⁰). One sample per iterate, so T iterates cost T.

The terms are named by what they pay for: the way down ("gap"), the error of v⁰ ("initial error"), the gradient moving
under the momentum ("drift"), the samples ("noise", "noise growth"), and one step's length ("curvature").
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

from gladstorm.theory.class_constants import symmetric
from gladstorm.theory.master_bounds import HALF, at_powers
from gladstorm.theory.rules import Exponent, ratio
from gladstorm.theory.statement import PowerOfT, Regime, Statement

POWERS = {  # of 1/T in η and γ, whatever the smoothness
    "bg0": (Fraction(2, 3), Fraction(5, 6)),
    "bounded": (HALF, Fraction(3, 4)),
    "deterministic": (Fraction(0), HALF),
}


class Nsgdm(Statement):
    """f's own constants; one stochastic gradient per iterate."""

    method = "nsgdm"
    classes: ClassVar[dict[str, str]] = {
        "smooth": "L0-smooth",
        "sublinear": "L*_sym(α), 0 < α < 1",
        "linear": "L*_sym(1)",
    }
    level = "L0"
    corrects_drift = False

    @property
    def eta_exponent(self) -> Exponent:
        """Power of 1/T in η."""
        return POWERS[self.noise][0]

    @property
    def gamma_exponent(self) -> Exponent:
        """Power of 1/T in γ."""
        return POWERS[self.noise][1]

    def _limits(self) -> dict[str, float]:
        """Limits of γ0 in the paper. For α < 1 its proofs need only γ ≤ min(1, η), and no limit without noise."""
        if self.smoothness == "smooth":
            return {}
        if self.smoothness == "sublinear":
            return {"γ0 ≤ 1": 1.0}
        share = 2 if self.noise == "deterministic" else 8
        return {f"γ0 ≤ 1/({share} L1)": ratio(1, share * self.L1)}

    def _corollary(self) -> Iterator[PowerOfT]:
        if self.noise != "deterministic":
            yield from at_powers(self)
        elif self.smoothness == "sublinear":
            k, p1 = symmetric(self.L0, self.L1, self.problem.alpha), 1 / (1 - self.problem.exact_alpha)
            yield PowerOfT("gap", 4 * self.problem.gap / (3 * self.gamma0), HALF)
            yield PowerOfT("curvature", 2 * k.base * self.gamma0 / 3, HALF)
            yield PowerOfT("growing curvature", 4 * k.descent * self.gamma0 ** float(p1) / 3, p1 * HALF)
        else:
            gap, curvature = (1, 1 / 2) if self.smoothness == "smooth" else (2, 2)
            yield PowerOfT("gap", gap * self.problem.gap / self.gamma0, HALF)
            yield PowerOfT("curvature", curvature * self.L0 * self.gamma0, HALF)

    def _printed(self) -> Iterator[PowerOfT]:
        """With bounded variance the noise falls like T^(−1/4), not T^(−1/2); without noise twice to four times less."""
        too_large = {"smooth": {"gap": 2, "curvature": 4}, "linear": {"gap": 2, "curvature": 2}}
        factors = too_large.get(self.smoothness, {}) if self.noise == "deterministic" else {}
        for name, coefficient, exponent in self._corollary():
            slipped = self.noise == "bounded" and name.endswith("noise")
            yield PowerOfT(name, factors.get(name, 1) * coefficient, HALF if slipped else exponent)


SOURCES = {
    "smooth": {
        "bg0": "Theorem 1(i); Corollary 3.1 (Standard smoothness under BG-0), equation (25)",
        "bounded": "Corollary 4.2 (Standard smoothness under bounded variance), equation (36)",
        "deterministic": "Corollary 4.5 (Standard smoothness, deterministic), equation (39)",
    },
    "sublinear": {
        "bg0": "Theorem 1(ii); Corollary 4.1 (L*_sym(α) smoothness under BG-0), equation (35)",
        "bounded": "Corollary 4.4 (L*_sym(α) smoothness under bounded variance), equation (38)",
        "deterministic": "Corollary 4.7 (L*_sym(α) smoothness, deterministic), equation (41)",
    },
    "linear": {
        "bg0": "Theorem 1(iii); Corollary 3.2 (1-generalized smoothness under BG-0), equation (26)",
        "bounded": "Corollary 4.3 (1-generalized smoothness under bounded variance), equation (37)",
        "deterministic": "Corollary 4.6 (1-generalized smoothness, deterministic), equation (40)",
    },
}
ERRATA = {
    ("smooth", "bounded"): ("E1",),
    ("sublinear", "bounded"): ("E2",),
    ("linear", "bounded"): ("E3", "E4"),
    ("linear", "deterministic"): ("E9",),
    ("smooth", "deterministic"): ("E10",),
}
ROWS = tuple(
    Regime(Nsgdm, smoothness, noise, source, ERRATA.get((smoothness, noise), ()))
    for smoothness, sources in SOURCES.items()
    for noise, source in sources.items()
)
