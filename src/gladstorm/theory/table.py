"""Complexity: stochastic gradients needed for E‖∇f‖ ≤ ε, in this paper and around it, as data.

The rows of this paper follow from the rates of its statements; the others are those of its Table 1. The lower bounds
are the two claimed for BG-0 noise by Fazla et al. 2026; this project has not checked them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction

from gladstorm.theory.planning import theorem
from gladstorm.theory.problem import Problem

SMOOTHNESS = {
    ("nsgdm", "smooth"): "L0-smooth",
    ("nsgdm", "sublinear"): "L*_sym(α), 0 < α < 1",
    ("nsgdm", "linear"): "L*_sym(1)",
    ("nstorm", "smooth"): "mean-square smooth",
    ("nstorm", "sublinear"): "E L*_sym(α), 0 < α < 1",
    ("nstorm", "linear"): "E L*_sym(1)",
}
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
    Row("Cutkosky and Mehta 2020", "NSGDM", "L0-smooth", "not BG-0", "O(ε^-4)"),
    Row("Zhang et al. 2019", "clipped SGD", "L*_H", "not BG-0", "O(ε^-4)"),
    Row("Reisizadeh et al. 2025", "SPIDER with clipping", "L*_asym", "not BG-0", "O(ε^-3)"),
    Row("Chen et al. 2023", "β-normalized GD", "L*_sym(α)", "none", "O(ε^-2)"),
    Row("Chen et al. 2023", "SPIDER", "E L*_sym(α)", "not BG-0", "O(ε^-3)"),
    Row("Khirirat et al. 2026", "NSGDM", "L*_sym(1)", "not BG-0", "O(ε^-4)"),
    Row("Fazla et al. 2026", "PASTA", "L0-smooth", "BG-0", "O(ε^-6)"),
    Row("Fazla et al. 2026", "PASTA", "mean-square smooth", "BG-0", "O(ε^-4)"),
)
LOWER_BOUNDS = (
    Row("Fazla et al. 2026", "any", "L0-smooth", "BG-0", "Ω(ε^-6)"),
    Row("Fazla et al. 2026", "any", "mean-square smooth", "BG-0", "Ω(ε^-4)"),
)


def rows() -> tuple[Row, ...]:
    """Related work, this paper's eighteen regimes, and the lower bounds.

    >>> [row.complexity for row in rows() if row.method == "NSTORM" and row.noise == "BG-0"]
    ['O(ε^-4)', 'O(ε^-(4+α))', 'O(ε^-5)']
    """
    return RELATED + tuple(_derived(*setting, noise) for setting in SMOOTHNESS for noise in NOISE) + LOWER_BOUNDS


def markdown() -> str:
    """The rows as a table for a document.

    >>> markdown().splitlines()[2]
    '| Cutkosky and Mehta 2020 | NSGDM | L0-smooth | not BG-0 | O(ε^-4) |'
    """
    lines = [tuple(RELATED[0].as_dict()), ("---",) * 5, *(tuple(row.as_dict().values()) for row in rows())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _derived(method: str, smoothness: str, noise: str) -> Row:
    upper = f"O(ε^-{_complexity(method, smoothness, noise)})"
    return Row("This paper", method.upper(), SMOOTHNESS[method, smoothness], NOISE[noise], upper)


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
