"""The setting of a theorem: smoothness, noise, and the distance to the infimum; and the rules that its numbers obey.

Regimes follow from the numbers. The rules are those of `core.rules`, but need no NumPy and know numbers up to 10^300.
"""

from __future__ import annotations

import ast
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

Exponent = Fraction | float  # a Fraction wherever alpha is a simple ratio
LONGEST = 10**300  # the largest horizon answered: floats end near 1.8e308


class OutOfRange(ValueError):
    """A number of the theory that no float can hold."""


@dataclass(frozen=True)
class NumberRule:
    """A rule that a number must obey, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]

    def require(self, owner: str, name: str, value: Any) -> None:
        """Raise a ValueError naming owner, argument, rule and value unless the rule holds.

        >>> POSITIVE.require("plan", "gap", 0)
        Traceback (most recent call last):
        ...
        ValueError: plan: gap must be finite and > 0; got gap=0.
        """
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not self.holds(value):
            raise ValueError(f"{owner}: {name} must be {self.words}; got {name}={value}.")


POSITIVE = NumberRule("finite and > 0", lambda v: 0 < v < math.inf)
NON_NEGATIVE = NumberRule("finite and ≥ 0", lambda v: 0 <= v < math.inf)
FRACTION = NumberRule("in (0, 1]", lambda v: 0 < v <= 1)
ALPHA = NumberRule("in [0, 1]", lambda v: 0 <= v <= 1)
HORIZON = NumberRule("a whole number from 1 to 10^300", lambda v: 1 <= v <= LONGEST and v == math.floor(v))


def in_range(owner: str, name: str, value: float) -> float:
    """The value, refused where it overflowed.

    >>> in_range("nsgdm", "drift", 1e308 * 10)
    Traceback (most recent call last):
    ...
    gladstorm.theory.problem.OutOfRange: nsgdm: drift must fit in double precision (below 1.8e308); got drift=inf.
    """
    if not math.isfinite(value):
        raise OutOfRange(f"{owner}: {name} must fit in double precision (below 1.8e308); got {name}={value}.")
    return value


def ratio(numerator: float, denominator: float) -> float:
    """numerator / denominator, infinite for a denominator of zero: a limit that does not bind."""
    return numerator / denominator if denominator else math.inf


@dataclass(frozen=True)
class Norm:
    """The norm in which a step has length 1, by what it does to noise. docs/theory.md explains the three numbers.

    >>> spectral, layers = Norm.from_text("spectral(64, 32)"), Norm.from_text("layers(sign(16), 2 * euclid)")
    >>> f"{spectral.tau**2:.6g} {layers.tau**2:.6g}"
    '32 20'
    """

    name: str = "euclid"
    tau: float = 1.0  #: τ: E‖Σ m_j‖_* ≤ τ (Σ s_j²)^½ for martingale differences with E‖m_j‖_N² ≤ s_j²
    kappa: float = 1.0  #: κ = sup ‖v‖_N/‖v‖_*
    nu: float = 1.0  #: ν: centring a sample multiplies its mean square in N by at most ν²

    def __post_init__(self) -> None:
        for name in ("tau", "kappa", "nu"):
            POSITIVE.require("norm", name, getattr(self, name))
        if self.nu < 1 or self.kappa * self.tau < 1 - 1e-12:
            raise ValueError(
                f"norm: nu and kappa·tau must be ≥ 1; got nu={self.nu}, kappa·tau={self.kappa * self.tau}."
            )

    @classmethod
    def from_text(cls, text: str) -> Norm:
        """Read euclid, sign(d), spectral(m, n) or layers(…) of these, each with a weight if it is not 1.

        Noise is measured in the Euclidean norm: τ is √d for signs, √min(m, n) for spectral steps, and for layers the
        root of Σ (w τ)².
        """
        try:
            tau, kappa = _norm(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError):
            forms = "euclid, sign(d), spectral(m, n) or layers(w * norm, …), with whole numbers ≥ 1 and weights > 0"
            raise ValueError(f"norm: must be {forms}; got {text!r}.") from None
        return cls(text, tau, kappa)


def _norm(node: Any) -> tuple[float, float]:
    """Compute τ and κ of a norm as Python reads it."""
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
        return math.hypot(*(w * tau for w, tau, _ in layers)), max(kappa / w for w, _, kappa in layers)
    sizes = [ast.literal_eval(each) for each in node.args]
    if len(sizes) != {"sign": 1, "spectral": 2}.get(name) or not all(isinstance(n, int) and n >= 1 for n in sizes):
        raise ValueError
    return math.sqrt(min(sizes)), 1.0


EUCLID = Norm()
PAPER_GROWTH = 2.0  # a: the paper's noise has a variance that grows like the square of the distance


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Minimise f from x⁰ with stochastic gradients of variance at most B²‖x − x⁰‖² + G².

    With another `growth` a, noise has a deviation of at most B‖x − x⁰‖^(a/2) + G. In another `norm` all constants are
    those of this norm, the gradient's length is that of its dual norm, and noise is measured as the norm says.

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

    def __post_init__(self) -> None:
        NON_NEGATIVE.require("problem", "growth", self.growth)
        ALPHA.require("problem", "alpha", self.alpha)
        for name in ("L0", "L1", "L"):
            if (value := getattr(self, name)) is not None:
                NON_NEGATIVE.require("problem", name, value)
        NON_NEGATIVE.require("problem", "B", self.B)
        NON_NEGATIVE.require("problem", "G", self.G)
        POSITIVE.require("problem", "gap", self.gap)

    @property
    def of_paper(self) -> bool:
        """Whether the paper's theorems are about it: variance that grows like r², steps in the Euclidean norm."""
        return self.growth == PAPER_GROWTH and (self.norm.tau, self.norm.kappa, self.norm.nu) == (1, 1, 1)

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
        """α as a fraction of small whole numbers, if it is one; otherwise the float.

        >>> Problem(alpha=2 / 3, B=0, G=0, gap=1).exact_alpha
        Fraction(2, 3)
        """
        simple = Fraction(self.alpha).limit_denominator(10**6)
        return simple if float(simple) == self.alpha else self.alpha

    def constant(self, owner: str, name: str) -> float:
        """L0, L1 or L by name; a ValueError that names `owner` if it was not given."""
        value: float | None = getattr(self, name)
        if value is None:
            way_out = " If the noise is added to f, it is √(L0² + B²)." if name == "L" else ""
            raise ValueError(f"{owner}: {name} must be given for alpha={self.alpha:g}; got {name}=None.{way_out}")
        return value
