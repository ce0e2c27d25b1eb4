"""The numbers of the problem on which no method is faster than ε^−(4+α): plain arithmetic, for floats and for tracers.

docs/proofs.md has the theorems. The problem itself is `gladstorm.problems.objectives.NoisyRunway`, and the
study `verification` rotates it; the theorem as a statement is `gladstorm.theory.lower_bound`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

RUNWAY: Final = 8  # R = Δ/(8 ε)
REACHED: Final = 46  # where the noise is felt, sample gradients are at least B′Δ/(46 ε) for one of two signs
PERMITTED: Final = 0.45  # L̄ = 0.45 X: the share of the class's curvature that chain and link noise may use
DENSITY: Final = 5  # λ = 5 B′R/L̄
LEVELS: Final = 24  # the chain is 24 κ T deep, κ = k ε λ
SHARE: Final = 5 / 8  # of the gap Δ, for the chain; the runway has the other 3/8
LINK: Final = 131  # ‖∇M_i‖² ≤ 131 (k ε)²
RARITY: Final = 8  # p = 131 · 8 (k ε)²/(B′R)²


@dataclass(frozen=True, kw_only=True)
class Hardness:
    """The hard problem for one ε: how long its runway and its chain are, and how rarely a sample shows a link.

    With another growth a of the noise it is the same problem for B′ = B (R/2)^(a/2 − 1) in the place of B, which has as
    much noise in the middle of the runway; only the carrier has the slope B R^(a/2 − 1), and ends at R.
    """

    eps: Any  #: ε > 0
    alpha: Any  #: α in (0, 1]
    L0: Any  #: L0 > 0 of the class E L*_sym(α)
    L1: Any  #: L1 ≥ 0 of the class; 0 if growth > 2
    B: Any  #: B > 0: the noise has variance at most B²‖x − x⁰‖^a
    gap: Any  #: Δ > 0
    growth: float = 2.0  #: a ≥ 0
    rotated: bool = False  #: whether for all methods (Theorem 1), or for those that respect zeros (Theorem 2)

    @property
    def steepness(self) -> int:
        """k: the slope of the chain is k ε."""
        return 4 if self.rotated else 2

    @property
    def runway(self) -> Any:
        """R = Δ/(8ε), how far from x⁰ every stationary point is."""
        return self.gap / (RUNWAY * self.eps)

    @property
    def felt(self) -> Any:
        """B′ = B (R/2)^(a/2 − 1): noise that grows like B′r has the same size at R/2. It is B for a = 2."""
        return self.B * (self.runway / 2) ** (self.growth / 2 - 1)

    @property
    def carried(self) -> Any:
        """B R^(a/2 − 1), √2 times the slope of the carrier. It is B for a = 2."""
        return self.B * self.runway ** (self.growth / 2 - 1)

    @property
    def curvature(self) -> Any:
        """X = L0 + L1 (B R^(a/2 − 1) Δ/(46 ε))^α, what the class permits at the end of the runway."""
        return self.L0 + self.L1 * (self.carried * self.gap / (REACHED * self.eps)) ** self.alpha

    @property
    def scale(self) -> Any:
        """λ = 5B′R/(0.45 X), how far a coordinate of the chain has to be moved."""
        return DENSITY * self.felt * self.runway / (PERMITTED * self.curvature)

    @property
    def p(self) -> Any:
        """The probability with which a sample shows the next link."""
        return LINK * RARITY * (self.steepness * self.eps) ** 2 / (self.felt * self.runway) ** 2

    @property
    def length(self) -> int:
        """T = ⌊5Δ/(8 · 24 κ)⌋, the number of links."""
        return int(SHARE * self.gap / (LEVELS * self.steepness * self.eps * self.scale))

    @property
    def needed(self) -> float:
        """T/(2p), or T/(4p) for the rotated one: with so few evaluations E‖∇f(x̂)‖ > ε, whatever the method."""
        return float(self.length / ((4 if self.rotated else 2) * self.p))

    @property
    def guaranteed(self) -> float:
        """X B′ Δ²/(1.2·10⁸ ε⁴), or with 2·10⁹ for the rotated one: at most `needed`, in closed form."""
        return float(self.curvature * self.felt * self.gap**2 / ((2e9 if self.rotated else 1.2e8) * self.eps**4))

    def of_smooth_samples(self) -> "Hardness":
        """Hardness where L1 = 0: the largest B, up to the given one, for which (E2), X = L0 ≥ 107 B′, holds."""
        return replace(self, B=self.B * min(1.0, (1 - 1e-15) * self.L0 / (self.density * self.felt)))

    @property
    def density(self) -> int:
        """X/B′ has to be at least 107, or 214 for the rotated problem: then the chain has a link."""
        return 214 if self.rotated else 107

    def dimension(self, evaluations: float) -> int:
        """1 + d, d = T + ⌈1.06·10⁷ T log(16 (N + 1) T)⌉: where nobody finds a direction of the chain by chance."""
        T = self.length
        return 1 + T + math.ceil(1.06e7 * T * math.log(16 * (evaluations + 1) * T))

    def conditions(self) -> dict[str, bool]:
        """The conditions of the theorem and whether they hold; what holds for one ε holds for every smaller one."""
        eps, X, L0, B = self.eps, self.curvature, self.L0, self.felt
        rare, b = 4200 if self.rotated else 2100, "B" if self.growth == 2 else "B′"
        stated = {
            f"(E1) ε² ≤ {b}Δ/{rare}": eps**2 <= B * self.gap / rare,
            f"(E2) X = L0 + L1 ({b}Δ/(46 ε))^α ≥ {self.density} {b}": self.density * B <= X,
        }
        if self.rotated:
            stated[f"(E3) ε² X ≤ 0.78 L0 {b}Δ"] = eps**2 * X <= 0.78 * L0 * B * self.gap
        if self.L1:
            bent = _root(self.L1 / (2 * math.sqrt(2) * self.carried), self.alpha)
            words = f"(E4) {b} ≤ 0.35 L0 or ε ≤ (L0Δ/128) (L1/(2√2 {b}))^(1/α)"
            stated[words] = self.carried <= 0.35 * L0 or eps <= L0 * self.gap / 128 * bent
        return stated

    def limits(self) -> dict[str, float]:
        """The conditions of the theorem, each with the largest ε for which it holds: 0 if it holds for none."""
        return {words: _largest(partial(self._holds, words)) for words in self.conditions()}

    def unreachable(self, evaluations: float) -> float:
        """The largest ε for which the theorem says that so many evaluations are not enough; 0 if it does for none."""

        def too_few(eps: float) -> bool:
            there = replace(self, eps=eps)
            return there.guaranteed >= evaluations and all(there.conditions().values())

        return _largest(too_few)

    def require(self, owner: str) -> None:
        """Raise a ValueError that names the condition that fails, and the largest ε that would do."""
        if all(self.conditions().values()):
            return
        words, largest = min(self.limits().items(), key=lambda limit: limit[1])
        way_out = f"the largest eps that does is {largest:.4g}" if largest > 0 else "no eps does"
        raise ValueError(f"{owner}: eps must satisfy {words}; got eps={self.eps}: {way_out}.")

    def _holds(self, words: str, eps: float) -> bool:
        return replace(self, eps=eps).conditions()[words]


def _largest(holds: Callable[[float], bool]) -> float:
    """Find the largest ε of something that holds for every smaller one, by halving; infinite if it holds for all."""
    low, high = -140.0, 140.0  # log ε: beyond, powers of ε leave double precision
    if holds(math.exp(high)):
        return math.inf
    if not holds(math.exp(low)):
        return 0.0
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(math.exp(middle)) else (low, middle)
    return math.exp(low)


def _root(base: float, alpha: float) -> float:
    """base^(1/α), 0 or infinite where doubles end."""
    exponent = math.log(base) / alpha
    return math.exp(exponent) if exponent < 700 else math.inf
