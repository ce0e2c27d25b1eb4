"""The theory against numbers computed elsewhere: in 60-digit decimal arithmetic, in the audit, and in the paper."""

from __future__ import annotations

import dataclasses
import math

import pytest

from gladstorm.core.references import UPADHYAY_2026
from gladstorm.theory import REGIMES, Problem, Statement, master, sharper, theorem
from gladstorm.theory.class_constants import expected, symmetric
from gladstorm.theory.master_bounds import of_run
from gladstorm.theory.sharper_bounds import SECOND_OPINIONS, MomentumLongStep, StormOnWrapper

GAP, L0, L1, L, GAMMA0, ETA0, T = 3.0, 1.5, 0.25, 2.0, 0.09, 0.8, 10_000
ALPHA = {"smooth": 0.0, "sublinear": 0.5, "linear": 1.0}
NOISE = {"bg0": (0.4, 0.7), "bounded": (0.0, 0.7), "deterministic": (0.0, 0.0)}

# The bound as printed and the corrected one, from the corollaries typed a second time and summed with 60 digits.
BOUNDS = {
    ("nsgdm", "smooth", "bg0"): (15.1038220539418, 15.1038220539418),
    ("nsgdm", "smooth", "bounded"): (6.93893666666667, 7.19093666666667),
    ("nsgdm", "smooth", "deterministic"): (0.669366666666667, 0.334008333333333),
    ("nsgdm", "sublinear", "bg0"): (14.9834651114142, 14.9834651114142),
    ("nsgdm", "sublinear", "bounded"): (6.88311579658517, 7.13511579658517),
    ("nsgdm", "sublinear", "deterministic"): (0.446617420570859, 0.446617420570859),
    ("nsgdm", "linear", "bg0"): (16.0585437815364, 16.0585437815364),
    ("nsgdm", "linear", "bounded"): (7.37975821466667, 7.63992301466667),
    ("nsgdm", "linear", "deterministic"): (1.33873333333333, 0.669366666666667),
    ("nstorm", "smooth", "bg0"): (3.59062333333333, 3.59062333333333),
    ("nstorm", "smooth", "bounded"): (1.70542190193241, 1.70542190193241),
    ("nstorm", "smooth", "deterministic"): (0.334233333333333, 0.334233333333333),
    ("nstorm", "sublinear", "bg0"): (19.3336232585184, 19.3336232585184),
    ("nstorm", "sublinear", "bounded"): (7.32239147334859, 7.32239147334859),
    ("nstorm", "sublinear", "deterministic"): (0.677583749215219, 0.677583749215219),
    ("nstorm", "linear", "bg0"): (22.2794633899079, 22.2794633899079),
    ("nstorm", "linear", "bounded"): (6.89044637496863, 6.89044637496863),
    ("nstorm", "linear", "deterministic"): (0.670485043285074, 0.670485043285074),
}
# η, γ, λ as the audit prints them, N_init and stochastic gradients.
SCHEDULES = {
    ("nsgdm", "smooth", "bg0"): ("2.154435e-03", "4.177430e-05", None, 1, 10_000),
    ("nsgdm", "smooth", "bounded"): ("1.000000e-02", "9.000000e-05", None, 1, 10_000),
    ("nsgdm", "smooth", "deterministic"): ("1.000000e+00", "9.000000e-04", None, 1, 10_000),
    ("nsgdm", "sublinear", "bg0"): ("2.154435e-03", "4.177430e-05", None, 1, 10_000),
    ("nsgdm", "sublinear", "bounded"): ("1.000000e-02", "9.000000e-05", None, 1, 10_000),
    ("nsgdm", "sublinear", "deterministic"): ("1.000000e+00", "9.000000e-04", None, 1, 10_000),
    ("nsgdm", "linear", "bg0"): ("2.154435e-03", "4.177430e-05", None, 1, 10_000),
    ("nsgdm", "linear", "bounded"): ("1.000000e-02", "9.000000e-05", None, 1, 10_000),
    ("nsgdm", "linear", "deterministic"): ("1.000000e+00", "9.000000e-04", None, 1, 10_000),
    ("nstorm", "smooth", "bg0"): ("1.000000e-04", "9.000000e-05", None, 49, 20_047),
    ("nstorm", "smooth", "bounded"): ("1.723548e-03", "1.938991e-04", None, 1, 19_999),
    ("nstorm", "smooth", "deterministic"): ("1.000000e+00", "9.000000e-04", None, 1, 10_000),
    ("nstorm", "sublinear", "bg0"): ("2.226048e-04", "6.968373e-05", "1.678903e-01", 4, 20_002),
    ("nstorm", "sublinear", "bounded"): ("1.723548e-03", "1.938991e-04", "4.671647e-01", 1, 19_999),
    ("nstorm", "sublinear", "deterministic"): ("1.000000e+00", "9.000000e-04", "4.671647e+00", 1, 10_000),
    ("nstorm", "linear", "bg0"): ("6.309573e-04", "5.678616e-05", None, 1, 19_999),
    ("nstorm", "linear", "bounded"): ("1.723548e-03", "1.938991e-04", None, 1, 19_999),
    ("nstorm", "linear", "deterministic"): ("1.000000e+00", "9.000000e-04", None, 1, 10_000),
}
# The sharper bounds for the same runs, and those of the wrapper with the mean-square schedule.
SHARPER = {
    ("nsgdm", "smooth", "bg0"): 7.35596781169560,
    ("nsgdm", "smooth", "bounded"): 3.47337420203450,
    ("nsgdm", "smooth", "deterministic"): 0.334008333333333,
    ("nsgdm", "sublinear", "bg0"): 10.0539574911875,
    ("nsgdm", "sublinear", "bounded"): 4.77105703549660,
    ("nsgdm", "linear", "bg0"): 7.4278656402075,
    ("nsgdm", "linear", "bounded"): 3.48895771298213,
    ("nsgdm", "linear", "deterministic"): 0.334046073865223,
    ("nstorm", "smooth", "bg0"): 3.49775248594736,
    ("nstorm", "smooth", "bounded"): 1.68294996785548,
    ("nstorm", "sublinear", "bg0"): 18.7626560803430,
    ("nstorm", "sublinear", "bounded"): 6.90542343502678,
    ("nstorm", "linear", "bg0"): 5.79989981531534,
    ("nstorm", "linear", "bounded"): 1.78100073850056,
    ("nstorm", "linear", "deterministic"): 0.334046073865223,
}
ON_WRAPPER = {"smooth": 3.56180083333333, "sublinear": 4.74919505883759, "linear": 7.12373666666667}
RATES = {
    ("nsgdm", "bg0"): ("1/6", "1/6", "1/6"),
    ("nsgdm", "bounded"): ("1/4", "1/4", "1/4"),
    ("nsgdm", "deterministic"): ("1/2", "1/2", "1/2"),
    ("nstorm", "bg0"): ("1/4", "2/9", "1/5"),
    ("nstorm", "bounded"): ("1/3", "1/3", "1/3"),
    ("nstorm", "deterministic"): ("1/2", "1/2", "1/2"),
}


