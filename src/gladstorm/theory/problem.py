"""The setting of a theorem: smoothness, noise, norm, decay, and the distance to the infimum. Regimes follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gladstorm.theory.geometry import EUCLID, Decay, Norm
from gladstorm.theory.rules import ALPHA, NON_NEGATIVE, POSITIVE, Exponent, exact

PAPER_GROWTH = 2.0  # a: the paper's noise has a variance that grows like the square of the distance


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Minimise f from x⁰ with stochastic gradients of variance at most B²‖x − x⁰‖² + G².

    With another `growth` a, noise has a deviation of at most B‖x − x⁰‖^(a/2) + G. In another `norm` all constants are
    those of this norm, the gradient's length is that of its dual norm, and noise is measured as the norm says. With
    `decay` bounds are about Ψ(x) = ‖∇f(x)‖ + λ⟨∇f(x), x − c⟩, which is 0 where no point of the ball ‖x − c‖ ≤ 1/λ is
    better to first order, or about ‖∇f‖ itself if f grows outwards (`Decay.inward`).

    Give the smoothness constants that your theorem needs. NSGDM needs those of f: L0 if alpha = 0, otherwise (L0, L1)
    of the class L*_sym(α). NSTORM needs those of the oracle: the mean-square constant L if alpha = 0, otherwise (L0,
    L1) of the class E L*_sym(α). `wrapped` computes the oracle's constants if the noise is added to f.

    >>> Problem(alpha=0.5, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3.0).noise
    'bg0'
    """

    alpha: float  #: α in [0, 1]: curvature grows like ‖∇f‖^α
    L0: float | None = None  #: smoothness constant: the largest curvature where ‖∇f‖ = 0
    L1: float | None = None  #: how fast curvature grows with ‖∇f‖^α
    L: float | None = None  #: mean-square constant: E‖∇f(y; ξ) − ∇f(x; ξ)‖² ≤ L²‖y − x‖²
    B: float  #: growth of the noise, ≥ 0
    G: float  #: standard deviation of the noise at x⁰, ≥ 0
    gap: float  #: Δ = f(x⁰) − inf f > 0
    growth: float = PAPER_GROWTH  #: a ≥ 0: the variance of the noise grows like ‖x − x⁰‖^a
    norm: Norm = EUCLID  #: in which steps have length 1
    decay: Decay | None = None  #: of the weights

    def __post_init__(self) -> None:
        NON_NEGATIVE.require("problem", "growth", self.growth)
        ALPHA.require("problem", "alpha", self.alpha)
        for name in ("L0", "L1", "L"):
            if (value := getattr(self, name)) is not None:
                NON_NEGATIVE.require("problem", name, value)
        NON_NEGATIVE.require("problem", "B", self.B)
        NON_NEGATIVE.require("problem", "G", self.G)
        POSITIVE.require("problem", "gap", self.gap)
        if self.decay is not None and self.alpha > 0 and self.decay.inward is None:
            raise ValueError(
                "problem: decay.inward must be given for alpha > 0, where curvature feeds on ‖∇f‖ and Ψ may be 0 while "
                f"‖∇f‖ is not; got alpha={self.alpha:g}."
            )

    @property
    def of_paper(self) -> bool:
        """Whether the paper's theorems are about it: variance that grows like r², steps in the Euclidean norm."""
        return self.growth == PAPER_GROWTH and self.norm.euclidean and self.decay is None

    @property
    def measure(self) -> str:
        """The left-hand side of a bound: E‖∇f(x̂)‖, with _* in another norm, or EΨ(x̂)."""
        if self.decay is not None and self.decay.inward is None:
            return "EΨ(x̂)"
        return "E‖∇f(x̂)‖" if self.norm.euclidean else "E‖∇f(x̂)‖_*"

    @property
    def half_growth(self) -> float:
        """h = a/2: noise deviates by at most G + B r^h."""
        return self.growth / 2

    @property
    def noise(self) -> str:
        """The kind of noise: "bg0" if B > 0, "bounded" if only G > 0, "deterministic" if both are 0."""
        if self.B > 0:
            return "bg0"
        return "bounded" if self.G > 0 else "deterministic"

    @property
    def smoothness(self) -> str:
        """How curvature grows with the gradient: "smooth" (α = 0, not at all), "sublinear", or "linear" (α = 1)."""
        if self.alpha == 0:
            return "smooth"
        return "linear" if self.alpha == 1 else "sublinear"

    @cached_property
    def exact_alpha(self) -> Exponent:
        """α as a fraction of small whole numbers, if it is one; otherwise the float."""
        return exact(self.alpha)

    def constant(self, owner: str, name: str) -> float:
        """L0, L1 or L by name; a ValueError that names `owner` if it was not given."""
        value: float | None = getattr(self, name)
        if value is None:
            way_out = " If the noise is added to f, it is √(L0² + B²)." if name == "L" else ""
            raise ValueError(f"{owner}: {name} must be given for alpha={self.alpha:g}; got {name}=None.{way_out}")
        return value
