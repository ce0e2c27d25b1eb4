"""The text study does what its page says, and the page says what its results are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from evidence.text import setting, study, training
from evidence.text.setting import ARMS, TextArm

ROOT = Path(__file__).parents[2]
KEPT = json.loads((ROOT / "docs/evidence/text/results.json").read_text("utf-8"))


@pytest.mark.filterwarnings("ignore:Untuned. a scheduler")  # the study asks what a decay on top does
@pytest.mark.parametrize("method", setting.METHODS)
def test_every_method_learns_and_only_nstorm_evaluates_twice(method: str) -> None:
    lr = {"AdamW": 3e-3, "Untuned": 1.0}.get(method, 0.3)
    found = training.train(TextArm(method, "decayed"), lr, seed=5, evaluations=12, measurements=2)
    assert [count for count, _ in found.curve] == ([5, 11] if method == "NSTORM" else [6, 12])
    start = training.train(TextArm(method, "decayed"), 0.0, seed=5, evaluations=2, measurements=1)
    assert found.curve[-1][1] < start.curve[-1][1]  # a learning rate of 0 stays where it is
    assert (found.last_iterate == found.curve[-1][1]) == (method != "Untuned")  # which reports its average


def test_the_texts_do_not_overlap_and_a_window_s_labels_are_the_characters_that_follow() -> None:
    text = setting.text()
    assert sum(map(len, text)) >= 400_000
    given, following = setting.windows(text.train, torch.tensor([0, 70]))
    assert given.shape == following.shape == (2, setting.CONTEXT)
    assert torch.equal(given[:, 1:], following[:, :-1])
    assert following[1, -1] == text.train[70 + setting.CONTEXT]


def test_no_character_is_seen_before_it_is_predicted() -> None:
    torch.manual_seed(0)
    model = setting.Transformer()
    characters = torch.randint(setting.CHARACTERS, (1, setting.CONTEXT))
    changed = characters.clone()
    changed[0, 40:] = (changed[0, 40:] + 1) % setting.CHARACTERS
    before, after = model(characters), model(changed)
    torch.testing.assert_close(before[0, :40], after[0, :40])
    assert not torch.allclose(before[0, 40], after[0, 40])


def test_the_results_kept_are_those_of_the_study_as_it_is() -> None:
    now: dict[str, Any] = json.loads(json.dumps(study.described(study.FULL)))
    of_python = {"versions": None, "text": None}  # another Python has another documentation
    assert {**KEPT["settings"], **of_python} == {**now, **of_python}
    assert not list(study.runs(KEPT, study.FULL))
    assert len(KEPT["runs"]) == len(ARMS) * 3 + 8 * 5  # reported and tuning
