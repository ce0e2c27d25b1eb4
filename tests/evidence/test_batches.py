"""Laws of the study of larger batches, on the smallest of its trainings."""

import math
from itertools import product
from typing import Any

import pytest
import torch

from evidence.batches import auto, auto_page, page, study
from evidence.batches.auto import AutoResults, AutoRun
from evidence.batches.study import BatchResults, name_of, planned, train
from evidence.networks.trainings import TRAININGS, NetworkTask
from gladstorm.core.batch_control import BatchControl
from gladstorm.core.results import to_json

TRAINING, STEPS = "badly scaled table", 16


def recorded(monkeypatch: pytest.MonkeyPatch, tasks: dict[str, Any], name: str) -> list[torch.Tensor]:
    """Inputs of every loss of a training, in their order; those held out are the last."""
    seen: list[torch.Tensor] = []
    make = tasks[name]

    def watched() -> NetworkTask:
        model, loss, *rest = make()

        def heard(model: torch.nn.Module, some: tuple[torch.Tensor, ...]) -> torch.Tensor:
            seen.append(some[0])
            result: torch.Tensor = loss(model, some)
            return result

        return NetworkTask(model, heard, *rest)

    monkeypatch.setitem(tasks, name, watched)
    return seen


@pytest.mark.parametrize("factor", [1, 4, 16])
def test_every_factor_sees_the_same_samples_in_the_same_order(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    task = TRAININGS[TRAINING]
    seen = recorded(monkeypatch, TRAININGS, TRAINING)
    train(TRAINING, "AdamW", "scale_batch" if factor > 1 else "", factor, 3, STEPS)
    seen.pop()
    assert [len(each) for each in seen] == [8 * factor] * (STEPS // factor)
    torch.manual_seed(3)
    rows = task().train[0]
    order = torch.randint(len(rows), (8 * STEPS,), generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.cat(seen), rows[order])


def test_the_page_judges_what_was_registered() -> None:
    losses: dict[str, float | None] = {name_of(*run): 1.0 for run in planned(study.QUICK)}
    first, *_ = study.QUICK.trainings
    for seed in study.QUICK.seeds:
        losses[name_of(first, "AdamW", "scale_batch", 4, seed)] = 1.021
        losses[name_of(first, "AdamW", "linear", 4, seed)] = 1.03
        losses[name_of(first, "AdamW", "square root", 4, seed)] = 1.022
        losses[name_of(first, "SGD", "scale_batch", 4, seed)] = None
    results = BatchResults({"extent": to_json(study.QUICK)}, losses)
    assert page.change(results, first, "AdamW", "scale_batch", 4) == pytest.approx(0.021)
    verdicts = {words: holds for words, _, holds in page.judged(results)}
    assert not verdicts["AdamW: at factor 4 at most 2 % above the small batch"]
    assert verdicts["AdamW: at factor 4 below both usual rules"]
    assert not verdicts["AdamW: at factor 16 below both usual rules"]  # equal is not below
    assert not verdicts["SGD: at factor 4 at most 2 % above the small batch"]
    assert math.isinf(page.mean_of(results, "SGD", "scale_batch", 4))


BY_ITSELF = "biopsies", "AdamW", 0.001, 3, 64  # training, optimizer, rate, seed, steps


@pytest.mark.parametrize(
    ("method", "steps"),
    [
        (auto.SMALL, 64),
        ("scale_batch 8", 8),
        ("usual 16", 4),
        (auto.FIXED_TIMES, 22),  # 8 of 1, 6 of 2, 5 of 4 and 3 of 8 samples, or later where the last would be cut
        (auto.SEESAW, 43),  # 32 of 1, 8 of 2, 2 of 4 and 1 of 8
        (auto.SAFE, None),
        (auto.TESTED, None),
    ],
)
def test_every_method_sees_the_same_samples_and_counts_its_steps(
    monkeypatch: pytest.MonkeyPatch, method: str, steps: int | None
) -> None:
    training, optimizer, rate, seed, length = BY_ITSELF
    task = auto.TRAININGS[training]
    seen = recorded(monkeypatch, auto.TRAININGS, training)
    run = auto.train(training, optimizer, rate, method, seed, length)
    seen.pop()
    torch.manual_seed(seed)
    rows = task().train[0]
    order = torch.randint(len(rows), (4 * length,), generator=torch.Generator().manual_seed(seed))
    assert torch.equal(torch.cat(seen), rows[order])
    if steps is not None:
        assert run.steps == len(seen) == steps
    assert run.loss is not None


def test_seesaw_and_fixed_times_double_where_they_are_said_to() -> None:
    assert [auto.by_seesaw(t) for t in (0.0, 0.49, 0.5, 0.75, 0.9, 0.999)] == [1, 1, 2, 4, 8, 32]
    assert [auto.at_fixed_times(t) for t in (0.0, 0.1, 0.29, 0.3, 0.6, 0.99)] == [1, 2, 2, 4, 8, 8]


def test_the_usual_rule_multiplies_the_rate_by_the_factor_for_sgd_and_by_its_root_for_others() -> None:
    for kind, length in ((torch.optim.SGD, 4.0), (torch.optim.AdamW, 2.0)):
        optimizer = kind([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 - k / 10)
        auto.usual(optimizer, 4, scheduler=schedule)
        assert optimizer.param_groups[0]["lr"] == 0.5 * length
        optimizer.step()
        schedule.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.45 * length)


def test_the_rivals_double_where_their_rule_says_and_at_no_other_time() -> None:
    for kind, low, high in ((auto.NormTest, 0.3, 0.4), (auto.NoiseScale, 1.9, 2.1)):  # V/Γ: above ⅓; at least 2
        for noise, factor in ((low, 1), (high, 2)):
            control: BatchControl = kind(1000.0, 1.0, 2)
            for _ in range(60):
                control = control.look(noise, 1.0, -1.0)
                control = control.advance(control.factor)
            assert control.factor == factor, (kind, noise)


def auto_results(**changed: float | None) -> AutoResults:
    """Runs that all end at 1 with a quarter of the steps; others by their method, with _ for a space."""
    extent = auto.QUICK
    settings = {"extent": to_json(extent), "versions": {}}
    results = AutoResults(settings, {}, dict.fromkeys(extent.trainings, 1.02))
    for training, (optimizer, rates), seed in product(
        extent.trainings, auto.RATES.items(), (extent.tuning_seed, *extent.seeds)
    ):
        for rate, method in product(rates, auto.METHODS):
            loss = changed.get(method.replace(" ", "_"), 1.0) if seed != extent.tuning_seed else rate
            steps = 1 if method != auto.SMALL else 4
            results.runs[auto.name_of(training, optimizer, rate, method, seed)] = AutoRun(loss, 8 * steps, 1)
    return results


def verdicts(**changed: float | None) -> list[bool | None]:
    return [sentence.holds for sentence in auto_page.judged(auto_results(**changed))]


def test_the_page_judges_what_was_registered_of_batches_that_set_themselves() -> None:
    assert verdicts() == [True] * 8
    assert verdicts(safe=1.009) == [True] * 8
    assert verdicts(safe=1.02) == [False, True, True, True, True, True, True, False]
    assert verdicts(safe=None)[:2] == [False, False]
    assert verdicts(fast=1.03)[3:5] == [False, True]
    assert verdicts(scale_batch_32=0.98)[0] is False  # the largest fixed batch within 1 % is the better one
    assert verdicts(scale_batch_32=1.02)[0] is True  # which one that is not within 1 % is not
    assert verdicts(scale_batch_16=0.5)[0] is True  # nor one that is not the largest
    assert verdicts(scale_batch_4=1.02)[5] is False  # where the usual rule can
    assert verdicts(scale_batch_4=1.02, usual_4=1.02)[5] is True  # where no fixed batch can
    assert verdicts(safe=1.02, **{"small_batch,_other_order": 1.02})[7] is True
    slow = auto_results()
    slow.overheads["biopsies"] = 1.031
    slow.runs.update({name: AutoRun(1.0, 17, 1) for name in slow.runs if ", safe," in name})
    assert [sentence.holds for sentence in auto_page.judged(slow)] == [True, True, False, *[True] * 3, False, True]
    (rate,) = {slow.rate("biopsies", "SGD")}
    assert rate == auto.RATES["SGD"][0]  # with the lowest loss on its own seed


def test_time_is_steps_and_samples_by_their_price() -> None:
    results = auto_results()
    assert auto_page.seconds(results, auto.SAFE, 1) == pytest.approx((0.25 + 1) / 2)
    assert auto_page.seconds(results, auto.SAFE, 100) == pytest.approx((25 + 1) / 101)


def test_a_seed_that_is_not_finished_counts_nowhere() -> None:
    results = auto_results()
    results.runs.pop(auto.name_of("biopsies", "SGD", results.rate("biopsies", "SGD"), auto.SAFE, auto.QUICK.seeds[0]))
    assert results.seeds == []
