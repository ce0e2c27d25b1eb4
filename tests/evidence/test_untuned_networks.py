"""The judgement of `Untuned` by layer runs what it registered, and its page says what came out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evidence.networks.methods import RateAndDecay
from evidence.networks.study import Cost
from evidence.networks.trainings import TRAININGS as KNOWN
from evidence.results import load
from evidence.untuned_networks import development, page, study
from evidence.untuned_networks.development import Interpolated, LateAverage, Trial, TrialRow
from evidence.untuned_networks.methods import CONTESTANTS, OPTIMIZERS
from evidence.untuned_networks.page import ADAMW, MUON, OURS, TUNED, UNTUNED
from evidence.untuned_networks.study import PlannedRun
from evidence.untuned_networks.trainings import TRAININGS

PUBLISHED = Path(__file__).parents[2] / "docs/evidence/untuned_networks"
SEED = 20_000  # of no reported run
SHORT = study.JudgementExtent(steps=(4, 6), tuning_seed=0, seeds=(1, 2), trainings=("sets", "biopsies"))


@pytest.mark.parametrize("training", TRAININGS)
def test_a_seed_decides_the_data_and_no_row_is_seen_twice(training: str) -> None:
    tasks = []
    for seed in (SEED, SEED, SEED + 1):
        torch.manual_seed(seed)
        tasks.append(TRAININGS[training]())
    assert all(torch.equal(one, other) for one, other in zip(tasks[0].held_out, tasks[1].held_out, strict=True))
    assert not torch.equal(tasks[0].held_out[0], tasks[2].held_out[0])
    model, loss, rows, held_out, batch = tasks[0]
    assert loss(model, tuple(column[:batch] for column in rows)).isfinite()
    seen = {tuple(row.flatten().tolist()) for row in rows[0]}
    assert not seen & {tuple(row.flatten().tolist()) for row in held_out[0]}


@pytest.mark.parametrize("training", TRAININGS)
def test_the_untuned_method_learns_every_training_in_thirty_steps(training: str) -> None:
    torch.manual_seed(SEED)
    task = TRAININGS[training]()
    with torch.no_grad():
        before = task.loss(task.model, task.held_out).item()
    after = study.trained(PlannedRun(training, 30, "Untuned by layer", RateAndDecay(1.0), SEED))
    assert after is not None
    assert after < before


def test_what_is_not_tuned_starts_at_the_rates_that_are_registered() -> None:
    torch.manual_seed(0)
    model, loss, rows, _, batch = TRAININGS["sorting"]()
    hidden, rest = OPTIMIZERS["Muon, one rate"](model, RateAndDecay(0.02), 1)[::-1]
    before = {p: p.detach().clone() for p in model.parameters()}
    loss(model, tuple(column[:batch] for column in rows)).backward()
    for optimizer in (hidden, rest):
        optimizer.step()
    matrices = [p for group in hidden.param_groups for p in group["params"]]
    for p in matrices:
        lengths = torch.linalg.svdvals((p - before[p]).detach()) / (0.02 * max(1.0, len(p) / p[0].numel()) ** 0.5)
        assert 0.5 < lengths.max() < 1.3
    others = [(p - before[p]).detach().abs() for p in model.parameters() if all(p is not each for each in matrices)]
    assert max(change.max().item() for change in others) == pytest.approx(0.005, rel=1e-3)


def pretended(factors: dict[str, float], extent: study.JudgementExtent = SHORT) -> page.PublishedResults:
    """Results in which a method's loss is a factor times AdamW's; shorter runs and later seeds end higher."""
    results = page.PublishedResults({**json.loads(json.dumps(study.described(extent)))}, {})
    for _, planned in study.stages(results):
        for run in planned:
            factor = factors.get(run.optimizer, 1.0) * (1 + run.setting.decay + run.setting.rate)
            results.losses[run.name] = factor * (1 + run.seed / 100) / run.steps
    costs = {each.optimizer: Cost(1.0, 1.0) for each in CONTESTANTS.values()}
    results.weights.update(dict.fromkeys(extent.trainings, 1))
    results.costs["sorting"] = costs
    return results


def test_at_the_largest_k_the_best_three_settings_are_tried_and_the_best_is_reported() -> None:
    results = pretended({})
    last = results.tuning("sets", 6, CONTESTANTS[ADAMW])
    assert [run.setting for run in last] == [(1e-3, 0.01), (3e-3, 0.01), (1e-2, 0.01)]
    assert len(results.tuning("sets", 4, CONTESTANTS[ADAMW])) == len(CONTESTANTS[ADAMW].settings)
    results.losses[last[0].name] = None
    assert results.picked("sets", 6, CONTESTANTS[ADAMW]) == (3e-3, 0.01)
    assert {run.seed for run in results.reported("sets", 6, CONTESTANTS[ADAMW])} == {1, 2}


def test_a_stopped_study_runs_only_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, evidence: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    ran: list[str] = []

    def pretend(run: PlannedRun) -> float:
        if len(ran) == 5:
            ran.append("stop")
            raise KeyboardInterrupt
        ran.append(run.name)
        return 1.0 + run.setting.rate

    monkeypatch.setattr(study, "trained", pretend)
    monkeypatch.setattr(study, "COSTLY", ("sets",))
    arguments = ["untuned_networks", "--quick", "--out", str(tmp_path)]
    assert evidence(*arguments)[0] == 130
    assert evidence(*arguments)[0] == 0
    ran.remove("stop")
    assert len(ran) == len(set(ran)) == len(page.load(tmp_path).losses)
    code, _, err = evidence("untuned_networks", "--out", str(tmp_path))  # not quick any more
    assert (code, "was made with other settings" in err) == (2, True)


@pytest.mark.parametrize(
    ("factors", "verdicts"),
    [
        ({"Untuned by layer": 0.4, "Muon": 0.8}, [True, True, True, True, True, True]),
        ({"Untuned by layer": 0.4, "Muon": 0.7, "Prodigy": 0.3}, [True, False, True, False, True, True]),
        ({"Untuned by layer": 0.6}, [False, False, False, False, True, True]),
        ({"Untuned by layer": math.nan}, [False, False, False, False, False, True]),
    ],
)
def test_the_registered_sentences_are_decided_by_their_numbers(factors: dict[str, float], verdicts: list[bool]) -> None:
    results = pretended(factors)
    losses = {name: value if math.isfinite(value or math.nan) else None for name, value in results.losses.items()}
    found = page.judged(replace(results, losses=losses))
    assert [each.holds for each in found] == verdicts
    registered = re.findall(r"^\d\. .*", (PUBLISHED / "registered.md").read_text("utf-8"), re.MULTILINE)
    assert len(registered) == len(found)
    for each, sentence in zip(found[:3], registered[:3], strict=True):
        assert each.words.split("≤ ")[1].split()[0] in sentence.replace("above 1.1.", "above 1.1")
    slow = {**results.costs["sorting"], "Untuned by layer": Cost(1.16, 1.0)}
    assert not page.judged(replace(results, losses=losses, costs={"sorting": slow}))[5].holds


def test_ratios_are_geometric_means_over_seeds_and_trainings() -> None:
    results = pretended({"Untuned by layer": 0.4, "Muon": 0.5})
    ours = 0.4 * 2 / 1.011
    assert page.mean_ratio(results, 6, OURS) == pytest.approx(ours)
    run = results.reported("sets", 6, CONTESTANTS[OURS])[0]
    results.losses[run.name] = 16 * results.loss(run)
    assert page.ratios(results, 6, OURS) == pytest.approx({"sets": 4 * ours, "biopsies": ours})
    assert page.mean_ratio(results, 6, OURS) == pytest.approx(2 * ours)
    largest, training = page.worst(results, 6, OURS)
    assert training == "sets"
    assert largest == pytest.approx(4 * ours)
    assert page.mean_ratio(results, 6, OURS, MUON) == pytest.approx(2 * 0.4 * 2 / (0.5 * 1.013))
    assert page.median(results, 6, OURS) == pytest.approx(2.5 * ours)
    assert page.mean_ratio(results, 6, OURS, but="sets") == pytest.approx(ours)


def test_what_is_not_finished_is_named_and_does_not_count() -> None:
    results = pretended({})
    del results.losses[results.reported("biopsies", 6, CONTESTANTS["Untuned"])[-1].name]
    assert (results.finished(4), results.finished(6)) == (["sets", "biopsies"], ["sets"])
    text = page.render(results)
    assert "Not finished in the time there was: biopsies at K = 6." in text
    assert np.isfinite(page.mean_ratio(results, 6, OURS))


def test_the_results_kept_are_those_of_the_study_as_it_is() -> None:
    results = page.load(PUBLISHED)
    now = json.loads(json.dumps(study.described(study.FULL)))
    assert {**results.settings, "versions": None} == {**now, "versions": None}
    assert set(results.costs) == set(study.COSTLY)
    assert sorted(CONTESTANTS) == sorted([*TUNED, *UNTUNED, OURS])


def test_what_can_be_stopped_at_any_time_reports_the_average_by_its_equations() -> None:
    """A single number, whose unit step is a sign."""
    for kind, length, momentum in ((LateAverage, 0.5, 0.9), (Interpolated, 0.25, 0.0)):
        x = torch.nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
        optimizer = kind([{"params": [x], "norm": "sign"}], lr=length, momentum=momentum)
        z = mean = y = 2.0
        v = y - 1.1
        for k in range(1, 9):
            x.grad = x.detach() - 1.1
            v = momentum * v + (1 - momentum) * (y - 1.1)
            optimizer.step()
            z -= length * np.sign(v)
            weight = 1 / k if kind is Interpolated else 8 / (k + 7)
            mean += weight * (z - mean)
            y = 0.1 * z + 0.9 * mean if kind is Interpolated else z
            assert x.item() == pytest.approx(y, abs=1e-12)
        optimizer.eval()
        assert x.item() == pytest.approx(mean, abs=1e-12)


def test_a_relative_length_is_one_where_torch_draws_the_weights_and_follows_their_size() -> None:
    torch.manual_seed(SEED)
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 400))
    assert [rule["scale"] for rule in development.relative(model).values()] == pytest.approx([1, 1], rel=0.02)
    development.STARTS["quarter"](model)
    assert [rule["scale"] for rule in development.relative(model).values()] == pytest.approx([0.25, 0.25], rel=0.02)
    development.STARTS["zero head"](model)
    assert list(development.relative(model)) == ["0.weight"]


def test_a_trial_changes_start_and_batch_and_every_method_trains() -> None:
    losses = {
        development.trained("few data", Trial(3, method, start=start, batch=batch), SEED)
        for method in development.METHODS
        for start, batch in (("torch's", 1), ("fourfold", 1), ("torch's", 2))
    }
    assert len(losses) >= 3 * len(development.METHODS) - 3  # `scale_batch` by 1, and torch's sizes, change little
    assert None not in losses


def test_trials_that_are_missing_are_run_once_and_the_tables_compare_what_they_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def pretend(training: str, trial: Trial, seed: int) -> float:
        ran.append(trial.named(training, seed))
        return (0.5 if trial.method == "late average" else 1.0) * (2.0 if training == "few data" else 1.0)

    monkeypatch.setattr(development, "trained", pretend)
    for _ in range(2):
        development.run(tmp_path / "development.json", quick=True)
    assert len(ran) == len(set(ran))
    results = load(development.DevelopmentResults, tmp_path / "development.json")
    table = page.trials_table(results, "anytime").splitlines()
    assert table[2] == "| late average, 0.02, at 2 steps | 0.50 | 0.50 | 0.50 | 2 of 2 |"
    assert table[-1] == "| interpolated, 0.04, at 4 steps | 1.00 | 1.00 | 1.00 | 0 of 2 |"
    assert page.ahead(results) == [line.split(" | ")[0][2:] for line in table[2:6]]
    results.losses.pop(next(name for name in ran if name.startswith("factorization")))
    with pytest.raises(KeyError, match="factorization"):
        page.trials_table(results, "anytime")


@pytest.mark.parametrize(
    ("ratios", "replaces"),
    [([0.85, 0.85, 1.1], True), ([0.85, 0.85, 1.11], False), ([0.96] * 3, False), ([0.5, 1.05, 1.05], False)],
)
def test_the_default_changes_only_for_what_was_asked_beforehand(ratios: list[float], replaces: bool) -> None:
    assert development.would_replace(dict(zip("abc", ratios, strict=True))) is replaces
    assert TrialRow("", (Trial(),), Trial()).could_replace
    assert not TrialRow("", (Trial(start="quarter"),), Trial()).could_replace
    assert not TrialRow("", (Trial(), Trial()), Trial()).could_replace


def test_the_trials_that_are_published_are_those_that_were_declared() -> None:
    results = page.load(PUBLISHED).development
    assert results is not None
    assert all(set(question.trainings) <= set(KNOWN) for question in results.questions.values())
    declared = {trial.named(name, seed) for each in development.QUESTIONS.values() for name, trial, seed in each.runs()}
    assert declared == set(results.losses)
