"""Complexity: stochastic gradients needed for E‖∇f‖ ≤ ε, in this paper and around it, as data.

The rows of statements follow from their rates; the others are those of its Table 1. The lower bounds
are the two claimed for BG-0 noise by Fazla et al. 2026; this project has not checked them.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from fractions import Fraction

from gladstorm.core.references import (
    CHEN_2023,
    CUTKOSKY_MEHTA_2020,
    FAZLA_2026,
    KHIRIRAT_2025,
    REISIZADEH_2025,
    ZHANG_2019,
)
from gladstorm.theory.planning import COVERED_METHODS, theorem
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import REGIMES

ALPHAS = {"smooth": (0.0, 0.0), "sublinear": (0.25, 0.75), "linear": (1.0, 1.0)}
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
    for method, smoothness, noise in itertools.product(COVERED_METHODS, ALPHAS, NOISE):
        if stated := REGIMES.get((method, smoothness, noise)):
            complexity = f"O(ε^-{_complexity(method, smoothness, noise)})"
            derived.append(Row(str(stated.work), method.upper(), stated.classes[smoothness], NOISE[noise], complexity))
    return RELATED + tuple(derived) + LOWER_BOUNDS


def _complexity(method: str, smoothness: str, noise: str) -> str:
    """1/rate, which is linear in α, read off at two values of it."""

    def at(alpha: float) -> Fraction:
        B, G = {"bg0": (1, 1), "bounded": (0, 1), "deterministic": (0, 0)}[noise]
        problem = Problem(alpha=alpha, L0=1, L1=1, L=1, B=B, G=G, gap=1)
        return 1 / Fraction(theorem(method, problem, gamma0=1e-3).rate)

    low, high = ALPHAS[smoothness]
    slope = (at(high) - at(low)) / Fraction(high - low or 1)
    constant = at(low) - slope * Fraction(low)
    return f"{constant}" if slope == 0 else f"({constant}+{'' if slope == 1 else slope}α)"