def golden(method: str, smoothness: str, noise: str) -> Statement:
    B, G = NOISE[noise]
    problem = Problem(alpha=ALPHA[smoothness], L0=L0, L1=L1, L=L, B=B, G=G, gap=GAP)
    regime = REGIMES[method, smoothness, noise]
    return theorem(method, problem, gamma0=GAMMA0, eta0=ETA0 if regime.has_eta0 else 1.0)


def test_the_paper_states_two_by_three_by_three_regimes_and_every_regime_has_golden_values() -> None:
    papers = {setting for setting, regime in REGIMES.items() if regime.work is UPADHYAY_2026}
    assert papers == {(m, s, n) for m in ("nsgdm", "nstorm") for s in ALPHA for n in NOISE}
    assert set(BOUNDS) == set(SCHEDULES) == set(REGIMES)


@pytest.mark.parametrize("setting", BOUNDS)
def test_both_bounds_have_their_golden_values(setting: tuple[str, str, str]) -> None:
    statement = golden(*setting)
    printed, corrected = BOUNDS[setting]
    assert statement.bound(T) == pytest.approx(corrected, rel=1e-13)
    assert statement.bound_as_printed(T) == pytest.approx(printed, rel=1e-13)


@pytest.mark.parametrize("setting", SCHEDULES)
def test_schedules_have_their_golden_values(setting: tuple[str, str, str]) -> None:
    statement = golden(*setting)
    eta, gamma, n_init, young_weight = statement.schedule(T)
    shown = (f"{eta:.6e}", f"{gamma:.6e}", None if young_weight is None else f"{young_weight:.6e}")
    assert (*shown, n_init, statement.sfo(T)) == SCHEDULES[setting]


