"""From an oracle of the lab to the theorem about it, without arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gladstorm.core.constants import Bg0
from gladstorm.theory.anchors import around_start
from gladstorm.theory.conversion import weaken
from gladstorm.theory.planning import regime, theorem
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import Statement

if TYPE_CHECKING:
    from gladstorm.problems.oracles import Oracle


def problem_of(oracle: Oracle, *, alpha: float | None = None) -> Problem:
    """The `Problem` of an oracle, with f's own constants and BG-0 noise around x⁰, as NSGDM's theorems need it.

    `alpha` asks for a larger α than the one that the objective declares (see `weaken`). If the noise is smallest at
    another point, its constants are moved to x⁰ (see `around_start` and `cost_of_moving`).
    """
    import jax

    from gladstorm.core.parts import check

    check(oracle)
    objective, noise = oracle.objective, around_start(_noise(oracle), oracle.objective.start)
    constants = objective.constants
    if constants is None:
        name = type(objective).__name__
        raise ValueError(f"for_oracle: objective must declare its constants; got objective={name} with constants=None.")
    if alpha is not None:
        constants = weaken(constants, alpha)
    with jax.enable_x64(True):
        gap = float(objective.value(objective.start)) - constants.f_inf
    if gap <= 0:
        raise ValueError(
            "for_oracle: start must be a point where f is above its infimum, or there is nothing to bound; "
            f"got f(x⁰) − inf f = {gap:g}."
        )
    return Problem(
        alpha=constants.alpha,
        L0=constants.L0,
        L1=constants.L1,
        B=noise.B,
        G=noise.G,
        gap=gap,
    )


def for_oracle(
    oracle: Oracle,
    method: str,
    *,
    alpha: float | None = None,
    gamma0: float | None = None,
    eta0: float = 1.0,
) -> Statement:
    """What the paper says about a method on this oracle: NSGDM with f's own constants, NSTORM with the oracle's.

    method: "nsgdm" or "nstorm".
    alpha: as in `problem_of`.
    gamma0: γ0 of the schedule. If not given, the one with the smallest leading coefficient; `tune(T)` then improves it
        for one horizon.
    eta0: η0 in (0, 1] of the schedule, if it has one.

    If the noise is smallest at another point than x⁰, its constants are moved to x⁰. They stay valid and become larger;
    `cost_of_moving(oracle.bg0, oracle.objective.start)` says by how much.

    >>> import gladstorm as gs
    >>> oracle = gs.BlumGladyshev(gs.objectives.named("quadratic", dim=2, start=1.0), B=0.5, G=0.5)
    >>> for_oracle(oracle, "nstorm").rate
    Fraction(1, 4)
    """
    problem, noise = problem_of(oracle, alpha=alpha), _noise(oracle)
    kind = regime(method, problem)
    if kind.corrects_drift and not noise.affine:
        name = type(oracle).__name__
        raise ValueError(
            f"for_oracle: {method} needs an oracle whose noise changes by at most B‖y − x‖ from x to y; got {name}."
        )
    # How one sample's noise differs at two points does not depend on where it is smallest: the oracle's own B says it.
    read = kind.reads(replace(problem, B=noise.B))
    return theorem(method, replace(read, B=problem.B), gamma0=gamma0, eta0=eta0)


def _noise(oracle: Oracle) -> Bg0:
    """BG-0 of an oracle that the theorems speak about."""
    name = type(oracle).__name__
    if oracle.outside is not None:
        raise ValueError(f"for_oracle: the theorems say nothing about {name}: {oracle.outside}.")
    if oracle.bg0 is None:
        raise ValueError(f"for_oracle: oracle must declare BG-0 constants; got oracle={name} with bg0=None.")
    return oracle.bg0
