"""The judgement of the untuned method: who is chosen, on which seeds, and when problems are made."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence.study import PUBLISHED
from evidence.untuned import ablation, judging, second
from evidence.untuned.development import DEVELOPMENT
from evidence.untuned.page import apart, load, near_the_best
from evidence.untuned.results import EndScores, JudgedCase
from evidence.untuned.rivals import COSINE, LAST, OURS, TUNED
from evidence.untuned.second import JudgedProblem
from gladstorm import BlumGladyshev, devices, objectives, run, sgd, sweep, untuned

GRID = np.array([[1e-3, 0.0], [0.03, 0.0], [1e3, 0.0]])  # too short, good, and too long: the last one diverges
BUDGET = 41


def started(seed: int) -> BlumGladyshev:
    objective: Any = objectives.named("power:4", dim=2)
    return BlumGladyshev(replace(objective, start=1 + np.random.default_rng(seed).random(2)), B=0.1, G=0.1)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> JudgedCase:
    monkeypatch.setattr(judging, "TUNED", {"SGD": (GRID, lambda s: sgd(s[:, 0]))})
    monkeypatch.setattr(judging, "UNTUNED", {})
    monkeypatch.setattr(judging, "SEEDS", 3)
    return judging.judge(JudgedProblem("a family", started), "a problem", BUDGET)


def test_a_rival_is_tuned_on_seeds_that_are_not_reported_and_never_to_one_that_diverges(judged: JudgedCase) -> None:
    assert judged.settings["SGD"] == {"loss": GRID[1].tolist()}
    reported = np.array(judged.scores["SGD, by loss"].norm)
    for seed in range(3):
        record = run(started(seed), sgd(0.03), steps=BUDGET - 1, seeds=[seed], progress=False)
        np.testing.assert_allclose(reported[seed], record.grad_norm[0, 0, -1], rtol=1e-12)


def test_ours_is_scored_where_it_reports_and_beside_it_where_it_ends(judged: JudgedCase) -> None:
    for seed in range(3):
        oracle = started(seed)
        record = run(oracle, untuned(), steps=BUDGET - 1, seeds=[seed], progress=False)
        for name, x in ((OURS, record.reported[0, 0]), (LAST, record.last[0, 0])):
            scores = judged.scores[name]
            np.testing.assert_allclose(np.array(scores.norm)[seed], np.linalg.norm(oracle.objective.grad(x)), rtol=1e-6)
            np.testing.assert_allclose(np.array(scores.loss)[seed], oracle.objective.value(x), rtol=1e-6)


def case_of(scores: dict[str, dict[str, list[float | None]]]) -> JudgedCase:
    """A case with these scores, where inf f is 1."""
    ends = {name: EndScores(**numbers) for name, numbers in scores.items()}
    return JudgedCase("a problem", "a family", 1000, 3, 1.0, {}, ends)


def test_a_ratio_is_ours_by_the_best_rival_s_of_means_over_seeds_and_no_saddle_wins() -> None:
    scores: dict[str, Any] = {OURS: {"norm": [1.0, 3.0], "loss": [5.0, 5.0]}}
    scores |= {f"{name}, by loss": {"norm": [8.0, 8.0], "loss": [9.0, 9.0]} for name in TUNED}
    scores["AdamW, by loss"] = {"norm": [1e-20, 1e-20], "loss": [12.0, 12.0]}  # at a saddle
    scores["Adam, by loss"] = {"norm": [4.0, 4.0], "loss": [2.0, 4.0]}
    scores["SGD, by loss"] = {"norm": [None, 0.1], "loss": [None, 2.0]}  # a diverged seed
    result = case_of(scores)
    for score, ratio in (("norm", 0.5), ("loss", 2.0)):  # 2/4, (5 − 1)/(3 − 1)
        assert (result.best, result.ratio(score)) == ("Adam", ratio)
        estimate = result.interval(score)
        assert (estimate.low or 0.0) <= ratio <= (estimate.high or 0.0)


def test_the_lowest_value_known_is_that_of_any_run_at_any_budget(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    for budget, loss in ((1000, 3.0), (10_000, 0.5)):
        kept: dict[str, Any] = {"problem": "a", "family": "b", "budget": budget, "f_inf": 1.0, "seeds": 2}
        kept |= {"scores": {OURS: {"norm": [1.0, 1.0], "loss": [loss, None]}}}
        (tmp_path / "second" / f"a-{budget}.json").write_text(json.dumps(kept))
    assert [result.f_inf for result in load(tmp_path)] == [0.5, 0.5]


def test_problems_are_made_after_jax_is_told_its_devices_and_only_those_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evidence.untuned.command import command

    order: list[str] = []
    monkeypatch.setattr(devices, "tune", lambda: order.append("devices"))

    def made(name: str) -> JudgedProblem:
        order.append(name)
        raise ValueError("far enough")

    cases: dict[str, Callable[[], JudgedProblem]] = {name: partial(made, name) for name in ("one", "other")}
    monkeypatch.setattr(second, "cases", lambda: cases)
    with pytest.raises(ValueError, match="untuned: the problems are one, other; got 'none'"):
        command(tmp_path, problem=["none"])
    with pytest.raises(ValueError, match="far enough"):
        command(tmp_path, problem=["other"])
    assert order == ["devices", "devices", "other"]


def test_runs_that_end_apart_from_all_of_the_best_rival_s_are_counted_where_f_is_worst() -> None:
    def result(losses: list[float]) -> JudgedCase:
        scores: dict[str, Any] = {OURS: {"norm": [1.0] * 3, "loss": losses}}
        scores |= {f"{name}, by loss": {"norm": [1.0] * 3, "loss": [9.0] * 3} for name in TUNED}
        scores["Adam, by loss"]["loss"] = [2.0, 3.0, 4.0]
        scores[COSINE] = {"norm": [1.0] * 3, "loss": [4.1] * 3}
        return replace(case_of(scores), problem=str(losses))

    results = [result([1.5, 1.5, 1.5]), result([1.5, 3.5, 8.0])]
    near = near_the_best(results, 1.6)  # the best f − f* are ours, 0.5, and Adam's, 2
    assert (near[OURS], near["Adam"], near[COSINE], near["SGD"]) == (1, 1, 1, 0)
    found = apart(results)
    assert found == {"case": "[1.5, 3.5, 8.0], at 1,000 gradients", "runs": 3, "above": 1, "below": 1}


@pytest.mark.parametrize("name", ["least squares, d = 10", "temporal differences, d = 3"])
def test_on_problems_that_it_was_designed_on_the_method_ends_where_it_was_published(name: str) -> None:
    published = json.loads((PUBLISHED / "untuned" / ablation.FILE).read_text("utf-8"))[name]["1000"]
    oracles = [DEVELOPMENT[name](seed) for seed in range(ablation.SEEDS)]
    record = sweep(oracles, [untuned()], steps=999, seeds=ablation.SEEDS, records=1, progress=False)
    assert judging.reported_norms(record, oracles).mean() == pytest.approx(published[ablation.WHOLE], rel=1e-9)
    assert judging.reported_norms(record, oracles, last=True).mean() == pytest.approx(
        published[ablation.LAST], rel=1e-9
    )


def test_on_a_registered_problem_the_method_ends_where_it_was_judged() -> None:
    name = "Student mixture, three in the plane"
    published = load(PUBLISHED / "untuned")
    (case,) = (each for each in published if each.problem == name and each.budget == 1000)
    ends = judging._ends(second.cases()[name](), {OURS: untuned()}, 1000, range(case.seeds))
    for method in (OURS, LAST):
        assert ends[method]["norm"][0].tolist() == pytest.approx(case.scores[method].norm, rel=1e-9)
        assert ends[method]["loss"][0].tolist() == pytest.approx(case.scores[method].loss, rel=1e-9)