@pytest.mark.parametrize("setting", BOUNDS)
def test_the_second_opinions_have_their_golden_values(setting: tuple[str, str, str]) -> None:
    kind = SECOND_OPINIONS.get(setting)
    assert (kind is None) == (setting not in SHARPER)
    if kind is not None:
        statement = golden(*setting)
        assert of_run(kind, statement.problem, statement, T).bound == pytest.approx(SHARPER[setting], rel=1e-13)


@pytest.mark.parametrize("smoothness", ON_WRAPPER)
def test_the_bounds_on_the_wrapper_have_their_golden_values(smoothness: str) -> None:
    statement = golden("nstorm", "smooth", "bg0")
    problem = Problem(alpha=ALPHA[smoothness], L0=L0, L1=L1, B=0.4, G=0.7, gap=GAP)
    assert of_run(StormOnWrapper, problem, statement, T).bound == pytest.approx(ON_WRAPPER[smoothness], rel=1e-13)


@pytest.mark.parametrize("setting", RATES)
def test_rates_are_those_of_the_paper_as_fractions(setting: tuple[str, str]) -> None:
    method, noise = setting
    assert tuple(str(golden(method, smoothness, noise).rate) for smoothness in ALPHA) == RATES[setting]


@pytest.mark.parametrize("setting", BOUNDS)
def test_a_bound_differs_from_the_printed_one_exactly_where_an_erratum_is_named(setting: tuple[str, str, str]) -> None:
    printed, corrected = BOUNDS[setting]
    assert bool(REGIMES[setting].errata) == (printed != corrected)


def test_class_constants_have_their_golden_values() -> None:
    k = dataclasses.astuple(symmetric(L0, L1, 0.5))
    wanted = (3.621320343559643, 0.6123724356957945, 0.07654655446197432, 0.1702965544619743, 4.447866898021617)
    assert k == pytest.approx(wanted, rel=1e-14)
    assert dataclasses.astuple(expected(L0, L1, 0.5)) == pytest.approx(
        (12, 2, 1.5625, 2.378414230005442, 0.25), rel=1e-14
    )


@pytest.mark.parametrize(
    ("method", "alpha", "G", "gamma0", "eta0", "gamma", "eta", "n_init"),
    [
        ("nsgdm", 2 / 3, 1.0, 10, 1.0, "4.641e-03", "2.154e-03", 1),
        ("nstorm", 2 / 3, 1.0, 7.5, 1.0, "5.397e-03", "3.727e-04", 4),
        ("nsgdm", 1 / 2, 0.5, 1, 1.0, "4.641e-04", "2.154e-03", 1),
        ("nstorm", 1 / 2, 0.5, 1, 1.0, "7.742e-04", "2.782e-04", 2),
    ],
    ids=["phase retrieval, NSGDM", "phase retrieval, NSTORM", "cubic, NSGDM", "cubic, NSTORM"],
)
def test_the_hyper_parameters_of_the_paper_come_out(
    method: str, alpha: float, G: float, gamma0: float, eta0: float, gamma: str, eta: str, n_init: int
) -> None:
    problem = Problem(alpha=alpha, L0=1, L1=1, B=0.5, G=G, gap=1)
    schedule = theorem(method, problem, gamma0=gamma0, eta0=eta0).schedule(10_001)
    assert (f"{schedule.gamma:.3e}", f"{schedule.eta:.3e}", schedule.n_init) == (gamma, eta, n_init)


