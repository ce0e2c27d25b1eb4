"""Laws of the bounds: corollaries against master bounds, terms, conditions at their edges, the second opinion."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gladstorm.theory import (
    REGIMES,
    Problem,
    Statement,
    master,
    sharper,
    theorem,
    travel_lower_bound,
    wrapped,
)
from gladstorm.theory.class_constants import symmetric, young
from gladstorm.theory.master_bounds import (
    MASTERS,
    Bound,
    MomentumLinear,
    MomentumSublinear,
    StormLinear,
    StormSublinear,
    of_run,
)
from gladstorm.theory.sharper_bounds import (
    ExactLinear,
    MomentumFeedback,
    MomentumLongStep,
    MomentumSmooth,
    StormFeedback,
    StormOnWrapper,
    StormSmooth,
)

SETTINGS = sorted(REGIMES)
STOCHASTIC = [setting for setting in SETTINGS if setting[2] != "deterministic"]
WRONG = [("nsgdm", smoothness, "bounded") for smoothness in ("linear", "smooth", "sublinear")]
NOISE = {"bg0": (1.0, 1.0), "bounded": (0.0, 1.0), "deterministic": (0.0, 0.0)}


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


@st.composite
def problems(draw: st.DrawFn, smoothness: str, noise: str) -> Problem:
    growing, noisy = NOISE[noise]
    alpha = {"smooth": 0.0, "linear": 1.0, "sublinear": draw(st.floats(0.05, 0.8))}[smoothness]
    return Problem(
        alpha=alpha,
        L0=draw(numbers(1e-3, 1e3)),
        L1=draw(numbers(1e-3, 10)),
        L=draw(numbers(1e-3, 1e3)),
        B=growing * draw(numbers(1e-3, 1e2)),
        G=noisy * draw(numbers(1e-3, 1e2)),
        gap=draw(numbers(1e-3, 1e3)),
    )


@st.composite
def statements(draw: st.DrawFn, method: str, smoothness: str, noise: str) -> Statement:
    problem = draw(problems(smoothness, noise))
    eta0 = draw(numbers(0.01, 1)) if REGIMES[method, smoothness, noise].has_eta0 else 1.0
    return theorem(method, problem, gamma0=draw(numbers(1e-3, 10)), eta0=min(eta0, 1.0))


horizons = st.one_of(st.integers(1, 100), numbers(1, 1e10).map(int))


@pytest.mark.parametrize("setting", STOCHASTIC)
@settings(max_examples=25)
@given(data=st.data(), T=horizons)
def test_a_bound_is_at_least_its_master_bound_by_substitution(
    setting: tuple[str, str, str], data: st.DataObject, T: int
) -> None:
    statement = data.draw(statements(*setting))
    run = master(statement, T)
    assert statement.bound(T) >= run.bound * (1 - 1e-12)
    if setting not in WRONG:
        assert statement.bound_as_printed(T) >= run.bound * (1 - 1e-12)


@pytest.mark.parametrize("setting", WRONG)
def test_the_printed_bounded_variance_bounds_of_nsgdm_fall_below_their_master_bound(
    setting: tuple[str, str, str],
) -> None:
    alpha = {"smooth": 0.0, "sublinear": 0.5, "linear": 1.0}[setting[1]]
    problem = Problem(alpha=alpha, L0=0.1, L1=0.1, B=0, G=10, gap=1)
    statement = theorem("nsgdm", problem, gamma0=0.5)
    assert statement.bound_as_printed(10**6) < 0.5 * master(statement, 10**6).bound <= 0.5 * statement.bound(10**6)


@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=15)
@given(data=st.data(), T=horizons)
def test_terms_are_powers_that_sum_to_the_bound_and_fall_with_the_horizon(
    setting: tuple[str, str, str], data: st.DataObject, T: int
) -> None:
    statement = data.draw(statements(*setting))
    terms = statement.terms(T)
    assert sum(term.value for term in terms) == pytest.approx(statement.bound(T), rel=1e-12)
    assert all(term.value == pytest.approx(term.coefficient * T ** -float(term.exponent), rel=1e-12) for term in terms)
    assert all(term.exponent >= statement.rate for term in terms)
    assert float(statement.rate) == pytest.approx(1 - statement.gamma_exponent, rel=1e-14)
    assert statement.bound(2 * T) < statement.bound(T)


@settings(max_examples=25)
@given(data=st.data(), noise=st.sampled_from(["bg0", "bounded"]))
def test_the_initial_batch_brings_the_initial_error_to_its_cap(data: st.DataObject, noise: str) -> None:
    smoothness = data.draw(st.sampled_from(["smooth", "sublinear"]))
    statement = data.draw(statements("nstorm", smoothness, noise))
    T = data.draw(horizons)
    n_init = statement.schedule(T).n_init
    if statement.n_init_exponent is None:
        assert n_init == 1
    else:
        cap = float(T) ** (-statement.n_init_exponent / 2)
        assert statement.problem.G / math.sqrt(n_init) <= cap * (1 + 1e-12)
        assert n_init == 1 or statement.problem.G / math.sqrt(n_init - 1) > cap * (1 - 1e-12)


# Conditions. A linear class with L1 = 0.3 binds everywhere; the sublinear NSGDM limit is 1.
LIMITS = {
    ("nsgdm", "sublinear", "bg0"): 1.0,
    ("nsgdm", "sublinear", "bounded"): 1.0,
    ("nsgdm", "sublinear", "deterministic"): 1.0,
    ("nsgdm", "linear", "bg0"): 1 / (8 * 0.3),
    ("nsgdm", "linear", "bounded"): 1 / (8 * 0.3),
    ("nsgdm", "linear", "deterministic"): 1 / (2 * 0.3),
    ("nstorm", "linear", "bg0"): 1 / (16 * math.sqrt(2 * math.exp(0.75)) * 0.3),
    ("nstorm", "linear", "bounded"): 0.7 / (16 * math.sqrt(2 * math.exp(0.75)) * 0.3),
    ("nstorm", "linear", "deterministic"): 1 / (4 * math.sqrt(2) * 0.3),
}


def limited(setting: tuple[str, str, str], gamma0: float) -> Statement:
    method, smoothness, noise = setting
    B, G = NOISE[noise]
    problem = Problem(
        alpha={"smooth": 0, "sublinear": 0.5, "linear": 1}[smoothness], L0=1, L1=0.3, L=1, B=B, G=G, gap=1
    )
    return theorem(method, problem, gamma0=gamma0, eta0=0.7 if REGIMES[setting].has_eta0 else 1.0)


@pytest.mark.parametrize("setting", SETTINGS)
def test_conditions_hold_at_their_edge_and_fail_just_past_it(setting: tuple[str, str, str]) -> None:
    limit = LIMITS.get(setting, math.inf)
    assert limited(setting, 0.01).largest_gamma0() == pytest.approx(limit, rel=1e-15)
    if limit == math.inf:
        assert not limited(setting, 1e3).violations()
        return
    edge = limited(setting, 0.01).largest_gamma0()
    assert all(condition.holds for condition in limited(setting, edge).conditions())
    past = limited(setting, math.nextafter(edge, math.inf))
    assert not all(condition.holds for condition in past.conditions())
    (sentence,) = limited(setting, 1.5 * edge).violations()
    assert "1.5 times too large" in sentence
    assert f"largest admissible gamma0 is {edge!r}" in sentence


@pytest.mark.parametrize("noise", NOISE)
def test_the_analysis_weight_is_admissible_and_cannot_be_larger(noise: str) -> None:
    statement = limited(("nstorm", "sublinear", noise), 0.09)
    assert all(condition.holds for condition in statement.conditions())
    assert any(condition.left == condition.right for condition in statement.conditions())


STORM = 16 * math.sqrt(2 * math.exp(0.75)) * 0.5  # 16 √(2e^(3/4)) L1


@pytest.mark.parametrize(
    ("kind", "alpha", "gamma", "eta", "T", "broken"),
    [
        (MomentumLinear, 1.0, 1.0, 1.0, 1, 0),  # γ L1 = 1/2
        (MomentumLinear, 1.0, 0.25, 1.0, 1, 1),  # 32 L1² γ² = 1/2
        (MomentumLinear, 1.0, 0.0625, 0.25, 4, 1),
        (MomentumSublinear, 0.5, 1.0, 1.0, 100, 0),
        (MomentumSublinear, 0.5, 0.25, 0.25, 100, 1),
        (StormLinear, 1.0, 1 / (4 * math.sqrt(2) * 0.5), 1.0, 100, 0),
        (StormLinear, 1.0, 0.25 / STORM, 0.25, 100, 1),
    ],
)
def test_master_conditions_hold_at_their_edge_and_fail_just_past_it(
    kind: type[Bound], alpha: float, gamma: float, eta: float, T: int, broken: int
) -> None:
    edge = kind(Problem(alpha=alpha, L0=1, L1=0.5, B=1, G=1, gap=1), gamma, eta, 1.0, T)
    past = replace(edge, gamma=gamma * (1 + 1e-12))
    assert edge.conditions()[broken].holds
    assert not past.conditions()[broken].holds


def test_the_master_weight_has_an_edge_and_the_bound_falls_up_to_it() -> None:
    problem = Problem(alpha=0.5, L0=1, L1=0.5, B=1, G=1, gap=1)
    best = StormSublinear(problem, 0.01, 0.5, 1.0, 100)
    assert [condition.holds for condition in best.conditions()] == [True, True]
    largest = best.largest_young_weight
    assert largest == pytest.approx(0.5 / (8 * 2**0.25 * 8 * 0.5 * 0.01), rel=1e-12)
    assert replace(best, young_weight=largest).bound == best.bound < replace(best, young_weight=largest / 2).bound
    past = replace(best, young_weight=math.nextafter(largest, math.inf))
    assert [condition.holds for condition in past.conditions()] == [True, False]
    far = replace(best, young_weight=17 * largest)
    assert [condition.holds for condition in far.conditions()] == [False, False]


def test_conditions_on_growth_vanish_without_growth() -> None:
    for method in ("nsgdm", "nstorm"):
        smooth = theorem(method, Problem(alpha=0, L0=1, L=1, B=1, G=1, gap=1), gamma0=100.0)
        assert smooth.conditions() == master(smooth, 10).conditions() == ()
    for method in ("nsgdm", "nstorm"):
        flat = Problem(alpha=1, L0=1, L1=0, B=1, G=1, gap=1)
        assert theorem(method, flat, gamma0=100.0).conditions() == ()
        assert master(theorem(method, flat, gamma0=1.0), 10).conditions() == ()
    flat = Problem(alpha=0.5, L0=1, L1=0, B=1, G=1, gap=1)
    statement = theorem("nstorm", flat, gamma0=1.0)
    assert statement.conditions() == master(statement, 10).conditions() == ()
    assert statement.schedule(10).young_weight is None
    assert statement.bound(10) >= master(statement, 10).bound


# The second opinion.


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if sharper(limited(setting, 0.01), 10)])
@settings(max_examples=20)
@given(data=st.data(), T=horizons)
def test_the_second_opinion_is_never_above_the_bound(
    setting: tuple[str, str, str], data: st.DataObject, T: int
) -> None:
    statement = data.draw(statements(*setting))
    assume(not statement.violations())
    second = sharper(statement, T)
    assert second is not None
    assert all(condition.holds for condition in second.conditions())
    assert second.bound <= statement.bound(T) * (1 + 1e-12)
    of_its_class = of_run(MASTERS[second.method, second.problem.smoothness], second.problem, statement, T)
    assert set(second.terms()) <= set(of_its_class.terms())


@pytest.mark.parametrize("smoothness", ["smooth", "sublinear", "linear"])
@settings(max_examples=20)
@given(data=st.data(), T=horizons)
def test_knowing_the_wrapper_is_never_worse_than_its_class(smoothness: str, data: st.DataObject, T: int) -> None:
    problem = data.draw(problems(smoothness, "bg0"))
    statement = theorem("nstorm", wrapped(problem), gamma0=data.draw(numbers(1e-3, 10)))
    assume(not statement.violations())
    known = of_run(StormOnWrapper, problem, statement, T)
    assert all(condition.holds for condition in known.conditions())
    assert known.bound <= statement.bound(T) * (1 + 1e-12)


def test_with_the_mean_square_schedule_the_wrapper_costs_the_same_for_every_alpha() -> None:
    rates = []
    for alpha in (0.0, 0.5, 1.0):
        problem = Problem(alpha=alpha, L0=1, L1=0.1, L=1, B=1, G=1, gap=1)
        schedule = theorem("nstorm", replace(problem, alpha=0.0), gamma0=0.1)
        first, second = (of_run(StormOnWrapper, problem, schedule, T).bound for T in (10**12, 10**16))
        rates.append(math.log(first / second) / math.log(1e4))
    assert rates == pytest.approx([0.25] * 3, abs=1e-3)


def test_normalized_descent_on_a_parabola_stays_between_the_travel_and_the_tight_bound() -> None:
    x, total, T = 1.0, 0.0, 10_000
    problem = Problem(alpha=0, L0=2, B=0, G=0, gap=1)  # f = x²
    statement = theorem("nsgdm", problem)
    gamma = statement.schedule(T).gamma
    for _ in range(T):
        total += abs(2 * x)
        x -= math.copysign(gamma, x)
    second = sharper(statement, T)
    assert second is not None
    assert second.bound == pytest.approx(statement.bound(T), rel=1e-12)
    mean = total / T
    assert travel_lower_bound(2, gamma, T, 1 - x * x) <= mean
    assert mean == pytest.approx(statement.bound(T), rel=1e-9)  # attained: the paper's 2Δ/γ0 + 2 L0 γ0 is not tight


@pytest.mark.parametrize(("L0", "gamma", "T"), [(2.0, 0.1, 1), (2.0, 0.1, 7), (0.3, 2.0, 100)])
def test_the_travel_is_attained_where_curvature_is_as_negative_as_it_may_be(L0: float, gamma: float, T: int) -> None:
    """On f = ∓(L0/2) x² a step of length γ lowers f by γ‖∇f‖ ± L0 γ²/2: the most and the least that it can."""
    for sign in (-1, 1):
        x0 = 1.0 if sign < 0 else 1.0 + gamma * T  # away from 0, or towards it
        points = [x0 - sign * gamma * step for step in range(T + 1)]
        mean = sum(L0 * x for x in points[:-1]) / T
        descent = sign * L0 / 2 * (points[0] ** 2 - points[-1] ** 2)
        excess = mean - travel_lower_bound(L0, gamma, T, descent)
        assert excess == pytest.approx(0.0 if sign < 0 else L0 * gamma, abs=1e-9 * mean)
    assert travel_lower_bound(0.0, gamma, T, 3.0) == pytest.approx(3.0 / (gamma * T), rel=1e-15)


def test_a_run_too_long_for_its_own_bound_is_refused() -> None:
    problem = Problem(alpha=2 / 3, L0=1, L1=1, B=1, G=1, gap=1)
    statement = theorem("nsgdm", problem, gamma0=100.0)
    second = of_run(MomentumLongStep, problem, statement, 10)
    assert not all(condition.holds for condition in second.conditions())
    with pytest.raises(ValueError, match=r"gamma must be < 3 eta; got gamma="):
        second.terms()
    steep = Problem(alpha=1, L0=1, L1=1, B=0, G=0, gap=1)
    second = of_run(ExactLinear, steep, theorem("nsgdm", steep, gamma0=10.0), 1)
    with pytest.raises(ValueError, match=r"gamma must be small enough for the bound's condition; got gamma=10"):
        second.terms()


@pytest.mark.parametrize(("kept", "smooth"), [(MomentumFeedback, MomentumSmooth), (StormFeedback, StormSmooth)])
def test_the_bounds_that_keep_the_feedback_end_in_those_without_it(kept: type[Bound], smooth: type[Bound]) -> None:
    flat = Problem(alpha=1, L0=1.5, L1=0, L=1.5, B=0.4, G=0.7, gap=3)
    without = smooth(replace(flat, alpha=0.0), 0.01, 0.1, 0.5, 1000).terms()
    terms = kept(flat, 0.01, 0.1, 0.5, 1000).terms()
    assert {name: value for name, value in terms.items() if value} == pytest.approx(without)
    steep = Problem(alpha=1, L0=1.5, L1=2.0, B=0, G=0, gap=3)
    exact = ExactLinear(steep, 0.1, 1.0, 0.0, 100)
    assert MomentumFeedback(steep, 0.1, 1.0, 0.0, 100).bound == pytest.approx(exact.bound, rel=1e-14)
    too_long = kept(replace(flat, L1=10.0), 0.1, 0.1, 0.5, 1000)
    assert not all(condition.holds for condition in too_long.conditions())
    assert all(condition.strict for condition in too_long.conditions())  # where they hold just so, nothing is left
    with pytest.raises(ValueError, match=r"gamma must be small enough for the bound's condition; got gamma=0\.1"):
        too_long.terms()


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.5, 2 / 3, 0.9])
@pytest.mark.parametrize(("L0", "L1"), [(1.0, 1.0), (1e-3, 2.0), (3.0, 0.1)])
def test_the_gradient_of_the_steepest_function_of_a_class_moves_by_less_than_its_constants_say(
    alpha: float, L0: float, L1: float
) -> None:
    """f'' = L0 + L1 f'^α: from u to w takes the length ∫ du/(L0 + L1 u^α); S3 and S4 rest on the constants."""
    k, p = symmetric(L0, L1, alpha), alpha / (1 - alpha)
    for u in (0.0, 1e-3, 1.0, 1e3):
        w = np.concatenate([[u], u + np.geomspace(1e-6, 1e4, 4001) * max(u, 1e-3)])
        # The integrand is convex, so the midpoints make r too short, and the inequality harder.
        r = np.cumsum(np.diff(w) / (L0 + L1 * ((w[1:] + w[:-1]) / 2) ** alpha))
        assert np.all(w[1:] - u <= r * (k.base + k.gradient * u**alpha + k.distance * r**p))


