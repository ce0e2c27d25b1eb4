"""Laws of the answers: the horizon for an accuracy, tuning, the crossover, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gladstorm.theory import REGIMES, Problem, Statement, overtakes, plan, theorem
from gladstorm.theory.rules import LONGEST, OutOfRange
from gladstorm.theory.search import first, lowest

SETTINGS = sorted(REGIMES)
ALPHA = {"smooth": 0.0, "sublinear": 0.5, "linear": 1.0}
NOISE = {"bg0": (0.4, 0.7), "bounded": (0.0, 0.7), "deterministic": (0.0, 0.0)}


def statement_of(setting: tuple[str, str, str], gamma0: float | None = 0.01, **changes: float) -> Statement:
    method, smoothness, noise = setting
    B, G = NOISE[noise]
    constants: dict[str, Any] = {"L0": 1.5, "L1": 0.25, "L": 2.0, "B": B, "G": G, "gap": 3.0} | changes
    return theorem(method, Problem(alpha=ALPHA[smoothness], **constants), gamma0=gamma0)


@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=15)
@given(log_eps=st.floats(-12, 3))
def test_the_horizon_is_the_smallest_that_guarantees_eps(setting: tuple[str, str, str], log_eps: float) -> None:
    statement, eps = statement_of(setting), 10.0**log_eps
    T = statement.horizon(eps)
    assert statement.bound(T) <= eps
    assert T == 1 or eps < statement.bound(T - 1)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_bound_reached_exactly_is_reached(setting: tuple[str, str, str]) -> None:
    statement = statement_of(setting)
    for T in (1, 2, 3, 1000, 123_457):
        assert statement.horizon(statement.bound(T)) == T
    assert statement.horizon(1e9) == 1


def test_a_huge_horizon_is_a_whole_number_and_an_endless_one_is_refused() -> None:
    statement = statement_of(("nsgdm", "smooth", "bg0"))
    T = statement.horizon(1e-30)
    assert isinstance(T, int)
    assert 10**180 < T < 10**200
    assert statement.bound(T) <= 1e-30 < statement.bound(T - 1)
    assert statement.sfo(T) == T
    with pytest.raises(ValueError, match=r"nsgdm: eps must be reachable within 10\^300 iterates; got eps=1e-60\."):
        statement.horizon(1e-60)
    storm = statement_of(("nstorm", "smooth", "bg0"))
    T = storm.horizon(1e-30)
    assert storm.sfo(T) == storm.schedule(T).n_init + 2 * (T - 1)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("T", [None, 1, 10_000, 10**18])
def test_tuning_is_admissible_and_never_worse(setting: tuple[str, str, str], T: int | None) -> None:
    def cost(statement: Statement) -> float:
        if T is not None:
            return statement.bound(T)
        return sum(power.coefficient for power in statement.powers if power.exponent == statement.rate)

    given = statement_of(setting)
    tuned = given.tune(T) if T == 10_000 else given.tune_gamma0(T)
    assert not tuned.violations()
    assert cost(tuned) <= cost(given)
    assert cost(tuned.tune_gamma0(T)) <= cost(tuned)
    for factor in (0.9, 0.999, 1.001, 1.1):
        neighbour = replace(tuned, gamma0=tuned.gamma0 * factor)
        assert neighbour.violations() or cost(tuned) <= cost(neighbour) * (1 + 1e-12)


def test_tuning_eta0_helps_where_growing_noise_is_large() -> None:
    noisy = Problem(alpha=0.5, L0=1e-3, L1=1e-3, B=100, G=1, gap=100)
    statement = theorem("nstorm", noisy, gamma0=1.0)
    both, one = statement.tune(10_000), statement.tune_gamma0(10_000)
    assert both.eta0 < 0.5
    assert both.bound(10_000) < one.bound(10_000)
    for eta0 in (0.9 * both.eta0, 1.1 * both.eta0):
        assert both.bound(10_000) <= replace(statement, eta0=eta0).tune_gamma0(10_000).bound(10_000)


def test_tuning_leaves_an_inadmissible_gamma0_for_an_admissible_one() -> None:
    statement = statement_of(("nsgdm", "linear", "bg0"), gamma0=1e3)
    assert statement.violations()
    assert statement.tune(100).gamma0 <= statement.largest_gamma0()


def test_what_has_no_best_gamma0_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gamma0 must be given, as no gamma0 has the least bound; got gamma0=None\."):
        theorem("nsgdm", Problem(alpha=0, L0=0, B=0, G=0, gap=1))


def test_the_overtaking_horizon_is_where_the_bounds_cross() -> None:
    problem = Problem(alpha=0, L0=1.5, L=1e3, B=0.4, G=0.7, gap=3)
    momentum, storm = theorem("nsgdm", problem), theorem("nstorm", problem)
    T = overtakes(storm, momentum)
    assert T is not None
    assert T > 1
    assert storm.bound(T) < momentum.bound(T)
    assert storm.bound(T - 1) >= momentum.bound(T - 1)
    assert overtakes(momentum, storm) is None
    assert overtakes(momentum, momentum) is None
    better = replace(momentum, problem=replace(problem, gap=1))
    assert overtakes(better, momentum) == 1


@pytest.mark.parametrize("alpha", [0.97, 0.98, 0.99, 0.999, 1 - 1e-9, math.nextafter(1, 0)])
def test_constants_beyond_double_precision_are_refused(alpha: float) -> None:
    problem = Problem(alpha=alpha, L0=1, L1=1, B=1, G=1, gap=1)
    with pytest.raises(
        OutOfRange, match=r"nsgdm: alpha must be small enough for the \w+ constant, near 10\^\d+, to fit"
    ):
        theorem("nsgdm", problem)


@settings(max_examples=100)
@given(
    alpha=st.one_of(st.floats(0, 1, exclude_min=True, exclude_max=True), st.floats(0.9, 1, exclude_max=True)),
    log_L1=st.floats(-300, 300),
    setting=st.sampled_from([each for each in SETTINGS if each[1] == "sublinear"]),
)
def test_bounds_near_alpha_one_are_finite_or_refused(
    alpha: float, log_L1: float, setting: tuple[str, str, str]
) -> None:
    B, G = NOISE[setting[2]]
    problem = Problem(alpha=alpha, L0=1, L1=10.0**log_L1, B=B, G=G, gap=1)
    statement = theorem(setting[0], problem, gamma0=0.5)
    try:
        bound = statement.bound(100)
    except OutOfRange:
        return
    numbers = [bound, statement.bound_as_printed(100), *statement.schedule(100)]
    numbers += [side for condition in statement.conditions() for side in (condition.left, condition.right)]
    assert all(number is None or math.isfinite(number) for number in numbers)


def test_a_gamma0_whose_power_overflows_is_refused() -> None:
    problem = Problem(alpha=0.9, L0=1, L1=1, B=1, G=1, gap=1)
    with pytest.raises(OutOfRange, match=r"nstorm: gamma0 must be small enough .* got gamma0=1e\+100\."):
        theorem("nstorm", problem, gamma0=1e100).bound(10)
    with pytest.raises(OutOfRange, match=r"nsgdm: the coefficient of 'coupled gap' must fit"):
        theorem("nsgdm", Problem(alpha=1, L0=1, L1=1, B=1, G=1, gap=5e306), gamma0=1.0).bound(10)
    with pytest.raises(OutOfRange, match=r"nstorm: n_init must fit"):
        theorem("nstorm", Problem(alpha=0, L=1, B=1, G=1e200, gap=1), gamma0=1.0).sfo(10)


def test_a_plan_for_an_accuracy_is_tuned_for_its_own_horizon() -> None:
    constants: dict[str, Any] = {"alpha": 0.5, "L0": 1.5, "L1": 0.25, "B": 0.4, "G": 0.7, "gap": 3}
    ready = plan("nstorm", eps=0.5, **constants)
    T, statement = ready.horizon, ready.statement
    assert statement.bound(T) <= 0.5 < statement.bound(T - 1)
    assert theorem("nstorm", Problem(**constants)).horizon(0.5) >= T
    for gamma0 in (0.9 * statement.gamma0, 1.1 * statement.gamma0):
        assert plan("nstorm", eps=0.5, gamma0=gamma0, **constants).horizon >= T


def test_the_searches_find_what_they_search() -> None:
    assert lowest(lambda x: x, 2.0, 5.0) == 2.0
    assert lowest(lambda x: -x, 2.0, 5.0) == 5.0
    assert lowest(lambda x: math.inf if x > 1e-3 else 1e-9 / x + x, 1e-30, 1e30) == pytest.approx(1e-9**0.5, rel=1e-6)
    assert first(lambda T: T > 0) == 1
    assert first(lambda T: T < 0) is None
    assert first(lambda T: T >= LONGEST) == LONGEST
