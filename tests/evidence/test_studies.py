"""Studies: results at equal SFO, and what a budget pays for."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from evidence import study
from evidence.optimality.measuring import HARD, counted, exponents, measured
from evidence.reproduction.design import Design
from evidence.reproduction.experiments import EXPERIMENTS, ReproductionSettings
from evidence.reproduction.results import NSGDM, NSTORM, best, last_tenth, scores
from evidence.reproduction.run import Tuning
from evidence.verification import hardness
from gladstorm import BlumGladyshev, Method, run, sgd
from gladstorm.comparison.scores import failed, reported, reported_scores, within
from gladstorm.methods.batches import FirstLarge
from gladstorm.methods.estimators import Storm
from gladstorm.methods.steps import Normalized
from gladstorm.problems import objectives
from gladstorm.problems.hard.zero_chain import LARGEST
from gladstorm.simulation.record import Record

STEPS = 30


@pytest.fixture(scope="module")
def heavy() -> Record:
    """STORM, momentum and something between, in one program."""
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), B=0.5, G=0.3)
    method = Method(Storm(np.array([0.2, 1.0, 0.3])), Normalized(0.05), FirstLarge(3))
    return run(oracle, method, steps=STEPS, seeds=[3, 8], progress=False)


def test_the_last_tenth_is_read_off_the_record(heavy: Record) -> None:
    norms = heavy.grad_norm  # every step of this short run is recorded
    np.testing.assert_allclose(last_tenth(heavy), norms[..., 28:].mean(-1))


def test_what_a_method_reports_is_read_where_the_budget_ends_and_an_accuracy_is_paid_in_stochastic_gradients(
    heavy: Record,
) -> None:
    prices = np.broadcast_to(np.arange(STEPS + 1) * 1000, heavy.grad_norm.shape)
    spent = replace(heavy, sfo=prices, reported_grad_norm=heavy.grad_norm)
    np.testing.assert_array_equal(reported(spent, 10_999), heavy.grad_norm[..., 10])
    eps = float(np.median(heavy.best_grad_norm[..., -1]))  # half of the runs get there
    counts = hardness.sfo_until(spent, eps)
    assert 0 < np.isinf(counts).sum() < counts.size
    for norms, count in zip(heavy.grad_norm.reshape(-1, STEPS + 1), counts.ravel(), strict=True):
        arrived = [1000 * k for k, norm in enumerate(norms) if norm <= eps]
        assert count == (arrived[0] if arrived else np.inf)


def test_methods_of_a_study_are_tuned_over_equally_many_configurations() -> None:
    assert len({tuned.grid()[0].size for tuned in hardness.chain(0.0057).methods().values()}) == 1


def test_the_horizon_a_budget_pays_for_is_the_largest() -> None:
    design = Design(EXPERIMENTS["cubic"], ReproductionSettings())
    for method, calls in product((NSGDM, NSTORM), (50, 51)):
        T = design.affordable(method, calls)
        assert design.statement(method).sfo(T) <= calls < design.statement(method).sfo(T + 1), method


def test_a_score_is_over_the_iterates_a_budget_paid_for_and_the_best_is_the_smallest() -> None:
    oracle = BlumGladyshev(objectives.named("power:3", start=1.0), 0.0, 1e-3)
    record = run(oracle, sgd([1e-3, 1e-1, 1e3]), steps=100, seeds=2)
    assert scores(record)[2] == np.inf  # it has diverged
    assert best(record) == 1
    at_half = scores(record, 51)
    np.testing.assert_allclose(at_half[:2], record.grad_norm[:2, :, 46:51].mean(axis=(1, 2)), rtol=1e-11)


def test_a_run_that_diverged_is_never_the_best_by_any_score() -> None:
    flat_far_out = BlumGladyshev(objectives.named("cauchy", dim=2, start=2.0), 0.5, 1.0)  # ∇f goes to 0 there
    record = run(flat_far_out, sgd([1e-3, 10.0]), steps=299, seeds=2)
    lost = (record.diverged >= 0).any(axis=1)
    assert lost.tolist() == [False, True]
    for found in (scores(record), scores(record, 300), reported_scores(record, 300)):
        assert np.isinf(found).tolist() == lost.tolist()
    assert failed(record, within(record, 300)).all(axis=1).tolist() == [False, True]
    assert best(record) == best(record, 300) == Tuning(record, 300).gammas.index(Tuning(record, 300).best) == 0
    # Before it diverged it was a run like others.
    early = int(record.diverged.max()) // 2
    assert np.isfinite(reported_scores(record, early)).all()
    assert not failed(record, within(record, early)).any()


@pytest.mark.parametrize(("B", "G"), [(0.2, 0.2), (0.5, 0.1), (0.0, 0.3)])
def test_the_gated_runway_is_as_noisy_as_bg_0_allows_where_its_noise_begins(B: float, G: float) -> None:
    """The largest variance of the chain, (2 · LARGEST · ε)²/p, is B²‖x − x⁰‖² + G² at the gate, ‖x − x⁰‖ = R/2."""
    hard = hardness.runway(0.002, B=B, G=G)
    f: Any = hard.oracle.objective
    gate = float(f.runway) / 2
    largest = (2 * LARGEST * float(f.eps)) ** 2 / float(hard.oracle.p)
    assert largest == pytest.approx(B**2 * gate**2 + G**2)


def test_the_exponents_of_the_hard_problem_are_4_plus_alpha_and_its_page_says_what_was_not_run() -> None:
    page = study.page_of("optimality")
    result = page.load(study.PUBLISHED / "optimality")
    for each in exponents(result):
        if each["of"] in ("needed", "ideal"):
            assert each["exponent"] == pytest.approx(4 + each["alpha"], abs=0.02)
    assert ("Not simulated for every" in page.render(result)) == (len(result["measured"]) < 5 * len(result["needed"]))
    assert all(min(counted(row)) >= row["needed"] for row in result["measured"])  # nobody is faster than needed
    rows = [
        {"method": "NSTORM", "alpha": 1.0, "eps": row["eps"], "needed": row["needed"], "edge": False}
        | {"per_seed": [7 * row["needed"], 8 * row["needed"], 9 * row["needed"], None]}
        for row in result["needed"]
        if row["alpha"] == 1
    ]

    def fitted(rows: list[Any]) -> Any:
        (found,) = [each for each in exponents(result | {"measured": rows}) if each["of"] == "NSTORM"]
        return found

    assert fitted(rows)["exponent"] == pytest.approx(5, abs=0.02)
    assert fitted(rows)["times"] == pytest.approx([8.5] * len(rows))
    assert fitted(rows)["arrived"] == f"{3 * len(rows)} of {4 * len(rows)}"
    assert fitted(rows)["interval"] == [-math.inf, math.inf]  # of four seeds the lost one may be drawn twice
    assert "| 1 | NSTORM |" in page.render(result | {"measured": rows})
    rows[-1] = rows[-1] | {"per_seed": [8 * rows[-1]["needed"], None, None, None]}
    assert math.isnan(fitted(rows)["exponent"])
    rows = [row | {"per_seed": [(7 + i) * row["needed"] * 2**i for i in range(12)]} for row in rows]
    assert fitted(rows)["interval"] == pytest.approx(
        [5, 5], abs=0.02
    )  # seeds differ by a factor that is the same at all ε


def test_on_the_hard_problem_less_than_half_of_the_runs_are_done_with_what_is_needed() -> None:
    row = measured("NSGDM", HARD | {"L1": 400.0, "alpha": 1.0, "eps": 0.0105}).content  # seven links
    counts = np.array(row["per_seed"], float)  # NaN: not arrived
    assert np.mean(np.isfinite(counts)) >= 0.5
    assert np.mean(counts <= row["needed"]) < 0.5  # a single run may be lucky
