"""S9: NSTORM with a schedule of its own. It is S8 at the best run, and its order is the one no method can beat."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gladstorm.core.hardness import Hardness
from gladstorm.methods import from_plan
from gladstorm.theory import Plan, Problem, plan, sharper, theorem, uniform
from gladstorm.theory.class_constants import in_linear_class
from gladstorm.theory.every_setting import FAR, FreeRun, best_run, free_run, takes_own
from gladstorm.theory.sharper_bounds import StormFeedback

CONSTANTS: dict[str, Any] = {"L0": 1.5, "L1": 0.25, "B": 0.4, "G": 0.7, "gap": 3.0}


def s9(alpha: float = 0.5, **changed: float) -> FreeRun:
    return free_run("nstorm", Problem(alpha=alpha, **(CONSTANTS | changed)))


def closed_form(problem: Any, eps: float) -> Any:
    """B9."""
    return uniform("nstorm", problem, eps).samples


@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("T", [1, 2, 1000, 10**9, 10**200])
def test_its_bound_is_s8_of_its_run_in_the_class_of_alpha_1(alpha: float, T: int) -> None:
    statement = s9(alpha).tune(T)
    eta, gamma, n_init, _ = statement.schedule(T)
    problem, scale = statement.problem, statement.scale0 * T ** (1 / (4 + alpha))
    wider = in_linear_class(problem, scale) if alpha < 1 else problem
    run = StormFeedback(wider, gamma, eta, problem.G / math.sqrt(n_init), T)
    assert all(each.holds for each in run.conditions())
    assert run.bound <= statement.bound(T) * (1 + 1e-12)  # N_init is rounded up
    assert run.bound >= 0.8 * statement.bound(T)
    assert 0 < eta <= 1
    assert not statement.violations()
    assert statement.sfo(T) == n_init + 2 * (T - 1) <= 1 + 2 * T + T / 50


@pytest.mark.parametrize("T", [100, 10**6, 10**30])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_no_other_run_has_a_smaller_bound(alpha: float, T: int) -> None:
    problem = s9(alpha).problem
    best = best_run("nstorm", problem, T)
    rng = np.random.default_rng(0)
    for _ in range(300):
        gamma, eta, scale = np.exp(np.array(best.logs) + rng.normal(size=3) * 10 ** rng.uniform(-4, 0.5))
        wider = in_linear_class(problem, float(scale)) if alpha < 1 else problem
        other = StormFeedback(wider, float(gamma), float(min(1.0, eta)), best.bound.initial_error, T)
        if all(each.holds for each in other.conditions()):
            # The error of v⁰ follows the run; without it the comparison is exact.
            alone = [each.bound - each.terms()["initial error"] for each in (other, best.bound)]
            assert alone[0] * 1.15 >= alone[1]


@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.75, 0.99, 1.0])
@pytest.mark.parametrize("eps", [1.0, 1e-4])
def test_a_plan_costs_less_than_the_theorem_and_more_than_anything_may(alpha: float, eps: float) -> None:
    ready = plan("nstorm", eps=eps, alpha=alpha, **CONSTANTS)
    assert ready.statement.source.startswith("S9")
    assert ready.statement.bound(ready.horizon) <= eps
    sfo = ready.statement.sfo(ready.horizon)
    assert sfo <= closed_form(ready.problem, eps) / 2
    least = Hardness(eps=eps, alpha=alpha, **{name: CONSTANTS[name] for name in ("L0", "L1", "B", "gap")})
    assert sfo > least.guaranteed


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
def test_its_cost_has_the_order_of_the_lower_bound_in_every_constant(alpha: float) -> None:
    """For ε → 0, N = 2 (c/ε)^(4+α) over the lower bound does not move while each constant goes over many orders."""
    ratios = []
    for name in ("L0", "L1", "B", "gap", "G"):
        for factor in (1e-6, 1.0, 1e6):
            given: dict[str, Any] = {"L0": 1.0, "L1": 1.0, "B": 1.0, "gap": 1.0, "G": 1.0}
            given[name] *= factor
            statement = free_run("nstorm", Problem(alpha=alpha, **given))
            leading = statement.tune().bound(FAR) * FAR ** (1 / (4 + alpha))
            del given["G"]
            least = Hardness(eps=1.0, alpha=alpha, **(given | {"L0": 0.0})).guaranteed
            ratios.append(2 * leading ** (4 + alpha) / least)
    assert max(ratios) / min(ratios) < 1.01


def test_it_is_continuous_at_alpha_1_where_the_constants_of_the_paper_explode() -> None:
    bounds = [s9(alpha).tune(10**8).bound(10**8) for alpha in (0.99, 0.999, 1.0)]
    assert max(bounds) / min(bounds) < 1.02
    assert theorem("nstorm", s9(0.99).problem).tune(10**8).bound(10**8) > 1e6 * bounds[0]


def test_a_plan_takes_it_only_where_the_schedule_is_free() -> None:
    ready = plan("nstorm", horizon=10_000, alpha=0.5, **CONSTANTS)
    assert ready.source.startswith("S9")
    assert ready.as_dict()["bound"] == ready.as_dict()["bound_as_printed"] == ready.statement.bound(10_000)
    method: Any = from_plan(ready)
    assert method.estimator.eta == ready.schedule.eta
    settings: list[dict[str, Any]] = [{"gamma0": 0.1}, {"eta0": 0.5}]
    for given in settings:
        assert "S9" not in plan("nstorm", horizon=10_000, alpha=0.5, **CONSTANTS, **given).source
    assert not takes_own("nstorm", Problem(alpha=0.5, **(CONSTANTS | {"L1": 0.0})))
    assert not takes_own("nstorm", Problem(alpha=0.5, **(CONSTANTS | {"B": 0.0})))
    assert not takes_own("nstorm", Problem(alpha=0, L=1, B=1, G=1, gap=1))


def test_at_a_horizon_that_it_is_not_tuned_for_it_holds_or_guarantees_nothing() -> None:
    statement = s9(1.0, L1=50.0).tune(10**6)
    assert statement.bound(4 * 10**6) < statement.bound(10**6)
    assert statement.tune(4 * 10**6).bound(4 * 10**6) < statement.bound(4 * 10**6)
    late = replace(statement, gamma0=statement.gamma0 * 100)
    assert late.violations()
    assert late.bound(10**6) == math.inf
    assert sharper(statement, 10**6) is not None
    assert Plan(statement, 10**6).schedule == statement.schedule(10**6)
