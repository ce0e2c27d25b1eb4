"""What theorems are made of: conditions, powers of the horizon, schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from gladstorm.theory.problem import Exponent


@dataclass(frozen=True)
class Condition:
    """An inequality a theorem asks for, with both sides."""

    statement: str  #: the inequality in words
    left: float  #: its left-hand side
    right: float  #: its right-hand side
    strict: bool = False  #: whether it is < instead of ≤

    @property
    def holds(self) -> bool:
        """Whether left ≤ right (left < right for a strict one)."""
        return self.left < self.right if self.strict else self.left <= self.right

    def as_dict(self) -> dict[str, Any]:
        """The condition as JSON-ready data."""
        return {"statement": self.statement, "left": self.left, "right": self.right, "holds": self.holds}


class PowerOfT(NamedTuple):
    """coefficient · T^(−exponent)."""

    name: str
    coefficient: float
    exponent: Exponent


class Term(NamedTuple):
    """A power of T and its value at one T."""

    name: str
    coefficient: float
    exponent: Exponent
    value: float


class Prescription(NamedTuple):
    """The parameters a theorem prescribes for T iterates."""

    eta: float  # η
    gamma: float  # γ
    n_init: int  # N_init, samples that form v⁰
    young_weight: float | None  # λ, in the analysis only; None where the bound does not contain it
