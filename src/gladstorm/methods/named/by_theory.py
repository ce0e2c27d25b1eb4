"""Methods with the numbers a theorem prescribes: the one place where a statement becomes a method."""

from __future__ import annotations

from typing import Any

import numpy as np

from gladstorm.core.parts import Numbers
from gladstorm.core.references import THIS_PAPER
from gladstorm.methods.declaration import declared
from gladstorm.methods.method import Method
from gladstorm.methods.named.paper import nsgdm, nstorm
from gladstorm.theory import Plan, for_schedule

_MAKERS = {"nsgdm": nsgdm, "nstorm": nstorm}  # of the methods that theorems are about


def from_plan(plan: Plan, **instead: Any) -> Method:
    """Make the method that a plan is about, with the numbers of its schedule; `instead` replaces some of them.

    A horizon of T iterates is `steps=T - 1` of `run`.

    >>> from gladstorm import theory
    >>> plan = theory.plan("nstorm", horizon=100, alpha=0, L=1.0, B=0.1, G=0.5, gap=1.0, gamma0=0.5)
    >>> from_plan(plan, gamma=0.01).step
    Normalized(gamma=0.01)
    """
    statement = plan.statement
    return _MAKERS[statement.method](**{**statement.settings(plan.horizon), **instead})


@declared(
    source=f"{THIS_PAPER}, Theorem 1",
    sfo="K + 1",
    complexity="O(ε^-6)",
    assumptions="BG-0, any smoothness class of the paper",
)
def nsgdm_by_theory(gamma0: Numbers, horizon: int, B: float, G: float) -> Method:
    """NSGDM with γ and η as its theorem sets them for T = `horizon` iterates and noise (B, G), for any smoothness.

    >>> nsgdm_by_theory(10, 10_001, B=0.5, G=1).step.gamma.round(6).item()
    0.004641
    """
    return _of_gamma0(Plan(for_schedule("nsgdm", alpha=0, gamma0=1.0, B=float(B), G=float(G)), int(horizon)), gamma0)


@declared(
    source=f"{THIS_PAPER}, Theorem 2",
    sfo="n_init + 2K",
    complexity="O(ε^-(4+α))",
    assumptions="BG-0, mean-square smooth of exponent α",
)
def nstorm_by_theory(gamma0: Numbers, horizon: int, B: float, G: float, *, alpha: float = 0.0) -> Method:
    """NSTORM with γ, η and n_init as its theorem sets them for T = `horizon` iterates, noise (B, G) and α.

    α = 0 stands for mean-square smoothness.

    >>> nstorm_by_theory(7.5, 10_001, B=0.5, G=1, alpha=2 / 3).batch.n_init
    4
    """
    statement = for_schedule("nstorm", alpha=float(alpha), gamma0=1.0, B=float(B), G=float(G))
    return _of_gamma0(Plan(statement, int(horizon)), gamma0)


def _of_gamma0(unit: Plan, gamma0: Numbers) -> Method:
    """The method of a plan with γ0 = 1 at other values of γ0, of which there may be many."""
    return from_plan(unit, gamma=np.multiply(gamma0, unit.statement.schedule(unit.horizon).gamma))
