"""What theorems are made of: conditions, powers of the horizon, schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from gladstorm.theory.problem import Exponent


@dataclass(frozen=True)
class Condition:
    """An inequality that a theorem requires, with the values of both sides."""

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
    """A term coefficient · T^(−exponent) of a bound, by name."""

    name: str
    coefficient: float
    exponent: Exponent


class Term(NamedTuple):
    """A term of a bound, with its value at one T."""

    name: str
    coefficient: float
    exponent: Exponent
    value: float


class Prescription(NamedTuple):
    """The numbers that a theorem prescribes for T iterates: η, γ, N_init (the samples of v⁰), and λ.

    λ is used in the analysis only; it is None if the bound does not contain it.
    """

    eta: float  # η
    gamma: float  # γ
    n_init: int  # N_init, samples that form v⁰
    young_weight: float | None  # λ, in the analysis only; None where the bound does not contain it
