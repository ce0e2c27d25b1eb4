"""The setting of a theorem: smoothness, noise, norm, decay, and the distance to the infimum. Regimes follow from it."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gladstorm.theory.rules import ALPHA, BELOW_1, NON_NEGATIVE, POSITIVE, Exponent, exact

PAPER_GROWTH = 2.0  # a: the paper's noise has a variance that grows like the square of the distance


@dataclass(frozen=True)
class Norm:
    """The norm in which a step has length 1, by what it does to noise. docs/theory.md explains the numbers.

    >>> [round(Norm.from_text(text).tau ** 2) for text in ("spectral(64, 32)", "layers(sign(16), 2 * euclid)")]
    [32, 20]
    """

    name: str = "euclid"
    tau: float = 1.0  #: τ: E‖Σ m_j‖_* ≤ τ (Σ s_j²)^½ for martingale differences with E‖m_j‖_N² ≤ s_j²
    kappa: float = 1.0  #: κ = sup ‖v‖_N/‖v‖_*
    nu: float = 1.0  #: ν: centring a sample multiplies its mean square in N by at most ν²
    rho: float | None = None  #: ρ = sup ‖v‖_*/‖v‖_N if N is the Euclidean norm; τ ≤ ρ if not given

    def __post_init__(self) -> None:
        for name in ("tau", "kappa", "nu"):
            POSITIVE.require("norm", name, getattr(self, name))
        if self.nu < 1 or self.kappa * self.tau < 1 - 1e-12:
            raise ValueError(
                f"norm: nu and kappa·tau must be ≥ 1; got nu={self.nu}, kappa·tau={self.kappa * self.tau}."
            )

    @property
    def euclidean(self) -> bool:
        """Whether a step has length 1 in the Euclidean norm, and noise is measured in it."""
        return (self.tau, self.kappa, self.nu, self.widest) == (1, 1, 1, 1)

    @property
    def widest(self) -> float:
        """sup ‖v‖_*/‖v‖_N, also for v that is not noise: τ may be smaller, if it knows the noise's covariance."""
        return self.tau if self.rho is None else self.rho

    @classmethod
    def from_text(cls, text: str) -> Norm:
        """Read euclid, sign(d), spectral(m, n) or layers(…) of these, each with a weight if it is not 1.

        Noise is measured in the Euclidean norm: τ = ρ is √d for signs, √min(m, n) for spectral steps, and for layers
        the root of Σ (w ρ)². It is smaller for noise in few directions (`of_noise`).
        """
        try:
            rho, kappa = _norm(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError):
            forms = "euclid, sign(d), spectral(m, n) or layers(w * norm, …), with whole numbers ≥ 1 and weights > 0"
            raise ValueError(f"norm: must be {forms}; got {text!r}.") from None
        return cls(text, rho, kappa, rho=rho)

    def of_noise(self, *spectrum: float) -> Norm:
        """Lower τ to tr C^½, C being the covariance of the noise scaled to tr C = 1, from the eigenvalues of C.

        For signs they are the variances of the coordinates, for spectral steps the eigenvalues of E[n nᵀ] or E[nᵀn].

        >>> round(Norm.from_text("sign(3)").of_noise(1.0, 1.0, 0.0).tau ** 2, 12)
        2.0
        """
        if not self.name.startswith(("sign", "spectral")):
            raise ValueError(f"norm: must be sign or spectral to know a covariance; got {self.name!r}.")
        for value in spectrum:
            NON_NEGATIVE.require("norm", "spectrum", value)
        total = math.fsum(spectrum)
        POSITIVE.require("norm", "the sum of spectrum", total)
        return replace(self, tau=min(self.tau, math.fsum(map(math.sqrt, spectrum)) / math.sqrt(total)))


def _norm(node: Any) -> tuple[float, float]:
    """Compute ρ and κ of a norm as Python reads it."""
    if isinstance(node, ast.Name) and node.id == "euclid":
        return 1.0, 1.0
    if not isinstance(node, ast.Call) or node.keywords or not node.args:
        raise ValueError
    name = node.func.id  # type: ignore[attr-defined]
    if name == "layers":
        layers = []
        for layer in node.args:
            weight, inner = (layer.left, layer.right) if isinstance(layer, ast.BinOp) else (ast.Constant(1), layer)
            if isinstance(layer, ast.BinOp) and not isinstance(layer.op, ast.Mult):
                raise ValueError
            size = ast.literal_eval(weight)
            POSITIVE.require("norm", "a weight", size)
            layers.append((size, *_norm(inner)))
        return math.hypot(*(w * rho for w, rho, _ in layers)), max(kappa / w for w, _, kappa in layers)
    sizes = [ast.literal_eval(each) for each in node.args]
    if len(sizes) != {"sign": 1, "spectral": 2}.get(name) or not all(isinstance(n, int) and n >= 1 for n in sizes):
        raise ValueError
    return math.sqrt(min(sizes)), 1.0


EUCLID = Norm(rho=1.0)


@dataclass(frozen=True)
class Decay:
    """Weights that decay, x⁺ = x − γ(d(v) + λ(x − c)): no run leaves the ball ‖x − c‖ ≤ 1/λ, so noise stays bounded.

    >>> Decay(0.5).radius, round(Decay(0.5).mean_distance(0.01, 100), 3)
    (2.0, 0.423)
    """

    rate: float  #: λ > 0
    start: float = 0.0  #: r0 = ‖x⁰ − c‖ ≤ 1/λ, where c is the point to which weights decay
    inward: float | None = None  #: ϑ < 1, if ⟨∇f(x), x − c⟩ ≥ 0 wherever ϑ/λ ≤ ‖x − c‖ ≤ 1/λ; None if not known

    def __post_init__(self) -> None:
        POSITIVE.require("decay", "rate", self.rate)
        NON_NEGATIVE.require("decay", "start", self.start)
        if self.inward is not None:
            BELOW_1.require("decay", "inward", self.inward)
        if self.start * self.rate > 1:
            raise ValueError(f"decay: start must be at most 1/rate={1 / self.rate:g}; got start={self.start}.")

    @property
    def radius(self) -> float:
        """R = 1/λ + r0, how far from x⁰ a run may get."""
        return 1 / self.rate + self.start

    def mean_distance(self, gamma: float, T: int) -> float:
        """r̄: the mean of R(1 − (1 − γλ)^k), the farthest from x⁰ after k steps, over k < T."""
        shrink = min(1.0, gamma * self.rate)
        if shrink == 1:
            return self.radius * (1 - 1 / T)
        passed = T * shrink
        if passed < 1e-5:  # the difference would cancel
            return self.radius * shrink * (T - 1) / 2 * (1 - shrink * (T - 2) / 3)
        return self.radius * (1 + math.expm1(T * math.log1p(-shrink)) / passed)


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
