"""What holds for a class of functions holds for every class inside it: of those around a problem, the best one.

L*_sym(α) with 0 < α < 1 lies in L*_sym(1), at one pair of constants for every scale s of the gradient (`weaken`). So
does E L*_sym(α) in E L*_sym(1): the factor of a sample grows by the same inequality. The constants of α = 1 stay small
where those of α near 1 leave double precision. With L1 = 0 curvature does not grow, and all α are one class: smooth
functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gladstorm.core.constants import Constants
from gladstorm.theory.conversion import weaken
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import OutOfRange
from gladstorm.theory.search import lowest

SMALLEST, LARGEST = 1e-30, 1e30  # scales of the gradient that are tried
ABOVE_0 = 1e-300  # an α so small that the constants of its class are their limits at 0


def flat_classes(problem: Problem, level: float) -> tuple[Problem, ...]:
    """The problem as one of α = 0, of α just above 0, and of α = 1, if its curvature does not grow; otherwise none.

    `level` is its smoothness constant, which is L0 and L in all of them.

    >>> [each.alpha for each in flat_classes(Problem(alpha=0.5, L0=2, L1=0, B=0, G=1, gap=1), 2.0)]
    [0.0, 1e-300, 1.0]
    """
    if problem.smoothness != "smooth" and problem.L1 != 0:
        return ()
    return tuple(replace(problem, alpha=alpha, L0=level, L1=0.0, L=level) for alpha in (0.0, ABOVE_0, 1.0))


def best_linear_class(problem: Problem, bound: Callable[[Problem], float]) -> Problem | None:
    """The problem as one of α = 1, at the scale of the smallest bound; None if its class is not in one of α = 1 only.

    Bounds are sums of monomials in L0, L1 and γ0, and both constants are such sums in s: convex in log s. They are
    infinite where γ violates a condition, which it does at small scales, where L1 is large: the search is in 1/s.
    """
    if problem.smoothness != "sublinear" or problem.L0 is None or problem.L1 is None:
        return None

    def cost(divisor: float) -> float:
        try:
            return bound(_in_linear_class(problem, 1 / divisor))
        except OutOfRange:
            return math.inf

    return _in_linear_class(problem, 1 / lowest(cost, 1 / LARGEST, 1 / SMALLEST))


def _in_linear_class(problem: Problem, scale: float) -> Problem:
    L0, L1 = problem.constant("plan", "L0"), problem.constant("plan", "L1")
    wider = weaken(Constants(L0=L0, L1=L1, alpha=problem.alpha, f_inf=0.0), 1.0, scale=scale)
    return replace(problem, alpha=1.0, L0=wider.L0, L1=wider.L1)
