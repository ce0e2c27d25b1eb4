"""Laws of the study of larger batches, on the smallest of its trainings."""

import math

import pytest
import torch

from evidence.batches import page, study
from evidence.batches.study import BatchResults, name_of, planned, train
from evidence.networks.trainings import TRAININGS
from gladstorm.core.results import to_json

TRAINING, STEPS = "badly scaled table", 16


@pytest.mark.parametrize("factor", [1, 4, 16])
def test_every_factor_sees_the_same_samples_in_the_same_order(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    seen: list[torch.Tensor] = []
    task = TRAININGS[TRAINING]

    def watched() -> object:
        model, loss, rows, held_out, batch = task()

        def recorded(model: torch.nn.Module, some: tuple[torch.Tensor, ...]) -> torch.Tensor:
            if len(some[0]) < len(held_out[0]):
                seen.append(some[0])
            return loss(model, some)

        return model, recorded, rows, held_out, batch

    monkeypatch.setitem(TRAININGS, TRAINING, watched)
    train(TRAINING, "AdamW", "scale_batch" if factor > 1 else "", factor, 3, STEPS)
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
