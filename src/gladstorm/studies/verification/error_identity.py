"""E‖v^k − ∇f(x^k)‖² against its exact value, where there is one.

Bounds are loose, some by a factor of 10⁸, and let broken methods pass; an identity does not. On the wrapper the error
of NSTORM is a martingale whatever f is, since the noise of a difference is B ρ (x⁺ − x). That of NSGDM is one where the
gradient never moves, on a tilted plane: there nothing but noise is left in the error, and x never stops leaving x⁰.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gladstorm.foundation.statistics import mean_of
from gladstorm.simulation.record import Record
from gladstorm.studies.verification.cases import Case
from gladstorm.studies.verification.checks import Check, Equals
from gladstorm.studies.verification.instances import NOISE
from gladstorm.studies.verification.one_of import ON_A_PLANE, OneOf, Tilted
from gladstorm.studies.verification.settings import FULLY_RECORDED, VerificationSettings
from gladstorm.theory import Prescription, Statement, for_schedule


def on_the_wrapper(case: Case, settings: VerificationSettings) -> Iterator[Check]:
    """v⁰ at the longest horizon, where N_init is largest, and v^k at the shortest, of which every step is recorded.

    Nothing for a method that does not correct its drift: its error holds the moving gradient too.
    """
    statement = case.statement
    if not statement.corrects_drift or case.noise == "deterministic":
        return
    oracle = case.instance.oracle(case.method, case.noise, settings.wrapper)
    longest = max(settings.horizons)
    known = statement.problem.G**2 / statement.schedule(longest).n_init
    begun = settings.simulate(oracle, settings.method(statement, longest), 1, blocks=settings.blocks)
    first = mean_of(begun.error[0, :, 0] ** 2 / known)
    yield Check(case.regime, case.instance.name, "initial error identity", longest, first, Equals(1.0))
    T = FULLY_RECORDED
    record = settings.simulate(oracle, settings.method(statement, T), T, blocks=settings.blocks)
    yield from _second_moments(statement, case.instance.name, record, case.instance.noise_of(case.noise))


def momentum(noise: str) -> Statement:
    """NSGDM's statement about smooth f, for its schedule."""
    B, G = NOISE[noise]
    return for_schedule("nsgdm", alpha=0, gamma0=1.0, G=G, B=B)


def on_a_plane(noise: str, settings: VerificationSettings) -> Iterator[Check]:
    """v^k of NSGDM on a tilted plane, with the schedule of smooth f."""
    T, statement = FULLY_RECORDED, momentum(noise)
    oracle = settings.wrapper(OneOf.chosen(Tilted, ON_A_PLANE, np.zeros(2)), *NOISE[noise])
    record = settings.simulate(oracle, settings.method(statement, T), T, blocks=settings.blocks)
    yield from _second_moments(statement, "tilted plane, d = 2", record, NOISE[noise])


def _second_moments(statement: Statement, instance: str, record: Record, noise: tuple[float, float]) -> Iterator[Check]:
    """E‖v^k − ∇f(x^k)‖² − ⟨v − ∇f⟩_k = 0, in units of the mean of ⟨v − ∇f⟩_k, the sum of conditional variances."""
    last = record.error.shape[2] - 1
    schedule, corrects_drift = statement.schedule(last + 1), statement.corrects_drift
    known = conditional_variance(record.drift2[0], schedule, *noise, corrects_drift=corrects_drift)
    for k in (last // 4, last):
        excess = mean_of((record.error[0, :, k] ** 2 - known[:, k]) / known[:, k].mean())
        yield Check(statement.regime, instance, f"error identity, k = {k}", last + 1, excess, Equals(0.0))


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
