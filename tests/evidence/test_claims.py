"""Verdicts follow from the numbers: each claim on data made to decide it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evidence.reproduction.claims import (
    FAILS,
    HOLDS,
    UNDECIDED,
    Claim,
    batch_stays_one,
    drift_stabilises,
    grows_tenfold,
    grows_to_a_thousand,
    lower_gradient_norm,
    single_sample_sgd_drifts,
)
from evidence.reproduction.results import (
    BUDGET,
    COMPARED,
    DYNAMIC,
    EQUAL_STEP,
    MAIN,
    NSGDM,
    NSTORM,
    SGD,
    TUNING,
    Results,
)
from gladstorm.simulation.configurations import Configuration
from gladstorm.simulation.one_run import CURVES
from gladstorm.simulation.record import Record

STEPS, SEEDS = np.arange(0, 101, 10), 40


def record(gammas: tuple[float, ...] = (1.0,), **curves: Any) -> Record:
    """Runs whose curves are 1, or what is given (broadcast over step size, seed, step)."""
    shape = (len(gammas), SEEDS, STEPS.size)
    arrays = {name: np.broadcast_to(np.asarray(curves.get(name, 1.0), float), shape).copy() for name in CURVES}
    arrays["sfo"] = np.broadcast_to(curves.get("sfo", STEPS + 1), shape).copy()
    runs, point = shape[:2], (*shape[:2], 1)
    return Record(
        configurations=tuple(Configuration("SGD", {"gamma": gamma}, ("gamma",)) for gamma in gammas),
        seeds=np.arange(SEEDS),
        steps=STEPS,
        path=np.zeros((*shape, 0)),
        diverged=np.full(runs, -1),
        reached=np.full(runs, STEPS[-1]),
        last=np.zeros(point),
        sampled=np.zeros(point),
        reported=np.zeros(point),
        sampled_step=np.zeros(SEEDS, int),
        config={"methods": {}, "seeds": []},
        **arrays,
    )


def results(**main: Record) -> Results:
    records = {(MAIN, method): main.get(method.replace(", ", "_").replace(" ", "_"), record()) for method in COMPARED}
    records |= {(EQUAL_STEP, NSGDM): record(), (BUDGET, NSTORM): record(), (TUNING, SGD): record((0.1, 1.0))}
    return Results({"budget": 101, "step_sizes": {SGD: 0.1}}, records)


def reading(claims: tuple[Claim, ...], suffix: str) -> Claim:
    return next(claim for claim in claims if claim.id.endswith(suffix))


@pytest.mark.parametrize(
    ("wins", "verdict"), [(40, HOLDS), (28, HOLDS), (26, UNDECIDED), (20, UNDECIDED), (12, FAILS), (0, FAILS)]
)
def test_beating_another_method_is_decided_by_the_exact_interval(wins: int, verdict: str) -> None:
    final = np.where(np.arange(SEEDS) < wins, 0.5, 2.0)[:, None]
    found = reading(lower_gradient_norm("s"), "-final").test(results(NSTORM=record(grad_norm=final)), SEEDS)
    assert (found.verdict, found.estimate, found.seeds) == (verdict, wins / SEEDS, SEEDS)
    assert found.ci is not None
    assert found.ci[0] <= wins / SEEDS <= found.ci[1]


def test_three_seeds_cannot_tell_even_if_all_agree() -> None:
    found = reading(lower_gradient_norm("s"), "-final").test(results(NSTORM=record(grad_norm=0.1)), 3)
    assert (found.verdict, found.estimate, found.seeds) == (UNDECIDED, 1.0, 3)


def test_a_diverged_run_does_not_win() -> None:
    found = reading(lower_gradient_norm("s"), "-final").test(results(NSTORM=record(grad_norm=np.nan)), SEEDS)
    assert found.verdict == FAILS


def test_equal_calls_reads_nstorm_where_it_has_spent_what_nsgdm_spends() -> None:
    falling = np.linspace(2, 0, STEPS.size)  # below 1 only in its second half, after twice NSGDM's calls
    storm = record(grad_norm=falling, sfo=2 * STEPS + 1)
    claims = lower_gradient_norm("s")
    assert reading(claims, "-final").test(results(NSTORM=storm), SEEDS).verdict == HOLDS
    assert reading(claims, "-equal-calls").test(results(NSTORM=storm), SEEDS).verdict == FAILS


def test_a_sentence_whose_readings_disagree_depends_on_the_reading() -> None:
    claims = lower_gradient_norm("s")
    low = record(grad_norm=0.1, mean_grad_norm=0.1)
    found = claims[0].test(results(NSTORM=low), SEEDS)
    assert found.verdict.startswith("depends on the reading (holds: last iterate, last tenth, all iterates")
    everywhere = results(NSTORM=low)
    everywhere.records[BUDGET, NSTORM] = low
    assert claims[0].test(everywhere, SEEDS).verdict == HOLDS


@pytest.mark.parametrize(("growth", "verdict"), [(0.0, HOLDS), (0.019, HOLDS), (0.021, FAILS), (0.23, FAILS)])
def test_drift_is_stable_below_two_percent_over_the_last_tenth(growth: float, verdict: str) -> None:
    drift = np.where(STEPS > 90, 1 + growth, 1.0)
    for claim in drift_stabilises("s"):
        moved = record(drift2=drift + 1e-6 * np.arange(SEEDS)[:, None])
        assert claim.test(results(NSGDM=moved, NSTORM=moved), SEEDS).verdict == verdict


def test_an_interval_that_straddles_the_limit_cannot_tell() -> None:
    drift = np.where(STEPS > 90, 1 + 0.02 + 0.05 * np.sin(np.arange(SEEDS))[:, None], 1.0)
    assert drift_stabilises("s")[0].test(results(NSGDM=record(drift2=drift)), SEEDS).verdict == UNDECIDED
    assert drift_stabilises("s")[0].test(results(NSGDM=record(drift2=drift)), 1).ci is None


def spread(amount: float, seeds: int = SEEDS) -> np.ndarray:
    return 1 + amount * np.where(np.arange(STEPS.size) % 2, 1, -1) + 1e-6 * np.arange(seeds)[:, None]


def test_sgd_that_drifts_only_at_large_steps_depends_on_the_step_size() -> None:
    claim = single_sample_sgd_drifts("s")
    assert claim.test(results(SGD=record(drift2=spread(0.3))), SEEDS).verdict == HOLDS
    assert claim.test(results(SGD=record(drift2=spread(0.01))), SEEDS).verdict == FAILS
    both = results(SGD=record(drift2=spread(0.01)))
    both.records[TUNING, SGD] = record((0.1, 1.0), drift2=np.stack([spread(0.01), spread(0.3)]))
    assert claim.test(both, SEEDS).verdict == "depends on the step size (from γ = 1 on, not at the tuned 0.1)"
    both.records[MAIN, SGD] = record(drift2=np.nan)
    assert claim.test(both, SEEDS).verdict == UNDECIDED


@pytest.mark.parametrize(
    ("claim", "largest", "verdict"),
    [
        (grows_to_a_thousand, 650, HOLDS),
        (grows_to_a_thousand, 120, FAILS),
        (grows_to_a_thousand, 5000, FAILS),
        (grows_tenfold, 26, HOLDS),
        (grows_tenfold, 9, FAILS),
    ],
)
def test_batch_sizes_are_read_by_their_order(claim: Callable[[str], Claim], largest: float, verdict: str) -> None:
    grown = record(max_batch=largest + np.arange(SEEDS)[:, None] / 100)
    assert (
        claim("s").test(results(**{m.replace(", ", "_").replace(" ", "_"): grown for m in DYNAMIC}), SEEDS).verdict
        == verdict
    )


def test_a_larger_first_batch_is_not_a_growing_one() -> None:
    first = np.where(STEPS == 0, 4, 1)
    assert batch_stays_one("s").test(results(NSTORM=record(batch=first)), SEEDS).verdict == HOLDS
    assert batch_stays_one("s").test(results(NSTORM=record(batch=first + 1)), SEEDS).verdict == FAILS


def test_each_reading_reads_its_own_numbers() -> None:
    claims = lower_gradient_norm("s")
    ends_low = results(NSTORM=record(grad_norm=0.5, mean_grad_norm=2.0))  # against 1 everywhere else
    assert reading(claims, "-final").test(ends_low, SEEDS).verdict == HOLDS
    assert reading(claims, "-mean").test(ends_low, SEEDS).verdict == FAILS
    ends_low.records[EQUAL_STEP, NSGDM] = record(grad_norm=0.1)
    assert reading(claims, "-final").test(ends_low, SEEDS).verdict == HOLDS
    assert reading(claims, "-equal-step").test(ends_low, SEEDS).verdict == FAILS


def test_of_two_baselines_the_larger_batch_reaches_a_thousand_and_the_smaller_growth_counts() -> None:
    names = [method.replace(", ", "_").replace(" ", "_") for method in DYNAMIC]
    small, large = (record(max_batch=size + np.arange(SEEDS)[:, None] / 100) for size in (9, 650))
    for pair in ((small, large), (large, small)):
        found = results(**dict(zip(names, pair, strict=True)))
        assert grows_to_a_thousand("s").test(found, SEEDS).verdict == HOLDS
        assert grows_tenfold("s").test(found, SEEDS).verdict == FAILS


def test_what_varies_below_the_tuned_step_size_is_progress() -> None:
    below = results(SGD=record(drift2=spread(0.01)))
    below.records[TUNING, SGD] = record((0.01, 0.1), drift2=np.stack([spread(0.3), spread(0.01)]))
    assert single_sample_sgd_drifts("s").test(below, SEEDS).verdict == FAILS