@pytest.mark.parametrize("noise", ["bounded", "deterministic"])
@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
@pytest.mark.parametrize("times", [1e-6, 1e6])
def test_multiplying_f_and_its_noise_multiplies_the_bound_of_a_wider_class(
    method: str, noise: str, times: float
) -> None:
    """So that the best scale of the gradient is found however small or large gradients are; a step stays a step."""
    alpha, G = 0.9, NOISE[noise][1]
    one = Problem(alpha=alpha, L0=1, L1=0.1, B=0, G=G, gap=1)
    other = Problem(alpha=alpha, L0=times, L1=0.1 * times ** (1 - alpha), B=0, G=times * G, gap=times)
    first, second = (sharper(theorem(method, each, gamma0=0.01), 1000) for each in (one, other))
    assert first is not None
    assert second is not None
    assert first.problem.alpha == second.problem.alpha == 1
    assert second.bound == pytest.approx(times * first.bound, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("weight", [0.2, 3.0])
def test_youngs_inequality_holds_everywhere_and_is_an_equality_somewhere(alpha: float, weight: float) -> None:
    x = np.geomspace(1e-9, 1e9, 100_001)
    slack = weight * x + young(alpha) * weight ** (-alpha / (1 - alpha)) - x**alpha
    assert np.all(slack >= -1e-12 * x**alpha)
    assert np.min(slack / x**alpha) < 1e-6
