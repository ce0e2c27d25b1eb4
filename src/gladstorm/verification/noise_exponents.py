"""Problems on which noise alone sets the gradient norm: whether the slowest noise terms of the bounds are really there.

On the instances of `instances.py` Δ/(γT) dominates, so their slopes say nothing about noise. Here Δ = 0: f = L0 x²/2 is
started at its minimiser, and `Skewed` noise carries the iterate away from it. Rare samples keep the mean at 0 and, with
a probability q of the order of η, are absent from most of the windows of 1/η steps an estimate remembers; the method
only sees the sign of v, and v is usually negative. L0 falls with T so slowly that it holds the iterate where ‖∇f‖ is a
constant times the noise term, and the terms with L0 and Δ vanish beside it. A bound has to hold for every L0: if the
measurement falls like the term, no proof can make the term smaller in T.

For bounded variance (B = 0) this is the errata's counterexample scaled to G = 1: the average of the noise is typically
−0.37 √η G. Under BG-0 noise of growth B the same average is −0.37 √η B |x|, a force *away* from x⁰ that grows like the
restoring one, L0 |x|; below L0 = 0.37 √η B nothing stops the iterate before γT does, and there ‖∇f‖ is L0 γT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from gladstorm.noise_laws import Skewed
from gladstorm.objectives import Quadratic
from gladstorm.theory import Problem, Statement, theorem, wrapped
from gladstorm.verification.checks import AtMost, Check, Within, log_slope, mean_of
from gladstorm.verification.runs import Settings

MARGIN: Final = 0.1  # closer to the term's exponent than to any other noise term's: the next are twice as large
NO_GAP: Final = 1e-12  # Δ is 0; the theorems ask for a positive number


@dataclass(frozen=True)
class NoiseProblem:
    """A family of quadratics, one for each T, with the term of the bound it is made for."""

    method: str
    B: float
    G: float
    curvature: float  # L0 = curvature · T^(−exponent)
    exponent: float
    rare: float  # q/η
    term: str

    @property
    def regime(self) -> str:
        """As `--regime` names it."""
        return f"{self.method}/smooth/{'bg0' if self.B else 'bounded'}"

    def statement(self, T: int) -> Statement:
        """What the paper says at γ0 = 1. The oracle's mean-square constant is that of the wrapper with the same B."""
        problem = Problem(alpha=0, L0=self._L0(T), B=self.B, G=self.G, gap=NO_GAP)
        return theorem(self.method, wrapped(problem) if self.method == "nstorm" else problem, gamma0=1.0)

    def oracle(self, T: int) -> Skewed:
        """The problem for T iterates."""
        rare = self.rare * self.statement(T).schedule(T).eta
        return Skewed(Quadratic(np.zeros(1), np.array([self._L0(T)])), self.B, self.G, rare)

    def _L0(self, T: int) -> float:
        return float(self.curvature * T**-self.exponent)


PROBLEMS: Final = (
    NoiseProblem("nsgdm", B=0.0, G=1.0, curvature=3.66, exponent=1 / 2, rare=0.185, term="noise"),
    NoiseProblem("nsgdm", B=1.0, G=0.01, curvature=0.1, exponent=1 / 3, rare=0.05, term="noise growth"),
    NoiseProblem("nstorm", B=0.0, G=1.0, curvature=1.2, exponent=2 / 3, rare=0.185, term="noise"),
    NoiseProblem("nstorm", B=1.0, G=0.01, curvature=0.15, exponent=1 / 2, rare=0.1, term="noise growth"),
)


def checks(problem: NoiseProblem, settings: Settings) -> Iterator[Check]:
    """The bound at every horizon, and the slope of the measurement against the exponent of the noise term."""
    horizons = [T for T in settings.horizons if settings.fit_from <= T]
    instance = f"noise alone: {problem.term!r}"
    values = []
    for T in horizons:
        statement = problem.statement(T)
        oracle, method = problem.oracle(T), settings.method(statement, T)
        values.append(settings.simulated(oracle, method, T, blocks=settings.blocks).mean_grad_norm[0, :, -1])
        yield Check(problem.regime, instance, "bound", T, mean_of(values[-1]), AtMost(statement.bound(T)))
    exponent = next(power.exponent for power in statement.powers if power.name == problem.term)
    measured = log_slope(horizons, np.stack(values))
    yield Check(problem.regime, instance, "noise exponent", 0, measured, Within(-float(exponent), MARGIN))
