"""The text study does what its page says, and the page says what its results are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from evidence.page import Interval
from evidence.text import setting, study, training
from evidence.text.setting import ARMS, Arm
from evidence.text.training import Outcome

ROOT = Path(__file__).parents[2]
KEPT = json.loads((ROOT / "docs/evidence/text/results.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:  # as the command sets it
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:Untuned. a scheduler")  # the study asks what a decay on top does
@pytest.mark.parametrize("method", setting.METHODS)
def test_every_method_learns_and_only_nstorm_evaluates_twice(method: str) -> None:
    lr = {"AdamW": 3e-3, "Untuned": 1.0}.get(method, 0.3)
    found = training.train(Arm(method, "decayed"), lr, seed=5, evaluations=12, measurements=2)
    assert [count for count, _ in found.curve] == ([5, 11] if method == "NSTORM" else [6, 12])
    start = training.train(Arm(method, "decayed"), 0.0, seed=5, evaluations=2, measurements=1)
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


def test_a_stopped_study_goes_on_where_it_was_and_the_best_rate_is_reported(
    monkeypatch: pytest.MonkeyPatch, evidence: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    calls: list[tuple[str, float, int]] = []

    def pretend(arm: Arm, lr: float, seed: int, evaluations: int, measurements: int) -> Outcome:
        if len(calls) == 5:
            calls.append(("stop", 0, 0))
            raise KeyboardInterrupt
        calls.append((arm.name, lr, seed))
        worth = float("nan") if lr >= 1 and arm.method == "SGD" else 2 + lr / 10
        return Outcome(worth, [(evaluations, worth + seed / 10)] * measurements, worth + 1, 3.0)

    monkeypatch.setattr(study, "train", pretend)
    arguments = ["text", "--quick", "--out", str(tmp_path)]
    code, _, err = evidence(*arguments)
    assert code == 130
    assert "the same command goes on" in err
    assert evidence(*arguments)[0] == 0
    ran = [call for call in calls if call[0] != "stop"]
    assert len(ran) == len(set(ran)) == 8 * (2 + 2) + 2 * 2  # tuning and report; Untuned is not tuned
    assert {lr for name, lr, seed in ran if name == "SGD, decayed" and seed < 100} == {
        0.95
    }  # the other is not a number
    text = (tmp_path / "index.md").read_text("utf-8")
    assert all(text.count(f"| {method} | ") == 2 for method in setting.METHODS)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    code, _, err = evidence("text", "--out", str(tmp_path))  # not quick any more
    assert code == 2
    assert "was made with other settings" in err


def test_differences_are_seed_by_seed_and_a_diverged_run_is_above_everything() -> None:
    assert Interval.over([1.0, 2.0, 3.0])[:2] == pytest.approx((2.0, 4.302653 / 3**0.5), rel=1e-5)  # t of 2 degrees
    assert Interval.over([1.0, float("inf")]).sign == 1
    assert [Interval(mean, 1).sign for mean in (-2, -1, 0, 1, 2)] == [-1, 0, 0, 0, 1]


def test_the_results_kept_are_those_of_the_study_as_it_is() -> None:
    now: dict[str, Any] = json.loads(json.dumps(study.described(study.FULL)))
    of_python = {"versions": None, "text": None}  # another Python has another documentation
    assert {**KEPT["settings"], **of_python} == {**now, **of_python}
    assert not list(study.runs(KEPT, study.FULL))
    assert len(KEPT["runs"]) == len(ARMS) * 3 + 8 * 5  # reported and tuning
