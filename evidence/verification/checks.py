"""A check: a number measured over independent seeds, what is claimed of it, and whether its confidence interval agrees.

Intervals are Student's, two-sided. All checks of a report share one error probability: with N different random numbers
each interval has level 1 − `FAMILY`/N (Bonferroni), so that a correct program fails any check with probability at most
`FAMILY`, as far as means over the seeds are close to normal. Claims about the same number share its interval, and a
number without randomness has an interval of length 0: neither makes the others wider.

A new check is yielded by a module that `run` lists. Its `MEANING` says what it proves and what it does not, and
`broken` has a mistake that it finds. What holds by construction is a test and not a check.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np

from evidence.page import log_slope_weights
from gladstorm.core.statistics import Mean, finite, mean_of, significant
from gladstorm.jobs.files import load_json, save_json

FORMAT: Final = "gladstorm verification part 1"
FAMILY: Final = 0.01  # the probability that a correct program fails anywhere
ROUNDING: Final = 1e-9  # relative; float64 sums over a million steps are good to 1e-10


def on_every_path(values: np.ndarray) -> Mean:
    """The largest of numbers claimed of every path, not of their mean: nothing is left to chance."""
    return Mean(float(values.max()), 0.0, values.shape[0])


def log_slope(horizons: Sequence[int], values: np.ndarray) -> Mean:
    """The least-squares slope of the logarithm of the means of values, (horizon, seed), against log T.

    Its error is that of the linearised logarithms, seed by seed: horizons share their noise and are not independent.

    >>> round(log_slope([1, 4, 16], np.array([[8.0, 8.0], [4.0, 4.0], [2.0, 2.0]])).value, 12)
    -0.5
    """
    weights, means = log_slope_weights(horizons), values.mean(axis=1)
    deviation = mean_of(weights @ (values / means[:, None])).deviation
    return Mean(float(weights @ np.log(means)), deviation, values.shape[1])


@dataclass(frozen=True)
class Relation(ABC):
    """A claim about a number."""

    form: ClassVar[str]  # the claim in words, with its fields

    @property
    def words(self) -> str:
        """Words of the claim."""
        return self.form.format(**vars(self))

    def holds(self, low: float, high: float) -> bool:
        """Whether the interval is finite and agrees: what is not shown does not hold."""
        return math.isfinite(low + high) and self._agrees(low, high)

    @abstractmethod
    def _agrees(self, low: float, high: float) -> bool:
        """Whether a finite interval agrees."""


@dataclass(frozen=True)
class AtMost(Relation):
    """The number is at most a bound: the whole interval lies below it."""

    bound: float
    form = "≤ {bound:.6g}"

    def _agrees(self, _low: float, high: float) -> bool:
        return high <= self.bound + ROUNDING * abs(self.bound)


@dataclass(frozen=True)
class NotAbove(Relation):
    """The number is at most a bound it may well attain: not refuted, the interval does not lie above it."""

    bound: float
    form = "not > {bound:.6g}"

    def _agrees(self, low: float, _high: float) -> bool:
        return low <= self.bound


@dataclass(frozen=True)
class Between(Relation):
    """The number is above a false bound and at most a true one: the whole interval lies between them."""

    false: float
    true: float
    form = "> {false:.6g} and ≤ {true:.6g}"

    def _agrees(self, low: float, high: float) -> bool:
        return self.false < low and high <= self.true


@dataclass(frozen=True)
class Equals(Relation):
    """The number is known exactly: the interval contains it."""

    number: float
    form = "= {number:.6g}"

    def _agrees(self, low: float, high: float) -> bool:
        slack = ROUNDING * abs(self.number)
        return low - slack <= self.number <= high + slack


@dataclass(frozen=True)
class Within(Relation):
    """The number is close to another: the whole interval lies within a margin of it."""

    number: float
    margin: float
    form = "{number:.4f} ± {margin:g}"

    def _agrees(self, low: float, high: float) -> bool:
        return self.number - self.margin <= low and high <= self.number + self.margin


@dataclass(frozen=True)
class Check:
    """A claim about a measured number: whose, which, at what horizon (0 for all)."""

    regime: str
    instance: str
    kind: str
    horizon: int
    measured: Mean
    claim: Relation

    def as_list(self) -> list[Any]:
        """The check as a list that JSON can hold."""
        named = [type(self.claim).__name__, *astuple(self.claim)]
        return [self.regime, self.instance, self.kind, self.horizon, list(astuple(self.measured)), named]

    @classmethod
    def from_list(cls, table: list[Any]) -> Self:
        """The check of which `as_list` was kept.

        >>> check = Check("regime", "instance", "bound", 10, Mean(1.0, 0.5, 3), Within(1.0, 0.1))
        >>> Check.from_list(check.as_list()) == check
        True
        """
        regime, instance, kind, horizon, measured, (claimed, *numbers) = table
        claim = next(each for each in Relation.__subclasses__() if each.__name__ == claimed)
        return cls(regime, instance, kind, horizon, Mean(*measured), claim(*numbers))


@dataclass(frozen=True)
class PartResult:
    """Result of one part of a verification, as it is stored: checks, and rows of tables by the table's name."""

    checks: list[Check] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def save(self, path: Path, *, key: str = "") -> None:
        """Write checks and rows as JSON with their key in a store and a digest; whole or not at all."""
        save_json(path, FORMAT, {"checks": [check.as_list() for check in self.checks], "rows": self.rows}, key)

    @classmethod
    def load(cls, path: Path, *, key: str = "") -> Self:
        """Read what `save` wrote; a ValueError says when a file is damaged, no such part, or another one."""
        content = load_json("PartResult.load", path, FORMAT, key)
        return cls([Check.from_list(each) for each in content["checks"]], content["rows"])


