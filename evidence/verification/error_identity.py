"""E‖v^k − ∇f(x^k)‖² against its exact value, where there is one.

Bounds are loose, some by a factor of 10⁸, and let broken methods pass; an identity does not. On the wrapper the error
of NSTORM is a martingale whatever f is, since the noise of a difference is B ρ (x⁺ − x). That of NSGDM is one where the
gradient never moves: see `on_a_plane`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evidence.verification.cases import Case
from evidence.verification.checks import Check, Equals
from evidence.verification.settings import FULLY_RECORDED, VerificationSettings
from gladstorm.core.statistics import mean_of
from gladstorm.simulation.record import Record
from gladstorm.theory import Prescription, Statement


def checks(case: Case, settings: VerificationSettings) -> Iterator[Check]:
    """The mean over all k of the excess, at the shortest horizon, of which every step is recorded.

    Only under BG-0 noise: where B = 0 the error does not depend on where x goes, and a plane shows as much. Nothing for
    a method that does not correct its drift: its error holds the moving gradient too.
    """
    statement = case.statement
    if not (case.instance.wrapped and statement.corrects_drift and case.noise == "bg0"):
        return
    oracle, T = case.instance.oracle(case.method, case.noise, settings.wrapper), FULLY_RECORDED
    record = settings.simulate(oracle, settings.method(statement, T), T, blocks=settings.blocks)
    mean = excess(statement, record, *case.instance.noise_of(case.noise)).mean(axis=1)
    yield Check(case.regime, case.instance.name, "error identity, mean over k", T, mean_of(mean), Equals(0.0))


def excess(statement: Statement, record: Record, B: float, G: float) -> np.ndarray:
    """‖v^k − ∇f(x^k)‖² less the sum of its conditional variances, in units of their mean, (seed, k): 0 on average."""
    schedule = statement.schedule(record.error.shape[2])
    known = conditional_variance(record.drift2[0], schedule, B, G, corrects_drift=statement.corrects_drift)
    return np.asarray((record.error[0] ** 2 - known) / known.mean(axis=0))


def conditional_variance(
    drift2: np.ndarray, schedule: Prescription, B: float, G: float, *, corrects_drift: bool
) -> np.ndarray:
    """⟨v − ∇f⟩_k = (1 − η)²⟨v − ∇f⟩_{k−1} + Var_k from ‖x^k − x⁰‖² at every k, (seed, k), and G²/N_init at the start.

    One update adds η ζ, ζ = B ρ (x⁺ − x⁰) + G u, and (1 − η) B ρ (x⁺ − x) if v corrects its drift; ‖x⁺ − x‖ = γ.
    """
    eta, gamma, n_init, _ = schedule
    after, before = drift2[:, 1:], drift2[:, :-1]
    # ‖(x⁺ − x⁰) − (1 − η)(x − x⁰)‖² by the law of cosines
    with_difference = after + (1 - eta) ** 2 * before - (1 - eta) * (after + before - gamma**2)
    added = B**2 * (with_difference if corrects_drift else eta**2 * after) + eta**2 * G**2
    known = np.empty_like(drift2)
    known[:, 0] = G**2 / n_init
    for k in range(added.shape[1]):
        known[:, k + 1] = (1 - eta) ** 2 * known[:, k] + added[:, k]
    return known
