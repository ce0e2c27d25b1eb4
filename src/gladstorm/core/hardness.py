"""The numbers of the problem on which no method is faster than ε^−(4+α): plain arithmetic, for floats and for tracers.

docs/lower_bound_proof.md has the theorems. The problem itself is `gladstorm.problems.objectives.NoisyRunway`, with the
rotation `RotatedRunway`; the theorem as a statement is `gladstorm.theory.lower_bound`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

RUNWAY: Final = 8  # R = Δ/(8 ε)
REACHED: Final = 46  # where the noise is felt, sample gradients are at least BΔ/(46 ε) for one of two signs
PERMITTED: Final = 0.45  # L̄ = 0.45 X: the share of the class's curvature that chain and link noise may use
DENSITY: Final = 5  # λ = 5 B R/L̄
LEVELS: Final = 24  # the chain is 24 κ T deep, κ = k ε λ
SHARE: Final = 5 / 8  # of the gap Δ, for the chain; the runway has the other 3/8
LINK: Final = 131  # ‖∇M_i‖² ≤ 131 (k ε)²
RARITY: Final = 8  # p = 131 · 8 (k ε)²/(B R)²
FARTHEST: Final = 575.0  # of log ε from 0, in the search for the largest ε


@dataclass(frozen=True, kw_only=True)
class Hardness:
    """The hard problem for one ε: how long its runway and its chain are, and how rarely a sample shows a link."""

    eps: Any  #: ε > 0
    alpha: Any  #: α in (0, 1]
    L0: Any  #: L0 > 0 of the class E L*_sym(α)
    L1: Any  #: L1 ≥ 0 of the class
    B: Any  #: B > 0: the noise has variance at most B²‖x − x⁰‖^a
    gap: Any  #: Δ > 0
    growth: Any = 2.0  #: a in [0, 2]
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
    def steep(self) -> Any:
        """B̃ = B (R/2)^(a/2 − 1): noise of B̃ r is as large as that of B r^(a/2) where the chain begins, at R/2.

        This is all that a growth a < 2 changes: closer to x⁰ it allows more than B̃ r, and farther away the carrier no
        longer grows. What is said for a = 2 holds with B̃ in place of B.
        """
        return self.B * (self.runway / 2) ** (self.growth / 2 - 1)

    @property
    def curvature(self) -> Any:
        """X = L0 + L1 (B̃Δ/(46 ε))^α, what the class permits at the end of the runway."""
        return self.L0 + self.L1 * (self.steep * self.gap / (REACHED * self.eps)) ** self.alpha

    @property
    def scale(self) -> Any:
        """λ = 5B̃R/(0.45 X), how far a coordinate of the chain has to be moved."""
        return DENSITY * self.steep * self.runway / (PERMITTED * self.curvature)

    @property
    def p(self) -> Any:
        """The probability with which a sample shows the next link."""
        return LINK * RARITY * (self.steepness * self.eps) ** 2 / (self.steep * self.runway) ** 2

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
        """X B̃ Δ²/(1.2·10⁸ ε⁴), or with 2·10⁹ for the rotated one: at most `needed`, in closed form."""
        return float(self.curvature * self.steep * self.gap**2 / ((2e9 if self.rotated else 1.2e8) * self.eps**4))

    def of_smooth_samples(self) -> "Hardness":
        """Hardness where L1 = 0: the largest noise, up to B, for which (E2), X = L0 ≥ 107 B̃, holds."""
        return replace(self, B=min(1.0, (1 - 1e-15) * self.L0 / (self.density * self.steep)) * self.B)

    @property
    def density(self) -> int:
        """X/B has to be at least 107, or 214 for the rotated problem: then the chain has a link."""
        return 214 if self.rotated else 107

    def dimension(self, evaluations: float) -> int:
        """1 + d, d = T + ⌈1.06·10⁷ T log(16 (N + 1) T)⌉: where nobody finds a direction of the chain by chance."""
        T = self.length
        return 1 + T + math.ceil(1.06e7 * T * math.log(16 * (evaluations + 1) * T))

    def limits(self) -> dict[str, float]:
        """The conditions of the theorem, each with the largest ε up to which it holds: 0 if it holds for none."""

        def flat(at: Hardness) -> bool:
            bend = self.L1 / (2 * math.sqrt(2) * at.steep)
            return bool(at.steep <= 0.35 * self.L0 or at.eps <= self.L0 * self.gap / 128 * _root(bend, self.alpha))

        rare, dense, B = 4200 if self.rotated else 2100, self.density, "B" if self.growth == 2 else "B̃"
        stated: dict[str, Callable[[Hardness], bool]] = {
            f"(E1) ε² ≤ {B}Δ/{rare}": lambda at: at.eps * at.eps <= at.steep * self.gap / rare,
            f"(E2) X = L0 + L1 ({B}Δ/(46 ε))^α ≥ {dense} {B}": lambda at: at.curvature >= dense * at.steep,
            f"(E4) {B} ≤ 0.35 L0 or ε ≤ (L0Δ/128) (L1/(2√2 {B}))^(1/α)": flat,
        }
        if self.rotated:
            stated[f"(E3) ε² X ≤ 0.78 L0 {B}Δ"] = lambda at: (
                at.eps * at.eps * at.curvature <= 0.78 * self.L0 * at.steep * self.gap
            )
        return {words: self._largest(holds) for words, holds in sorted(stated.items())}

    def _largest(self, holds: Callable[["Hardness"], bool]) -> float:
        """The ε up to which a condition holds; infinite or 0 if it holds for all ε or for none."""

        def at(log_eps: float) -> bool:
            return holds(replace(self, eps=math.exp(log_eps)))

        if at(FARTHEST):
            return math.inf
        return math.exp(_last(at, -FARTHEST, FARTHEST, 1e-13)) if at(-FARTHEST) else 0.0

    def unreachable(self, evaluations: float) -> float:
        """The largest ε for which the theorem says that so many evaluations are not enough; 0 if it does for none."""

        def too_few(log_eps: float) -> bool:
            return replace(self, eps=math.exp(log_eps)).guaranteed >= evaluations

        low, high = math.log(1e-60), math.log(max(min(self.limits().values()), 1e-60))
        if not too_few(low) or high == low:
            return 0.0
        return math.exp(high if too_few(high) else _last(too_few, low, high, 1e-9))

    def require(self, owner: str) -> None:
        """Raise a ValueError that names the condition that fails, and the largest ε that would do."""
        words, largest = min(self.limits().items(), key=lambda limit: limit[1])
        if not self.eps <= largest:
            way_out = f"the largest eps that does is {largest:.4g}" if largest > 0 else "no eps does"
            raise ValueError(f"{owner}: eps must satisfy {words}; got eps={self.eps}: {way_out}.")


def _last(holds: Callable[[float], bool], low: float, high: float, within: float) -> float:
    """Find where something that holds at `low` and not at `high` ceases to hold, by halving."""
    while high - low > within:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _root(base: float, alpha: float) -> float:
    """base^(1/α), 0 or infinite where doubles end."""
    exponent = math.log(base) / alpha if base > 0 else -math.inf
    return math.exp(exponent) if exponent < 700 else math.inf