Parts = Iterator[tuple[str, Callable[[], PartResult]]]  # names, and what computes each


def checked(checks: Callable[..., Iterable[Check]], *about: Any) -> PartResult:
    """A part that is checks alone."""
    return PartResult(list(checks(*about)))


@dataclass(frozen=True)
class Verdict:
    """A check decided at the level its report leaves it."""

    check: Check
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the interval agrees with the claim."""
        return self.check.claim.holds(self.low, self.high)

    def as_dict(self) -> dict[str, Any]:
        """The verdict as JSON-ready data."""
        check = self.check
        return {
            "regime": check.regime,
            "instance": check.instance,
            "check": check.kind,
            "horizon": check.horizon,
            "measured": rounded(check.measured.value),
            "low": rounded(self.low),
            "high": rounded(self.high),
            "claim": check.claim.words,
            "seeds": check.measured.n,
            "holds": self.holds,
        }


def level_of_each(count: int) -> float:
    """The level of each of `count` intervals."""
    return 1 - FAMILY / max(1, count)


def numbers(checks: Iterable[Check]) -> set[Mean]:
    """The different numbers that are claimed something of."""
    return {check.measured for check in checks}


def random_numbers(checks: Iterable[Check]) -> set[Mean]:
    """Checks whose numbers depend on the seeds, and not only in their last digits."""
    return {each for each in numbers(checks) if not each.deviation <= ROUNDING * abs(each.value)}


def confidence(checks: list[Check]) -> dict[str, Any]:
    """How safe all checks of a report are together."""
    random = len(random_numbers(checks))
    return {
        "family": FAMILY,
        "checks": len(checks),
        "numbers": len(numbers(checks)),
        "random_numbers": random,
        "level": level_of_each(random),
        "method": "Student's two-sided interval over seeds, Bonferroni over all different random numbers",
    }


def decide(checks: list[Check]) -> list[Verdict]:
    """Decide all checks of a report, each at the level that the count of its random numbers leaves."""
    level = level_of_each(len(random_numbers(checks)))
    return [Verdict(check, *check.measured.interval(level)) for check in checks]


def rounded(value: float) -> float | None:
    """Seven digits, so that a report does not depend on the last bits of a machine's arithmetic; None if not finite.

    >>> rounded(1 / 3), rounded(float("nan"))
    (0.3333333, None)
    """
    return finite(significant(value, 7))
