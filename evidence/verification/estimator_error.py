"""The mean error of v that a proof allows: (1/T) Σ E‖v − ∇f‖ ≤ level + feedback · (1/T) Σ E‖∇f‖.

A step obeys f(x⁺) ≤ f(x) − γ‖∇f‖ + 2γ‖v − ∇f‖ + curvature, so a bound contains twice that on the mean error of v, times
what absorbing the feedback costs: the growth of curvature with the gradient.
"""

import math
from typing import Final

from gladstorm import theory
from gladstorm.theory import Statement
from gladstorm.theory.master_bounds import Bound, MomentumLinear, MomentumSublinear, S, StormLinear, StormSublinear
from gladstorm.theory.sharper_bounds import MomentumSmooth, StormSmooth

TERMS: Final = ("initial error", "drift", "difference", "noise")  # how the terms begin that pay for the error of v
CHARGED: Final[dict[type[Bound], int]] = {  # how often the bound contains the level
    MomentumLinear: 4,
    MomentumSublinear: 4,
    StormSublinear: 8,
    StormLinear: 8,
    MomentumSmooth: 2,
    StormSmooth: 2,
}


def error_bound(statement: Statement, T: int) -> Bound:
    """The bound whose proof bounds the mean error.

    For smooth f nothing is absorbed, and the sharper bound's proof is the sharper one here too.
    """
    sharper = theory.sharper(statement, T) if statement.smoothness == "smooth" else None
    return sharper or theory.master(statement, T)


def error_level(run: Bound) -> float:
    """The proof's bound on the mean error of v, but for the feedback."""
    return math.fsum(value for name, value in run.terms().items() if name.startswith(TERMS)) / CHARGED[type(run)]


def error_feedback(run: Bound) -> float:
    """Factor of the mean of ‖∇f‖ in the proof's bound on the mean error of v."""
    match run:
        case MomentumLinear():
            reach = run.L1 * run.gamma
            return reach * math.exp(reach) / run.eta
        case MomentumSublinear():
            return run.gamma / (8 * run.eta)  # Young's inequality leaves 1/8
        case StormSublinear():
            return 1 / 8  # at the largest weight λ
        case StormLinear():
            return 2 * S * run.constant("L1") * run.gamma / run.eta
        case _:
            return 0.0
