"""Two searches on a line: the lowest point of a valley, and the first whole number from which on something is true."""

from __future__ import annotations

import math
from collections.abc import Callable

from gladstorm.theory.rules import LONGEST

GOLDEN = (math.sqrt(5) - 1) / 2


def lowest(valley: Callable[[float], float], low: float, high: float) -> float:
    """The minimiser over [low, high], low > 0, of a function that falls and then rises in log x.

    Where the function overflows to infinity it is taken to be rising. A bound is a sum of monomials in γ0 and in η0,
    hence convex in their logarithms, so golden section cannot miss.

    >>> round(lowest(lambda x: 4 / x + x, 1e-9, 1e9), 6)
    2.0
    """
    a, b = math.log(low), math.log(high)

    def at(log: float) -> float:
        return min(max(math.exp(log), low), high)  # exp may round past an end

    left, right = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
    at_left, at_right = valley(at(left)), valley(at(right))
    while b - a > 1e-9:
        if at_left <= at_right:
            b, right, at_right = right, left, at_left
            left = b - GOLDEN * (b - a)
            at_left = valley(at(left))
        else:
            a, left, at_left = left, right, at_right
            right = a + GOLDEN * (b - a)
            at_right = valley(at(right))
    return min((low, at((a + b) / 2), high), key=valley)


def first(true_from: Callable[[int], bool]) -> int | None:
    """The smallest T from 1 to 10^300 at which a statement that stays true once true is true, or None.

    >>> first(lambda T: T * T >= 50)
    8
    """
    return boundary(true_from, 0, LONGEST) if true_from(LONGEST) else None


def boundary(true_from: Callable[[int], bool], before: int, after: int) -> int:
    """The first whole number above `before`, where the statement is false or not asked, at which it is true.

    It is true at `after`. Bounds know T in double precision, so what it says is asked once for each float. The middle
    is the geometric one while the two ends are of different order.
    """
    answers: dict[float, bool] = {}
    while after - before > 1:
        middle = (before + after) // 2 if after <= 4 * before else max(before + 1, math.isqrt(before * after))
        if float(middle) not in answers:
            answers[float(middle)] = true_from(middle)
        before, after = (before, middle) if answers[float(middle)] else (middle, after)
    return after
