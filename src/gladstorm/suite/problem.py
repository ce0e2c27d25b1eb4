"""What a problem of the suite is: an oracle for each seed, and facts that tables and answers are sorted by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gladstorm.comparison.starts import from_random_starts
from gladstorm.problems import objectives, oracles
from gladstorm.problems.oracles import FiniteSum, Oracle
from gladstorm.problems.oracles.own_noise import OwnNoise

Role = Literal["development", "held-out"]
EVEN_ABOUT_ZERO = "0"


@dataclass(frozen=True)
class SuiteProblem:
    """One problem: whatever is to be known of it is said here, once.

    Its gradient must not vanish far out, or a method that diverges looks best.
    """

    name: str
    about: str  # for people, in half a sentence
    make: Callable[[], Callable[[int], Oracle]]  # the oracle as a function of the seed, which draws x⁰
    role: Role  # methods are chosen on the development problems only
    far: bool = False  # whether the starts are many times as far from the solution as the noise would carry an iterate
    step_sizes: tuple[float, float] = (1e-4, 10.0)  # the least and the largest that is tried
    even_about: str | None = None  # "0", or the objective's field with the minimum about which f is even

    @cached_property
    def oracle(self) -> Callable[[int], Oracle]:
        """The oracle of each seed: the same instance, from a start of its own."""
        return self.make()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What tables and answers are sorted by, JSON-ready."""
        first = self.oracle(0)
        return {
            "about": self.about,
            "role": self.role,
            "natural": isinstance(first, OwnNoise | FiniteSum),
            "outside": first.outside,
            "field": first.field,
            "dim": int(first.objective.start.size),
            "far": self.far,
            "even": self.even_about is not None,
            "inf f": first.objective.f_inf,
            "step sizes": list(self.step_sizes),
        }


def named(
    spec: str, oracle: str | None = None, *, dim: int | None = None, stretch: float = 1.0
) -> Callable[[], Callable[[int], Oracle]]:
    """How to make a problem that has names: an objective's text and an oracle's, its own if none is given."""

    def make() -> Callable[[int], Oracle]:
        recipe = oracles.read(oracle or objectives.own_oracle(spec) or "")
        return from_random_starts(recipe, spec, objectives.named(spec, dim=dim), dim, stretch=stretch)

    return make
