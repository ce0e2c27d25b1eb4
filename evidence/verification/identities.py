"""Checks of what is known exactly: γ, N_init and η of every regime, each read off a run on a tilted plane.

The gradient of a plane never moves, so a run shows its schedule and nothing else. Without noise it goes straight and
travels γ (T − 1). With noise the error of either estimator is a martingale, whose second moment follows from η and
N_init. In `DIM` dimensions that moment scatters little from seed to seed, and a tenth more of η is seen.
Every regime has seeds of its own: schedules that agree still give different numbers.

Bounds are loose, some by a factor of 10⁸, and let broken methods pass; an identity does not. On the wrapper the error
of NSTORM is a martingale whatever f is, since the noise of a difference is B ρ (x⁺ − x). That of NSGDM is one where the
gradient never moves, as on the plane.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from evidence.verification.cases import Case
from evidence.verification.checks import Check, Equals, Parts, checked, on_every_path
from evidence.verification.instances import ON_A_PLANE, OneOf, Tilted
from evidence.verification.settings import FULLY_RECORDED, VerificationSettings
from gladstorm.core.statistics import mean_of
from gladstorm.simulation.record import Record
from gladstorm.theory import REGIMES, Prescription, Statement, for_schedule

DIM: Final = 100
NOISE: Final = {"bg0": (0.1, 1.0), "bounded": (0.0, 1.0), "deterministic": (0.0, 0.0)}  # B, G
ALPHAS: Final = {"smooth": 0.0, "sublinear": 0.5, "linear": 1.0}
STRAIGHT: Final = "tilted plane, d = 2, no noise"
NOISY: Final = f"tilted plane, d = {DIM}"

MEANING: Final = {
    "travel": "A run without noise on a tilted plane travels exactly γ0 T^rate (1 − 1/T). A γ with a wrong factor or a "
    "wrong exponent fails.",
    "error identity": "E‖v^k − ∇f(x^k)‖² equals the expected sum of its conditional variances; what is shown is the "
    "relative difference, exactly 0. This holds where the gradient is constant (a plane in 100 dimensions, every noisy "
    "regime), and for NSTORM under the paper's added noise on every function. A wrong η fails. The interval must "
    "contain 0; the test can refute an identity, it cannot prove one.",
    "initial error identity": "E‖v⁰ − ∇f(x⁰)‖² divided by G²/N_init is exactly 1.",
}


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Every regime on its plane."""
    names = {case.regime for case in selected}
    for regime, statement in statements().items():
        if regime in names:
            yield f"plane/{regime}", partial(checked, checks, statement, settings)


def statements() -> dict[str, Statement]:
    """One for each regime, for its schedule."""
    every = (
        for_schedule(method, alpha=ALPHAS[smoothness], gamma0=1.0, B=NOISE[noise][0], G=NOISE[noise][1])
        for method, smoothness, noise in REGIMES
    )
    return {statement.regime: statement for statement in every}


def checks(statement: Statement, settings: VerificationSettings) -> Iterator[Check]:
    """How far a run gets; and, if the regime is noisy, the error of v⁰ and that of v^k."""
    apart = settings.apart(sorted(REGIMES).index((statement.method, statement.smoothness, statement.noise)) + 1)
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
    exact = G**2 / statement.schedule(longest).n_init
    begun = settings.simulate(oracle, settings.method(statement, longest), 1, blocks=settings.blocks)
    first = mean_of(begun.error[0, :, 0] ** 2 / exact)
    yield Check(statement.regime, NOISY, "initial error identity", longest, first, Equals(1.0))
    T = FULLY_RECORDED
    record = settings.simulate(oracle, settings.method(statement, T), T, blocks=settings.blocks)
    k = min(T - 1, round(1 / statement.schedule(T).eta))  # when v⁰ is forgotten by half: there most depends on η
    late = excess(statement, record, B, G)[:, k]
    yield Check(statement.regime, NOISY, f"error identity, k = {k}", T, mean_of(late), Equals(0.0))


def of_case(case: Case, settings: VerificationSettings) -> Iterator[Check]:
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
    exact = conditional_variance(record.drift2[0], schedule, B, G, corrects_drift=statement.corrects_drift)
    return np.asarray((record.error[0] ** 2 - exact) / exact.mean(axis=0))


def conditional_variance(
    drift2: np.ndarray, schedule: Prescription, B: float, G: float, *, corrects_drift: bool, growth: float = 2.0
) -> np.ndarray:
    """⟨v − ∇f⟩_k = (1 − η)²⟨v − ∇f⟩_{k−1} + Var_k from ‖x^k − x⁰‖² at every k, (seed, k), and G²/N_init at the start.

    One update adds η ζ, ζ = B ρ (x⁺ − x⁰) + G u, and (1 − η) B ρ (x⁺ − x) if v corrects its drift; ‖x⁺ − x‖ = γ. With
    another growth a of the noise, x − x⁰ is stretched to the length ‖x − x⁰‖^(a/2).
    """
    eta, gamma, n_init, _ = schedule
    after, before = drift2[:, 1:], drift2[:, :-1]
    # ‖(x⁺ − x⁰) − (1 − η)(x − x⁰)‖² by the law of cosines; noise at x⁰ has no direction
    h = growth / 2
    far, near = after**h, np.where(before > 0, before, 0.0) ** h * (before > 0)
    stretched = np.where(before > 0, after * before, 1.0) ** ((h - 1) / 2)
    with_difference = far + (1 - eta) ** 2 * near - (1 - eta) * (after + before - gamma**2) * stretched
    added = B**2 * (with_difference if corrects_drift else eta**2 * far) + eta**2 * G**2
    exact = np.empty_like(drift2)
    exact[:, 0] = G**2 / n_init
    for k in range(added.shape[1]):
        exact[:, k + 1] = (1 - eta) ** 2 * exact[:, k] + added[:, k]
    return exact