def test_the_phase_retrieval_run_of_the_paper_is_covered_by_bounds_of_this_project_only() -> None:
    problem = Problem(alpha=2 / 3, L0=17, L1=9.5, B=0.5, G=1, gap=1)
    statement = theorem("nsgdm", problem, gamma0=10)
    assert statement.violations()
    run = master(statement, 10_001)
    assert [condition.holds for condition in run.conditions()] == [True, False]
    assert run.gamma / run.eta == pytest.approx(2.154, abs=5e-4)
    long_step = of_run(MomentumLongStep, problem, statement, 10_001)
    assert all(condition.holds for condition in long_step.conditions())
    assert long_step.bound / run.bound == pytest.approx(0.5 / 0.2114, rel=1e-3)
    second = sharper(statement, 10_001)
    assert second is not None
    assert second.source.startswith("S7")  # of α = 1, whose class contains it
    assert second.bound < run.bound / 100
    at_a_million = master(statement, 10**6)
    assert at_a_million.gamma == pytest.approx(at_a_million.eta, rel=1e-12)


@pytest.mark.parametrize(
    ("method", "problem", "gamma0", "leading"),
    [
        ("nsgdm", Problem(alpha=0, L0=1.5, B=0.4, G=0.7, gap=3), math.sqrt(3 / 12.4), 4 * math.sqrt(3 * 12.4)),
        ("nsgdm", Problem(alpha=0, L0=1.5, B=0, G=0.7, gap=3), math.sqrt(3 / 12), None),
        ("nsgdm", Problem(alpha=0.5, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3), None, None),
        ("nsgdm", Problem(alpha=0.5, L0=0, L1=0.01, B=0.4, G=0.7, gap=3), 1.0, None),
        ("nsgdm", Problem(alpha=0, L0=1.5, B=0, G=0, gap=3), math.sqrt(2 * 3 / 1.5), math.sqrt(2 * 3 * 1.5)),
        ("nstorm", Problem(alpha=0, L=2, B=0.4, G=0.7, gap=3), math.sqrt(3 / 4.8), 2 + 2 * math.sqrt(2 * 3 * 2.4)),
        ("nstorm", Problem(alpha=0, L=2, B=0, G=0, gap=3), math.sqrt(2 * 3 / 2), math.sqrt(2 * 3 * 2)),
    ],
)
def test_without_gamma0_the_leading_coefficient_is_minimal(
    method: str, problem: Problem, gamma0: float | None, leading: float | None
) -> None:
    statement = theorem(method, problem)
    if gamma0 is None:
        gamma0 = min(1, math.sqrt(3 / (2 * symmetric(1.5, 0.25, 0.5).drift + 0.4)))
    assert statement.gamma0 == pytest.approx(gamma0, rel=1e-6)
    if leading is not None:
        coefficients = [power.coefficient for power in statement.powers if power.exponent == statement.rate]
        assert sum(coefficients) == pytest.approx(leading, rel=1e-12)


def test_tuning_on_the_cubic_gives_the_bounds_of_the_audit() -> None:
    gap, cubic_L1 = (2 * 0.8**2) ** 1.5, 2 * math.sqrt(3)
    growing = theorem("nstorm", Problem(alpha=0.5, L0=0.5, L1=2 * cubic_L1, B=0.5, G=1, gap=gap), gamma0=1.0)
    assert growing.bound(T) == pytest.approx(9.1e3, rel=2e-3)
    tuned = growing.tune_gamma0(T)
    assert (tuned.gamma0, tuned.bound(T)) == pytest.approx((0.0339, 34.8), rel=2e-3)
    bounded = theorem("nstorm", Problem(alpha=0.5, L0=0, L1=2 * cubic_L1, B=0, G=1, gap=gap), gamma0=1.0).tune_gamma0(T)
    assert (bounded.gamma0, bounded.bound(T)) == pytest.approx((0.0333, 13.3), rel=4e-3)
