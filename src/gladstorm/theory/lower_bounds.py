"""Lower bounds: what every method needs, in stochastic gradients, under BG-0 noise."""

from __future__ import annotations

from gladstorm.core.hardness import Hardness
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import POSITIVE


def lower_bound(problem: Problem, eps: float, *, rotated: bool = False) -> Hardness:
    """Count what every method needs for E‖∇f‖ ≤ ε under BG-0 noise, if samples are in E L*_sym(α).

    Where curvature does not grow (α = 0 or L1 = 0), samples of L allow noise that grows like L‖x − x⁰‖ and no faster:
    then the problem has the smaller growth of B and L/107 (L/214 if rotated).

    Args:
        problem: The constants, those of the oracle; α = 0 is read as L1 = 0. G does not matter.
        eps: ε.
        rotated: For all methods (Theorem 1); otherwise for those that respect zeros (Theorem 2), as all here do.

    >>> least = lower_bound(Problem(alpha=1, L0=1, L1=120, B=0.25, G=0, gap=1), eps=1e-4)
    >>> f"{least.guaranteed:.3g}", all(least.eps <= largest for largest in least.limits().values())
    ('1.36e+11', True)
    """
    if not problem.of_paper:
        raise ValueError(
            f"lower_bound: problem must have growth=2 in the Euclidean norm; got growth={problem.growth:g}, "
            f"norm={problem.norm.name}."
        )
    POSITIVE.require("lower_bound", "eps", eps)
    POSITIVE.require("lower_bound", "B", problem.B)
    level = problem.constant("lower_bound", "L0" if problem.L is None else "L")
    alpha, L1 = (problem.alpha, problem.constant("lower_bound", "L1")) if problem.alpha else (1.0, 0.0)
    least = Hardness(eps=eps, alpha=alpha, L0=level, L1=L1, B=problem.B, gap=problem.gap, rotated=rotated)
    return least if L1 else least.of_smooth_samples()
