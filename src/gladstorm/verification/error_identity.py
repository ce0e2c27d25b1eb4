"""E‖v^k − ∇f(x^k)‖² against its exact value, where there is one.

Bounds are loose, some by a factor of 10⁸, and let broken methods pass; an identity does not. On the wrapper the error
of NSTORM is a martingale whatever f is, since the noise of a difference is B ρ (x⁺ − x). That of NSGDM is one where the
gradient never moves, on a tilted plane: there nothing but noise is left in the error, and x never stops leaving x⁰.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gladstorm.record import Record
from gladstorm.theory import Schedule, for_schedule
from gladstorm.verification.checks import Check, Equals, mean_of
from gladstorm.verification.instances import NOISE
from gladstorm.verification.one_of import ON_A_PLANE, OneOf, Tilted
from gladstorm.verification.runs import FULLY_RECORDED, Case, Settings


def of_storm(case: Case, settings: Settings) -> Iterator[Check]:
    """v⁰ at the longest horizon, where N_init is largest, and v^k at the shortest, of which every step is recorded."""
    if case.method != "nstorm" or case.noise == "deterministic":
        return
    statement, oracle = case.statement, case.instance.oracle(case.method, case.noise, settings.wrapper)
    longest = max(settings.horizons)
    known = statement.problem.G**2 / statement.schedule(longest).n_init
    begun = settings.simulated(oracle, settings.method(statement, longest), 1, blocks=settings.blocks)
    first = mean_of(begun.error[0, :, 0] ** 2 / known)
    yield Check(case.regime, case.instance.name, "initial error identity", longest, first, Equals(1.0))
    T = FULLY_RECORDED
    record = settings.simulated(oracle, settings.method(statement, T), T, blocks=settings.blocks)
    noise = case.instance.noise_of(case.noise)
    yield from _second_moments(case.regime, case.instance.name, record, statement.schedule(T), noise, storm=True)


def of_momentum(noise: str, settings: Settings) -> Iterator[Check]:
    """v^k of NSGDM on a tilted plane, with the schedule of smooth f."""
    B, G = NOISE[noise]
    T, statement = FULLY_RECORDED, for_schedule("nsgdm", alpha=0, gamma0=1.0, G=G, B=B)
    oracle = settings.wrapper(OneOf.chosen(Tilted, ON_A_PLANE, np.zeros(2)), B, G)
    record = settings.simulated(oracle, settings.method(statement, T), T, blocks=settings.blocks)
    regime = f"nsgdm/smooth/{noise}"
    yield from _second_moments(regime, "tilted plane, d = 2", record, statement.schedule(T), (B, G), storm=False)


def _second_moments(
    regime: str, instance: str, record: Record, schedule: Schedule, noise: tuple[float, float], *, storm: bool
) -> Iterator[Check]:
    """E‖v^k − ∇f(x^k)‖² − ⟨v − ∇f⟩_k = 0, in units of the mean of ⟨v − ∇f⟩_k, the sum of conditional variances."""
    error2, known = record.error[0] ** 2, conditional_variance(record.drift2[0], schedule, *noise, storm=storm)
    last = error2.shape[1] - 1
    for k in (last // 4, last):
        excess = mean_of((error2[:, k] - known[:, k]) / known[:, k].mean())
        yield Check(regime, instance, f"error identity, k = {k}", last + 1, excess, Equals(0.0))


def conditional_variance(drift2: np.ndarray, schedule: Schedule, B: float, G: float, *, storm: bool) -> np.ndarray:
    """⟨v − ∇f⟩_k = (1 − η)²⟨v − ∇f⟩_{k−1} + Var_k from ‖x^k − x⁰‖² at every k, (seed, k), and G²/N_init at the start.

    One update adds η ζ, ζ = B ρ (x⁺ − x⁰) + G u, and with STORM also (1 − η) B ρ (x⁺ − x); ‖x⁺ − x‖ = γ.
    """
    eta, gamma, n_init, _ = schedule
    after, before = drift2[:, 1:], drift2[:, :-1]
    # ‖(x⁺ − x⁰) − (1 − η)(x − x⁰)‖² by the law of cosines
    with_difference = after + (1 - eta) ** 2 * before - (1 - eta) * (after + before - gamma**2)
    added = B**2 * (with_difference if storm else eta**2 * after) + eta**2 * G**2
    known = np.empty_like(drift2)
    known[:, 0] = G**2 / n_init
    for k in range(added.shape[1]):
        known[:, k + 1] = (1 - eta) ** 2 * known[:, k] + added[:, k]
    return known
