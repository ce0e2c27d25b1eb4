"""One function, several classes: f's constants in a weaker class, and the constants of the BG-0 wrapper around f."""

from __future__ import annotations

import math
from dataclasses import replace

from gladstorm.core.constants import Constants
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import ALPHA, POSITIVE


def weaken(constants: Constants, alpha: float, *, scale: float = 1.0) -> Constants:
    """The constants of f for a larger α: every f in L*_sym(a) is also in L*_sym(α) for α ≥ a.

    With r = a/α and any gradient norm s, the weighted mean of 1 and (t/s)^α gives t^a ≤ s^a (1 − r) + s^(a−α) r t^α. So
    L0 grows by L1 s^a (1 − r), and L1 becomes L1 s^(a−α) r. `scale` is s; at gradients of that norm nothing is lost. A
    smooth f (a = 0) is in every class with L1 = 0. The converse is false.

    >>> weaken(Constants(L0=0.0, L1=4.0, alpha=0.5, f_inf=0.0), alpha=1)
    Constants(L0=2.0, L1=2.0, alpha=1, f_inf=0.0)
    """
    ALPHA.require("weaken", "alpha", alpha)
    POSITIVE.require("weaken", "scale", scale)
    if alpha < constants.alpha:
        raise ValueError(f"weaken: alpha must be ≥ {constants.alpha:g}, the alpha that f declares; got alpha={alpha}.")
    if alpha == constants.alpha:
        return constants
    if constants.alpha == 0:
        return replace(constants, alpha=alpha, L1=0.0)
    r = constants.alpha / alpha
    L0 = constants.L0 + constants.L1 * scale**constants.alpha * (1 - r)
    return replace(constants, alpha=alpha, L0=L0, L1=constants.L1 * scale ** (constants.alpha - alpha) * r)


def wrapped(problem: Problem) -> Problem:
    """The oracle's constants, which NSTORM needs, from f's own, if the noise of `BlumGladyshev` is added to f.

    That noise is ∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G u.

    - Smooth f: E‖∇f(y; ξ) − ∇f(x; ξ)‖² = ‖∇f(y) − ∇f(x)‖² + B²‖y − x‖², so L = √(L0² + B²).
    - f ∈ L*_sym(α): (L0 + L1 m)² ≤ 2 L0² + 2 L1² m², so L0 becomes √(2 L0² + B²); and L1 becomes √2 L1 if the sample
      gradients' 2α-th moment is at least ‖∇f‖^{2α}, which is Jensen's inequality for α ≥ 1/2. Below, ρ and u being
      symmetric, the moment is at least half of that, and L1 becomes 2 L1.
    - Without noise a sample is the gradient and nothing changes.

    >>> wrapped(Problem(alpha=0, L0=3, B=4, G=1, gap=1)).L
    5.0
    """
    L0 = problem.constant("wrapped", "L0")
    if problem.smoothness == "smooth":
        return replace(problem, L=math.hypot(L0, problem.B))
    if problem.noise == "deterministic":
        return problem
    factor = math.sqrt(2) if problem.alpha >= 1 / 2 else 2.0
    L1 = factor * problem.constant("wrapped", "L1")
    return replace(problem, L0=math.hypot(math.sqrt(2) * L0, problem.B), L1=L1)
