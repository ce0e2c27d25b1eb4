"""Complexity: stochastic gradients needed for E‖∇f‖ ≤ ε, in this paper and around it, as data.

The rows of statements follow from their rates; the others are those of its Table 1. The lower bounds
are the two claimed for BG-0 noise by Fazla et al. 2026; this project has not checked them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction

from gladstorm.core.references import (
    CHEN_2023,
    CUTKOSKY_MEHTA_2020,
    FAZLA_2026,
    KHIRIRAT_2025,
    REISIZADEH_2025,
    UPADHYAY_2026,
    ZHANG_2019,
)
from gladstorm.theory.planning import COVERED_METHODS
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import REGIMES

ALPHAS = {"smooth": (0.0,), "sublinear": (0.25, 0.75), "linear": (1.0,)}  # powers are linear in α
NOISES = {"bg0": (1.0, 1.0), "bounded": (0.0, 1.0), "deterministic": (0.0, 0.0)}  # B and G
NOISE = {"bg0": "BG-0", "bounded": "bounded variance", "deterministic": "none"}


@dataclass(frozen=True)
class Row:
    """One claim: a method (or any method, for a lower bound) in a setting, and its complexity in ε."""

    work: str
    method: str
    smoothness: str
    noise: str
    complexity: str

    def as_dict(self) -> dict[str, str]:
        """The row as JSON-ready data."""
        return asdict(self)


RELATED = (
    Row(str(CUTKOSKY_MEHTA_2020), "NSGDM", "L0-smooth", "not BG-0", "O(ε^-4)"),
    Row(str(ZHANG_2019), "clipped SGD", "L*_H", "not BG-0", "O(ε^-4)"),
    Row(str(REISIZADEH_2025), "SPIDER with clipping", "L*_asym", "not BG-0", "O(ε^-3)"),
    Row(str(CHEN_2023), "β-normalized GD", "L*_sym(α)", "none", "O(ε^-2)"),
    Row(str(CHEN_2023), "SPIDER", "E L*_sym(α)", "not BG-0", "O(ε^-3)"),
    Row(str(KHIRIRAT_2025), "NSGDM", "L*_sym(1)", "not BG-0", "O(ε^-4)"),
    Row(str(FAZLA_2026), "PASTA", "L0-smooth", "BG-0", "O(ε^-6)"),
    Row(str(FAZLA_2026), "PASTA", "mean-square smooth", "BG-0", "O(ε^-4)"),
)
LOWER_BOUNDS = (
    Row(str(FAZLA_2026), "any", "L0-smooth", "BG-0", "Ω(ε^-6)"),
    Row(str(FAZLA_2026), "any", "mean-square smooth", "BG-0", "Ω(ε^-4)"),
)


def rows() -> tuple[Row, ...]:
    """The rows of the table of complexities: related work, the paper's theorems, and lower bounds.

    >>> [row.complexity for row in rows() if row.method == "NSTORM" and row.noise == "BG-0"]
    ['O(ε^-4)', 'O(ε^-(4+α))', 'O(ε^-5)']
    """
    derived = []
    for method, smoothness, noise in itertools.product(COVERED_METHODS, ALPHAS, NOISES):
        if stated := REGIMES.get((method, smoothness, noise)):
            B, G = NOISES[noise]
            problems = [Problem(alpha=alpha, L0=1, L1=1, L=1, B=B, G=G, gap=1) for alpha in ALPHAS[smoothness]]
            power = in_alpha({each.alpha: 1 / float(stated.kind(each, 1e-3).rate) for each in problems})
            row = Row(
                str(UPADHYAY_2026), method.upper(), stated.kind.classes[smoothness], NOISE[noise], f"O(ε^-{power})"
            )
            derived.append(row)
    return RELATED + tuple(derived) + LOWER_BOUNDS


def in_alpha(powers: Mapping[float, float]) -> str:
    """A power that is linear in α, from its values at one or two of them, as text.

    >>> in_alpha({0.25: 2.25, 0.75: 2.75}), in_alpha({0.0: -3.0})
    ('(2+α)', '-3')
    """
    low, high = min(powers), max(powers)
    slope = Fraction((powers[high] - powers[low]) / (high - low or 1)).limit_denominator(6)
    constant = Fraction(powers[low] - float(slope) * low).limit_denominator(6)
    along = "α" if abs(slope) == 1 else f"{abs(slope)}α"
    return f"{'-' if constant < 0 else ''}({abs(constant)}+{along})" if slope else str(constant)
