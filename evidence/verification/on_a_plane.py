"""γ, N_init and η of every regime, each read off a run on a tilted plane, where the outcome is known exactly.

The gradient of a plane never moves, so a run shows its schedule and nothing else. Without noise it goes straight and
travels γ (T − 1). With noise the error of either estimator is a martingale, whose second moment follows from η and
N_init. In `DIM` dimensions that moment scatters little from seed to seed, and a tenth more of η is seen.
Every regime has seeds of its own: schedules that agree still give different numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from evidence.verification.checks import Check, Equals, on_every_path
from evidence.verification.error_identity import excess
from evidence.verification.one_of import ON_A_PLANE, OneOf, Tilted
from evidence.verification.settings import FULLY_RECORDED, VerificationSettings
from gladstorm.core.statistics import mean_of
from gladstorm.theory import REGIMES, Statement, for_schedule

DIM: Final = 100
NOISE: Final = {"bg0": (0.1, 1.0), "bounded": (0.0, 1.0), "deterministic": (0.0, 0.0)}  # B, G
ALPHAS: Final = {"smooth": 0.0, "sublinear": 0.5, "linear": 1.0}
STRAIGHT: Final = "tilted plane, d = 2, no noise"
NOISY: Final = f"tilted plane, d = {DIM}"


def statements() -> dict[str, Statement]:
    """One for each regime, for its schedule."""
    every = (
        for_schedule(method, alpha=ALPHAS[smoothness], gamma0=1.0, B=NOISE[noise][0], G=NOISE[noise][1])
        for method, smoothness, noise in REGIMES
    )
    return {statement.regime: statement for statement in every}


def checks(statement: Statement, settings: VerificationSettings) -> Iterator[Check]:
    """How far a run gets; and, if the regime is noisy, the error of v⁰ and that of v^k."""
    apart = settings.apart(list(REGIMES).index((statement.method, statement.smoothness, statement.noise)) + 1)
    yield _travel(statement, apart)
    if statement.noise != "deterministic":
        yield from _errors(statement, apart)


def _travel(statement: Statement, settings: VerificationSettings) -> Check:
    """‖x^{T−1} − x⁰‖ without noise: the schedules are such that γT = γ0 T^rate."""
    T = max(settings.horizons)
    oracle = settings.wrapper(OneOf.chosen(Tilted, ON_A_PLANE, np.zeros(2)), 0.0, 0.0)
    record = settings.simulate(oracle, settings.method(statement, T), T)
    reached = on_every_path(np.sqrt(record.drift2[0, :, -1]))
    scheduled = statement.gamma0 * T ** float(statement.rate) * (1 - 1 / T)
    return Check(statement.regime, STRAIGHT, "travel", T, reached, Equals(scheduled))


def _errors(statement: Statement, settings: VerificationSettings) -> Iterator[Check]:
    """v⁰ at the longest horizon, where N_init is largest, and v^k at the shortest, of which every step is recorded."""
    B, G = NOISE[statement.noise]
    oracle = settings.wrapper(Tilted(np.zeros(DIM)), B, G)
    longest = max(settings.horizons)
    known = G**2 / statement.schedule(longest).n_init
    begun = settings.simulate(oracle, settings.method(statement, longest), 1, blocks=settings.blocks)
    first = mean_of(begun.error[0, :, 0] ** 2 / known)
    yield Check(statement.regime, NOISY, "initial error identity", longest, first, Equals(1.0))
    T = FULLY_RECORDED
    record = settings.simulate(oracle, settings.method(statement, T), T, blocks=settings.blocks)
    k = min(T - 1, round(1 / statement.schedule(T).eta))  # when v⁰ is forgotten by half: there most depends on η
    late = excess(statement, record, B, G)[:, k]
    yield Check(statement.regime, NOISY, f"error identity, k = {k}", T, mean_of(late), Equals(0.0))
