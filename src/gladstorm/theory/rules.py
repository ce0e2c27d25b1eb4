"""The rules that numbers of the theory obey: those of `core.rules`, without NumPy and for numbers up to 10^300."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Exponent = Fraction | float  # a Fraction wherever alpha is a simple ratio
LONGEST = 10**300  # the largest horizon answered: floats end near 1.8e308


class OutOfRange(ValueError):
    """A number of the theory that no float can hold."""


@dataclass(frozen=True)
class NumberRule:
    """A rule that a number must obey, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]

    def require(self, owner: str, name: str, value: Any) -> None:
        """Raise a ValueError naming owner, argument, rule and value unless the rule holds.

        >>> POSITIVE.require("plan", "gap", 0)
        Traceback (most recent call last):
        ...
        ValueError: plan: gap must be finite and > 0; got gap=0.
        """
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not self.holds(value):
            raise ValueError(f"{owner}: {name} must be {self.words}; got {name}={value}.")


POSITIVE = NumberRule("finite and > 0", lambda v: 0 < v < math.inf)
NON_NEGATIVE = NumberRule("finite and ≥ 0", lambda v: 0 <= v < math.inf)
BELOW_1 = NumberRule("in [0, 1)", lambda v: 0 <= v < 1)
FRACTION = NumberRule("in (0, 1]", lambda v: 0 < v <= 1)
ALPHA = NumberRule("in [0, 1]", lambda v: 0 <= v <= 1)
HORIZON = NumberRule("a whole number from 1 to 10^300", lambda v: 1 <= v <= LONGEST and v == math.floor(v))


@dataclass(frozen=True)
class OfHorizon:
    """The number coefficient · T^exponent: formulas that are given γ, η and T as such numbers give powers of T."""

    coefficient: float
    exponent: Exponent

    def __mul__(self, other: Any) -> OfHorizon:
        if isinstance(other, OfHorizon):
            return OfHorizon(self.coefficient * other.coefficient, self.exponent + other.exponent)
        return OfHorizon(self.coefficient * other, self.exponent)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> OfHorizon:
        return self * other**-1 if isinstance(other, OfHorizon) else OfHorizon(self.coefficient / other, self.exponent)

    def __rtruediv__(self, other: float) -> OfHorizon:
        return OfHorizon(other / self.coefficient, -self.exponent)

    def __sub__(self, _less: float) -> OfHorizon:
        return self  # T − 1 is rounded up to T

    def __pow__(self, power: Exponent) -> OfHorizon:
        return OfHorizon(math.pow(self.coefficient, power), self.exponent * power)


def exact(number: float) -> Exponent:
    """The number as a fraction of small whole numbers, if it is one; otherwise itself.

    >>> exact(2 / 3)
    Fraction(2, 3)
    """
    simple = Fraction(number).limit_denominator(10**6)
    return simple if float(simple) == number else number


def in_range(owner: str, name: str, value: float) -> float:
    """The value, refused where it overflowed.

    >>> in_range("nsgdm", "drift", 1e308 * 10)
    Traceback (most recent call last):
    ...
    gladstorm.theory.rules.OutOfRange: nsgdm: drift must fit in double precision (below 1.8e308); got drift=inf.
    """
    if not math.isfinite(value):
        raise OutOfRange(f"{owner}: {name} must fit in double precision (below 1.8e308); got {name}={value}.")
    return value


def ratio(numerator: float, denominator: float) -> float:
    """numerator / denominator, infinite for a denominator of zero: a limit that does not bind."""
    return numerator / denominator if denominator else math.inf
