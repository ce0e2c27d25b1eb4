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

from gladstorm.theory.class_constants import expected, wrapped
from gladstorm.theory.master_bounds import HALF, SQRT2, S, at_powers
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import Exponent, ratio
from gladstorm.theory.statement import Condition, PowerOfT, Regime, Statement

POWERS = {"bounded": (Fraction(2, 3), Fraction(2, 3)), "deterministic": (Fraction(0), HALF)}  # of 1/T in η and γ


class Nstorm(Statement):
    """The oracle's constants; two stochastic gradients per update."""

    method = "nstorm"
    classes: ClassVar[dict[str, str]] = {
        "smooth": "mean-square smooth",
        "sublinear": "E L*_sym(α), 0 < α < 1",
        "linear": "E L*_sym(1)",
    }
    level = "L"
    corrects_drift = True

    @property
    def theta(self) -> Exponent:
        """θ = 1/(4 + α)."""
        return 1 / (4 + self.problem.exact_alpha)

    @property
    def eta_exponent(self) -> Exponent:
        """Power of 1/T in η: 4θ under BG-0 noise."""
        return 4 * self.theta if self.noise == "bg0" else POWERS[self.noise][0]

    @property
    def gamma_exponent(self) -> Exponent:
        """Power of 1/T in γ: (3 + α)θ under BG-0 noise."""
        return 1 - self.theta if self.noise == "bg0" else POWERS[self.noise][1]

    @property
    def n_init_exponent(self) -> Exponent | None:
        """Power 2(1 − α)θ of T in N_init, so that b0 ≤ T^(−(1−α)θ); one sample for α = 1 and if noise is bounded."""
        growing = self.noise == "bg0" and self.smoothness != "linear"
        return 2 * (1 - self.problem.exact_alpha) * self.theta if growing else None

    def _young_weight(self, T: int) -> float | None:
        """λ, which falls like T^(−(1−α)θ) under BG-0 noise; otherwise it does not depend on T."""
        weight, exponent = self._young_weight0, (1 - self.problem.exact_alpha) * self.theta
        return weight and weight * math.pow(T, -float(exponent if self.noise == "bg0" else 0))

    @property
    def _young_weight0(self) -> float | None:
        """λ0, the largest admissible one; None where the bound does not contain it.

        For 0 < α < 1, ‖∇f‖^α is split by Young's inequality, x^α ≤ λ x + c_α λ^(−p) with p = α/(1 − α). The linear part
        feeds back into the descent, the constant part appears as the terms named "Young". λ lives in the analysis only
        and the bound falls in it, so it takes its largest value; in exchange every γ0 is admissible.
        """
        weight = ratio(1, max(self._feedbacks().values(), default=0.0))
        return weight if weight < math.inf else None

    def conditions(self) -> tuple[Condition, ...]:
        """Upper limits of γ0, or for 0 < α < 1 of λ0, which is at the smallest of them."""
        weight = self._young_weight0
        if weight is None:
            return super().conditions()
        return tuple(Condition(words, weight, ratio(1, feedback)) for words, feedback in self._feedbacks().items())

    def _feedbacks(self) -> dict[str, float]:
        """How strongly the bound's constants feed on the gradient, for each limit of λ0: 1/λ0 is the largest.

        Without noise the second, eight times stronger one, does not count.
        """
        if self.smoothness != "sublinear":
            return {}
        per_step = expected(self.L0, self.L1, self.problem.alpha).moment * self.gamma0
        noisy = {} if self.noise == "deterministic" else {"λ0 ≤ η0/(8 L_α γ0)": 8 * per_step / self.eta0}
        return {"λ0 ≤ 1/(L_α γ0)": per_step} | noisy

    def _limits(self) -> dict[str, float]:
        """Limits of γ0 for E L*_sym(1). With bounded variance the second is implied by the first."""
        if self.smoothness != "linear":
            return {}
        growth, plain = 16 * S * self.L1, {"γ0 ≤ 1/(4√2 L1)": ratio(1, 4 * SQRT2 * self.L1)}
        if self.noise == "bg0":
            return {"γ0 ≤ 1/(16 √(2e^(3/4)) L1)": ratio(1, growth)}
        of_noise = {} if self.noise == "deterministic" else {"γ0 ≤ η0/(16 √(2e^(3/4)) L1)": ratio(self.eta0, growth)}
        return of_noise | plain

    def _corollary(self) -> Iterator[PowerOfT]:
        D, g0 = self.problem.gap, self.gamma0
        if self.noise != "deterministic":
            yield from at_powers(self)
        elif self.smoothness == "smooth":  # normalized gradient descent: the tight bound
            yield PowerOfT("gap", D / g0, HALF)
            yield PowerOfT("curvature", self.L * g0 / 2, HALF)
        elif self.smoothness == "linear":
            yield PowerOfT("gap", 2 * D / g0, HALF)
            yield PowerOfT("curvature", 2 * SQRT2 * self.L0 * g0, HALF)
        else:
            k, alpha = expected(self.L0, self.L1, self.problem.alpha), self.problem.exact_alpha
            p = alpha / (1 - alpha)
            (feedback,) = self._feedbacks().values()
            yield PowerOfT("gap", 2 * D / g0, HALF)
            yield PowerOfT("curvature", k.base * g0, HALF)
            yield PowerOfT("curvature, Young", k.young * k.moment * feedback ** float(p) * g0, HALF)
            yield PowerOfT("curvature, distance", 2 * k.distance * g0 ** float(1 + p), (1 + p) * HALF)

    @classmethod
    def reads(cls, problem: Problem) -> Problem:
        """The constants of the oracle: its samples' differences are what NSTORM adds up."""
        return wrapped(problem)

    @classmethod
    def within_class(cls, problem: Problem) -> Problem:
        """The problem with B at most L: mean-square smooth samples have noise of at most G + L‖x − x⁰‖.

        ∇f(x; ξ) − ∇f(x) is ∇f(x⁰; ξ) − ∇f(x⁰) plus the centred difference of one sample at x and x⁰.

        >>> Nstorm.within_class(Problem(alpha=0, L=1, B=10, G=1, gap=1)).B
        1
        """
        level = problem.L if problem.smoothness == "smooth" else problem.L0 if problem.L1 == 0 else None
        return replace(problem, B=level) if problem.of_paper and level and level < problem.B else problem

    def settings(self, T: int) -> dict[str, float]:
        """NSTORM's, with the size of its first batch."""
        return {**super().settings(T), "n_init": self.schedule(T).n_init}


