"""Complexity: stochastic gradients needed for E‖∇f‖ ≤ ε, in this paper and around it, as data.

The rows of statements follow from their rates; the others are those of its Table 1. The lower bounds
are the two claimed for BG-0 noise by Fazla et al. 2026; this project has not checked them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction

from gladstorm.core.markdown import markdown_table
from gladstorm.core.references import (
    CHEN_2023,
    CUTKOSKY_MEHTA_2020,
    FAZLA_2026,
    KHIRIRAT_2025,
    REISIZADEH_2025,
    ZHANG_2019,
)
from gladstorm.theory.planning import theorem
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import REGIMES

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
    return RELATED + tuple(_derived(*setting) for setting in _in_order(REGIMES)) + LOWER_BOUNDS


def markdown() -> str:
    """The rows as a table for a document.

    >>> markdown().splitlines()[2]
    '| Cutkosky and Mehta 2020 | NSGDM | L0-smooth | not BG-0 | O(ε^-4) |'
    """
    return markdown_table(list(RELATED[0].as_dict()), [list(row.as_dict().values()) for row in rows()])


def _in_order(settings: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """By method, then from the mildest smoothness to the wildest, then from the loudest noise to none."""
    smoothness = ("smooth", "sublinear", "linear")
    return sorted(settings, key=lambda each: (each[0], smoothness.index(each[1]), list(NOISE).index(each[2])))


def _derived(method: str, smoothness: str, noise: str) -> Row:
    upper = f"O(ε^-{_complexity(method, smoothness, noise)})"
    stated = REGIMES[method, smoothness, noise]
    return Row(str(stated.work), method.upper(), stated.classes[smoothness], NOISE[noise], upper)


def _complexity(method: str, smoothness: str, noise: str) -> str:
    """1/rate, which is linear in α, read off at two values of it."""

    def at(alpha: float) -> Fraction:
        B, G = {"bg0": (1, 1), "bounded": (0, 1), "deterministic": (0, 0)}[noise]
        problem = Problem(alpha=alpha, L0=1, L1=1, L=1, B=B, G=G, gap=1)
        return 1 / Fraction(theorem(method, problem, gamma0=1e-3).rate)

    if smoothness != "sublinear":
        return str(at({"smooth": 0, "linear": 1}[smoothness]))
    slope = 2 * (at(3 / 4) - at(1 / 4))
    constant = at(1 / 4) - slope / 4
    return f"{constant}" if slope == 0 else f"({constant}+{'' if slope == 1 else slope}α)"
