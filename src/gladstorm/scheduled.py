"""The paper's methods with the schedules its theorems prescribe, as named methods."""

from __future__ import annotations

import numpy as np

from gladstorm.methods import Method, declared, nsgdm, nstorm
from gladstorm.parts import Number
from gladstorm.theory import for_schedule


@declared(
    source="this paper, Theorem 1",
    sfo="K + 1",
    complexity="O(ε^-6)",
    assumptions="BG-0, any smoothness class of the paper",
)
def nsgdm_by_theory(gamma0: Number, horizon: int, B: float, G: float) -> Method:
    """NSGDM as scheduled for T = `horizon` iterates under the given noise: the same for every class of smoothness.

    >>> nsgdm_by_theory(10, 10_001, B=0.5, G=1).step.gamma.round(6).item()
    0.004641
    """
    schedule = for_schedule("nsgdm", alpha=0, gamma0=1.0, B=float(B), G=float(G)).schedule(int(horizon))
    return nsgdm(np.multiply(gamma0, schedule.gamma), schedule.eta)


@declared(
    source="this paper, Theorem 2",
    sfo="n_init + 2K",
    complexity="O(ε^-(4+α))",
    assumptions="BG-0, mean-square smooth of exponent α",
)
def nstorm_by_theory(gamma0: Number, horizon: int, B: float, G: float, *, alpha: float = 0.0) -> Method:
    """NSTORM as scheduled for T = `horizon` iterates under the given noise; α = 0 is mean-square smoothness.

    >>> nstorm_by_theory(7.5, 10_001, B=0.5, G=1, alpha=2 / 3).batch.n_init
    4
    """
    schedule = for_schedule("nstorm", alpha=float(alpha), gamma0=1.0, B=float(B), G=float(G)).schedule(int(horizon))
    return nstorm(np.multiply(gamma0, schedule.gamma), schedule.eta, n_init=schedule.n_init)