SOURCES = {
    "smooth": {
        "bg0": "Theorem 2(i); Corollary 5.1 (Mean-square smoothness with sharp initialization)",
        "bounded": "Corollary 5.4 (Mean-square smoothness under bounded variance), equation (52)",
        "deterministic": "Corollary 5.7 (Mean-square smoothness, deterministic), equation (55)",
    },
    "sublinear": {
        "bg0": "Theorem 2(ii); Corollary 5.2 (Expected α-symmetric generalized smoothness)",
        "bounded": "Corollary 5.5 (Expected α-symmetric generalized smoothness under bounded variance), equation (53)",
        "deterministic": "Corollary 5.8 (Expected α-symmetric generalized smoothness, deterministic), equation (56)",
    },
    "linear": {
        "bg0": "Theorem 2(iii); Corollary 5.3 (Expected 1-symmetric generalized smoothness)",
        "bounded": "Corollary 5.6 (Expected 1-symmetric generalized smoothness under bounded variance), equation (54)",
        "deterministic": "Corollary 5.9 (Expected 1-symmetric generalized smoothness, deterministic), equation (57)",
    },
}
HAVE_ETA0 = {("smooth", "bounded"), ("sublinear", "bg0"), ("sublinear", "bounded"), ("linear", "bounded")}
ROWS = tuple(
    Regime(Nstorm, each, noise, source, (), 1 if noise == "deterministic" else 2, (each, noise) in HAVE_ETA0)
    for each, sources in SOURCES.items()
    for noise, source in sources.items()
)
