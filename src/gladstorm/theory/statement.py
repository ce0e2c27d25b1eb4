"""Theorems as objects: a schedule, conditions, a bound term by term, and the answers that follow from them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import FRACTION, HORIZON, POSITIVE, Exponent, OutOfRange, in_range
from gladstorm.theory.search import first, lowest

REGIMES: dict[tuple[str, str, str], Regime] = {}  # by method, smoothness and noise


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
    """The numbers that a theorem prescribes for T iterates."""

    eta: float  # η
    gamma: float  # γ
    n_init: int  # N_init, samples that form v⁰
    young_weight: float | None  # λ, in the analysis only; None where the bound does not contain it


@dataclass(frozen=True)
class Regime:
    """A statement of the paper: about which method, smoothness and noise, and where it is printed."""

    kind: type[Statement]  #: the method's statements
    smoothness: str
    noise: str
    source: str  #: statement and equation, by their numbers
    errata: tuple[str, ...] = ()  #: entries of docs/errata.md about the printed bound
    calls_per_step: int = 1  #: stochastic gradients per update
    has_eta0: bool = False  #: whether the schedule has an η0

    def needs(self) -> tuple[str, ...]:
        """The names of the smoothness constants that a problem must give."""
        return (self.kind.level,) if self.smoothness == "smooth" else ("L0", "L1")


@dataclass(frozen=True)
class Statement(ABC):
    """A theorem about T iterates of a method: E‖∇f(x̂)‖ ≤ Σ c T^(−e) for a certain schedule of η and γ.

    The schedule is η = η0 T^(−eta_exponent), γ = γ0 T^(−gamma_exponent). x̂ is uniform on x⁰..x^{T−1}, so the left-hand
    side is the mean of ‖∇f‖ over the trajectory. A subclass is a method; the paper's statements about it are rows of
    REGIMES, and which one applies follows from the problem. A new family is a file with rows, which `planning` adds,
    and a bound in MASTERS of `master_bounds`.
    """

    problem: Problem
    gamma0: float  #: γ0 > 0
    eta0: float = 1.0  #: η0 in (0, 1]; 1 in schedules without it

    method: ClassVar[str]  # by its name in `gladstorm.methods`
    classes: ClassVar[Mapping[str, str]]  # what each kind of smoothness is called in the table
    level: ClassVar[str]  # the smoothness constant that it needs where α = 0
    corrects_drift: ClassVar[bool]  # whether v follows ∇f by differences of one sample, its error being noise alone
    of_paper: ClassVar[bool] = True  # whether it is a regime's own statement; otherwise it is a second one

    def __post_init__(self) -> None:
        if self.of_paper and not self.problem.of_paper:
            raise ValueError(
                f"{self.method}: the paper's theorem is about growth=2 and norm=euclid, `theory.plan` about all; got "
                f"growth={self.problem.growth:g}, norm={self.problem.norm.name}."
            )
        for name in self.needs():
            self.problem.constant(self.method, name)
        POSITIVE.require(self.method, "gamma0", self.gamma0)
        FRACTION.require(self.method, "eta0", self.eta0)
        if self.eta0 != 1 and not self.row.has_eta0:
            raise ValueError(f"{self.method}: eta0 must be 1 in a schedule that has no eta0; got eta0={self.eta0}.")

    @property
    def L0(self) -> float:
        """L0 of f (NSGDM) or of its oracle (NSTORM)."""
        return self.problem.constant(self.method, "L0")

    @property
    def L1(self) -> float:
        """L1 of f (NSGDM) or of its oracle (NSTORM)."""
        return self.problem.constant(self.method, "L1")

    @property
    def L(self) -> float:
        """The oracle's mean-square constant."""
        return self.problem.constant(self.method, "L")

    @property
    def smoothness(self) -> str:
        """The problem's class."""
        return self.problem.smoothness

    @property
    def noise(self) -> str:
        """The problem's kind of noise."""
        return self.problem.noise

    @property
    def row(self) -> Regime:
        """The paper's row about this method and setting."""
        return REGIMES[self.method, self.smoothness, self.noise]

    @property
    def source(self) -> str:
        """The theorem, by its number in the paper."""
        return self.row.source

    @property
    def errata(self) -> tuple[str, ...]:
        """Entries of docs/errata.md about the printed bound."""
        return self.row.errata if self.of_paper else ()

    @property
    def regime(self) -> str:
        """The text method/smoothness/noise, such as nsgdm/smooth/bg0."""
        return f"{self.method}/{self.smoothness}/{self.noise}"

    @classmethod
    def reads(cls, problem: Problem) -> Problem:
        """The problem that this statement is about, if noise is added to f and `problem` has f's own constants."""
        return problem

    @classmethod
    def within_class(cls, problem: Problem) -> Problem:
        """The problem with the smallest growth B of the noise that its smoothness implies."""
        return problem

    def needs(self) -> tuple[str, ...]:
        """The names of the smoothness constants that the problem must give."""
        return self.row.needs()

    @property
    @abstractmethod
    def eta_exponent(self) -> Exponent:
        """η = η0 T^(−eta_exponent)."""

    @property
    @abstractmethod
    def gamma_exponent(self) -> Exponent:
        """γ = γ0 T^(−gamma_exponent)."""

    @property
    def n_init_exponent(self) -> Exponent | None:
        """N_init = max(1, ⌈G² T^n_init_exponent⌉), so that b0 ≤ T^(−n_init_exponent/2); None if N_init = 1."""
        return None

    def _young_weight(self, T: int) -> float | None:  # noqa: ARG002 - for statements whose bound contains λ
        return None

    def _limits(self) -> dict[str, float]:
        """Upper limits of γ0, by their statement; infinite where they do not bind."""
        return {}

    @abstractmethod
    def _corollary(self) -> Iterable[PowerOfT]:
        """The bound, the paper's slips corrected."""

    def _printed(self) -> Iterable[PowerOfT]:
        """The bound as the paper prints it."""
        return self._corollary()

    def schedule(self, T: int) -> Prescription:
        """η, γ, N_init and λ for T iterates."""
        HORIZON.require(self.method, "horizon", T)
        return Prescription(
            eta=self.eta0 * _power(T, self.eta_exponent),
            gamma=self.gamma0 * _power(T, self.gamma_exponent),
            n_init=self._n_init(T),
            young_weight=self._young_weight(T),
        )

    def settings(self, T: int) -> dict[str, float]:
        """The arguments of the method in `gladstorm.methods` for T iterates."""
        schedule = self.schedule(T)
        return {"gamma": schedule.gamma, "eta": schedule.eta}

    def conditions(self) -> tuple[Condition, ...]:
        """Every inequality that the theorem requires, with both sides. None depends on T in these schedules."""
        return tuple(Condition(words, self.gamma0, r) for words, r in self._limits().items() if r < math.inf)

    @cached_property
    def powers(self) -> tuple[PowerOfT, ...]:
        """The terms of the bound, as powers of T."""
        return self._checked(self._corollary)

    def terms(self, T: int) -> tuple[Term, ...]:
        """The terms of the bound, with their values at T."""
        HORIZON.require(self.method, "horizon", T)
        return tuple(Term(*power, power.coefficient * _power(T, power.exponent)) for power in self.powers)

    def bound(self, T: int) -> float:
        """The right-hand side at T, an upper bound on E‖∇f(x̂)‖."""
        return math.fsum(term.value for term in self.terms(T))

    def bound_as_printed(self, T: int) -> float:
        """The right-hand side as printed in the paper; where `errata` lists an entry, it may be false."""
        HORIZON.require(self.method, "horizon", T)
        return math.fsum(power.coefficient * _power(T, power.exponent) for power in self._checked(self._printed))

    @property
    def rate(self) -> Exponent:
        """The exponent in bound = O(T^(−rate)); larger is better."""
        return min(power.exponent for power in self.powers)

    def sfo(self, T: int) -> int:
        """The number of stochastic gradients for T iterates: those of v⁰ and of T − 1 updates."""
        HORIZON.require(self.method, "horizon", T)
        return self._n_init(T) + self.row.calls_per_step * (int(T) - 1)

    def largest_batch(self, T: int) -> int:
        """The most stochastic gradients that a step takes at one point, in mean."""
        return self._n_init(T)

    def horizon(self, eps: float) -> int:
        """The smallest T with bound(T) ≤ eps. It costs sfo(T) stochastic gradients."""
        POSITIVE.require(self.method, "eps", eps)
        T = first(lambda T: self.bound(T) <= eps)
        if T is None:
            raise ValueError(f"{self.method}: eps must be reachable within 10^300 iterates; got eps={eps}.")
        return T

    def largest_gamma0(self) -> float:
        """The largest γ0 that the conditions admit; infinite if they admit every γ0."""
        return min(self._limits().values(), default=math.inf)

    def violations(self) -> tuple[str, ...]:
        """A sentence for each condition that fails: which one, by how much, and the largest admissible γ0."""
        return tuple(
            f"{self.method}: the theorem needs {c.statement}, but {c.left!r} > {c.right!r}, "
            f"{c.left / c.right:.4g} times too large; the largest admissible gamma0 is {self.largest_gamma0()!r}."
            for c in self.conditions()
            if not c.holds
        )

    def tune_gamma0(self, T: int | None = None) -> Self:
        """Choose the best admissible γ0: the one with the smallest bound at T.

        Without T, the one with the smallest coefficient of the slowest power of T, which is best for every T large
        enough. Its bound is never larger than this one's, unless this one violates a condition.
        """

        def cost(gamma0: float) -> float:
            return replace(self, gamma0=gamma0)._cost_or_infinity(T)

        high = min(self.largest_gamma0(), 1e200)
        low = min(max(1e-200, 1e-290 * self.problem.gap), high)  # Δ/γ0 does not overflow
        gamma0 = lowest(cost, low, high)
        if gamma0 in (low, 1e200) and cost(gamma0) < math.inf:
            raise ValueError(f"{self.method}: gamma0 must be given, as no gamma0 has the least bound; got gamma0=None.")
        return self._better(replace(self, gamma0=gamma0), T)

    def tune(self, T: int | None = None) -> Self:
        """Choose the best admissible γ0, and η0 if there is one. As in `tune_gamma0`, T may be left out."""
        if not self.row.has_eta0:
            return self.tune_gamma0(T)

        def cost(divisor: float) -> float:  # overflow lies at small η0, that is at large divisors
            return replace(self, eta0=1 / divisor).tune_gamma0(T)._cost(T)

        eta0 = 1 / lowest(cost, 1.0, 1e30)
        return self._better(replace(self, eta0=eta0).tune_gamma0(T), T)

    def _n_init(self, T: int) -> int:
        if self.n_init_exponent is None:
            return 1
        samples = self.problem.G * self.problem.G * _power(T, -self.n_init_exponent)
        return max(1, math.ceil(in_range(self.method, "n_init", samples)))

    def _cost(self, T: int | None) -> float:
        if T is not None:
            return self.bound(T)
        slowest = float(self.rate) + 1e-12  # exponents that are equal may be rounded differently
        return math.fsum(power.coefficient for power in self.powers if power.exponent <= slowest)

    def _cost_or_infinity(self, T: int | None) -> float:
        try:
            return self._cost(T)
        except OutOfRange:
            return math.inf

    def _better(self, other: Self, T: int | None) -> Self:
        return self if self._cost_or_infinity(T) <= other._cost(T) and not self.violations() else other

    def _checked(self, stated: Callable[[], Iterable[PowerOfT]]) -> tuple[PowerOfT, ...]:
        try:
            powers = tuple(stated())
        except ArithmeticError:
            raise OutOfRange(
                f"{self.method}: gamma0 must be small enough for the bound to fit in double precision; "
                f"got gamma0={self.gamma0}."
            ) from None
        for power in powers:
            in_range(self.method, f"the coefficient of {power.name!r}", power.coefficient)
        return powers


def _power(T: int, exponent: Exponent) -> float:
    return math.pow(T, -float(exponent))
