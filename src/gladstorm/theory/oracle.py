"""From an oracle of the lab to the theorem about it, without arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gladstorm.theory.conversion import weaken, wrapped
from gladstorm.theory.planning import theorem
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import Statement

if TYPE_CHECKING:
    from gladstorm.oracles import BlumGladyshev


def problem_of(oracle: BlumGladyshev, *, alpha: float | None = None) -> Problem:
    """The setting of an oracle, with f's own constants: what NSGDM's theorems read.

    `alpha` asks for a weaker class than the objective declares (see `weaken`).
    """
    import jax

    objective = oracle.objective
    constants = objective.constants
    if constants is None:
        name = type(objective).__name__
        raise ValueError(f"for_oracle: objective must declare its constants; got objective={name} with constants=None.")
    if alpha is not None:
        constants = weaken(constants, alpha)
    with jax.enable_x64(True):
        start = float(objective.value(objective.start))
    return Problem(
        alpha=constants.alpha,
        L0=constants.L0,
        L1=constants.L1,
        B=float(oracle.B),
        G=float(oracle.G),
        gap=start - constants.f_inf,
    )


def for_oracle(
    oracle: BlumGladyshev,
    method: str,
    *,
    alpha: float | None = None,
    gamma0: float | None = None,
    eta0: float = 1.0,
) -> Statement:
    """What the paper says about a method on this oracle: NSGDM with f's own constants, NSTORM with the wrapper's.

    Without `gamma0` the leading coefficient's minimiser is taken; `tune(T)` improves on it for one horizon.

    >>> import gladstorm as gs
    >>> oracle = gs.BlumGladyshev(gs.objectives.named("quadratic", dim=2, start=1.0), B=0.5, G=0.5)
    >>> for_oracle(oracle, "nstorm").rate
    Fraction(1, 4)
    """
    problem = problem_of(oracle, alpha=alpha)
    return theorem(method, wrapped(problem) if method == "nstorm" else problem, gamma0=gamma0, eta0=eta0)
