"""Searches: the lowest point of a valley, on a line or in space, and the first whole number where something is true."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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


def descend(
    value: Callable[[Sequence[float]], float], start: Sequence[float], free: Sequence[bool], size: float
) -> list[float]:
    """The minimiser of a convex function in the free coordinates, by Nelder and Mead's simplex, begun anew until still.

    >>> [round(x, 4) for x in descend(lambda x: (x[0] - 1) ** 2 + (x[1] + x[0]) ** 2, [9.0, 9.0], [True, True], 1.0)]
    [1.0, -1.0]
    """
    axes = [i for i, is_free in enumerate(free) if is_free]
    best, lowest = list(start), value(start)
    while True:
        simplex = [(lowest, best)]
        for i in axes:
            corner = [coordinate + size * (j == i) for j, coordinate in enumerate(best)]
            simplex.append((value(corner), corner))
        at, reached = _simplex(value, simplex)
        if not at < lowest * (1 - 1e-11):
            return reached
        best, lowest, size = reached, at, max(size / 3, 1e-3)


def _simplex(
    value: Callable[[Sequence[float]], float], simplex: list[tuple[float, list[float]]]
) -> tuple[float, list[float]]:
    for _ in range(400):
        simplex.sort(key=lambda corner: corner[0])
        (low, best), (high, worst) = simplex[0], simplex[-1]
        if high - low <= 1e-12 * abs(low):
            break
        others = [corner for _, corner in simplex[:-1]]
        middle = [math.fsum(coordinates) / len(others) for coordinates in zip(*others, strict=True)]

        def moved(factor: float, middle: list[float] = middle, worst: list[float] = worst) -> tuple[float, list[float]]:
            corner = [m + factor * (m - w) for m, w in zip(middle, worst, strict=True)]
            return value(corner), corner

        chosen = moved(1.0)
        if chosen[0] < low:
            chosen = min(chosen, moved(2.0), key=lambda corner: corner[0])
        elif chosen[0] >= simplex[-2][0]:
            chosen = moved(0.5 if chosen[0] < high else -0.5)
        if chosen[0] < high:
            simplex[-1] = chosen
        else:
            shrunk = [[(a + b) / 2 for a, b in zip(best, corner, strict=True)] for _, corner in simplex[1:]]
            simplex[1:] = [(value(corner), corner) for corner in shrunk]
    return min(simplex, key=lambda corner: corner[0])
