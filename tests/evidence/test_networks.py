"""The study of networks does what its page says, and the page says what its results are."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evidence.networks import methods, page, study, trainings
from evidence.networks.methods import CONTESTANTS, OPTIMIZERS, RateAndDecay, by_kind, train
from evidence.networks.page import ADAMW, FIXED, MUON, OURS
from evidence.networks.study import Cost, NetworkResults, name_of
from evidence.networks.trainings import CHARACTERS, CONTEXT, TRAININGS

PUBLISHED = Path(__file__).parents[2] / "docs/evidence/networks"
RATES = {"one norm": 0.3, "Prodigy": 1.0, "Untuned": 1.0, **dict.fromkeys(("by layer", *methods.RELATIVES), 0.04)}
SEED = 20_000  # of no reported run


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:  # as the command sets it
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _not_trained_before(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = trainings.pretrained(steps=1)
    monkeypatch.setattr(trainings, "pretrained", lambda: weights)


def at_start(training: str) -> float:
    torch.manual_seed(SEED)
    model, loss, _, held_out, _ = TRAININGS[training]()
    with torch.no_grad():
        return loss(model.eval(), held_out).item()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_learns_from_the_same_start(optimizer: str) -> None:
    start, rate = at_start("few data"), RATES.get(optimizer, 1e-2)
    after = train("few data", optimizer, RateAndDecay(rate), SEED, 60)
    assert after is not None
    assert after < (0.999 if optimizer == "Prodigy" else 0.9) * start  # which begins with rates of a millionth
    if optimizer not in ("Untuned", "Prodigy"):
        assert train("few data", optimizer, RateAndDecay(0.0), SEED, 2) == pytest.approx(start, rel=1e-6)


@pytest.mark.parametrize("training", TRAININGS)
def test_a_training_has_new_data_for_each_seed_and_no_row_twice(training: str) -> None:
    tasks = []
    for seed in (SEED, SEED, SEED + 1):
        torch.manual_seed(seed)
        tasks.append(TRAININGS[training]())
    assert all(torch.equal(one, other) for one, other in zip(tasks[0].held_out, tasks[1].held_out, strict=True))
    model, loss, rows, held_out, batch = tasks[0]
    if training != "graph network":  # whose nodes keep their names
        assert not torch.equal(held_out[0], tasks[2].held_out[0])
    assert loss(model, tuple(column[:batch] for column in rows)).isfinite()
    inputs = {tuple(row.flatten().tolist()) for row in rows[0][:2000]}
    if "transformer" not in training.replace("vision transformer", "") and training != "GRU":
        assert not inputs & {tuple(row.flatten().tolist()) for row in held_out[0]}


@pytest.mark.parametrize("training", TRAININGS)
def test_muon_has_the_hidden_weights_and_adamw_embeddings_output_and_vectors(training: str) -> None:
    model = TRAININGS[training]().model
    hidden, rest = by_kind(model)
    assert {id(p) for p in (*hidden, *rest)} == {id(p) for p in model.parameters()}
    assert len(hidden) + len(rest) == len(list(model.parameters()))
    assert all(p.ndim > 1 for p in hidden)
    names = {id(p): name for name, p in model.named_parameters()}
    assert not [name for p in hidden if re.search("embedding.weight|head|position|bias", name := names[id(p)])]
    outputs = [p for p in model.parameters() if p.ndim > 1][-1]
    assert (training == "factorization") == (not hidden)
    assert id(outputs) in {id(p) for p in rest}


def test_muon_orthogonalizes_a_convolution_as_the_matrix_of_its_outputs() -> None:
    torch.manual_seed(0)
    model, loss, rows, _, _ = TRAININGS["convolutions"]()
    kernel = by_kind(model)[0][1]
    optimizers = methods.muon_and_adamw(model, RateAndDecay(0.1), 1)
    before = kernel.detach().clone()
    loss(model, tuple(column[:32] for column in rows)).backward()
    for optimizer in optimizers:
        optimizer.step()
    moved_by = torch.linalg.svdvals((kernel.detach() - before).flatten(1))
    length = 0.1 * 0.2 * max(32, 16 * 9) ** 0.5
    assert ((0.4 * length < moved_by) & (moved_by < 1.3 * length)).all()


def test_no_character_is_seen_before_it_is_predicted_and_labels_are_those_that_follow() -> None:
    torch.manual_seed(0)
    task = trainings.character_transformer()
    window = task.train[0][7]
    assert torch.equal(window[1:], task.train[0][8][:-1])
    given = torch.randint(CHARACTERS, (1, CONTEXT))
    changed = given.clone()
    changed[0, 40:] = (changed[0, 40:] + 1) % CHARACTERS
    before, after = task.model(given), task.model(changed)
    torch.testing.assert_close(before[0, :40], after[0, :40])
    assert not torch.allclose(before[0, 40], after[0, 40])


def test_a_stopped_study_goes_on_where_it_was_and_the_best_finite_setting_is_reported(
    monkeypatch: pytest.MonkeyPatch, evidence: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    ran: list[str] = []

    def pretend(training: str, optimizer: str, chosen: RateAndDecay, seed: int, steps: int) -> float | None:
        if len(ran) == 5:
            ran.append("stop")
            raise KeyboardInterrupt
        ran.append(name_of(training, optimizer, chosen, seed))
        return None if (optimizer, chosen.rate) == ("AdamW", 1e-3) else 2 + chosen.rate + chosen.decay + seed / 1e6

    monkeypatch.setattr(study, "train", pretend)
    monkeypatch.setattr(study, "COSTLY", ("few data",))
    arguments = ["networks", "--quick", "--out", str(tmp_path)]
    code, _, err = evidence(*arguments)
    assert code == 130
    assert "the same command goes on" in err
    assert evidence(*arguments)[0] == 0
    ran.remove("stop")
    results = page.load(tmp_path)
    tuned = {
        (each.optimizer, chosen) for each in CONTESTANTS.values() for chosen in each.settings if len(each.settings) > 1
    }
    assert len(ran) == len(set(ran)) == len(results.losses)
    assert len(ran) >= len(study.QUICK.trainings) * len(tuned)
    assert results.picked("few data", CONTESTANTS[ADAMW]) == (3e-3, 0.01)
    assert results.picked("few data", CONTESTANTS[OURS]) == (0.01, 0.0)
    assert results.finished == list(study.QUICK.trainings)
    state = {name: cost.state for name, cost in results.costs["few data"].items()}
    assert [state["AdamW"], state["one norm"]] == [2.0, 1.0]
    assert 1 < state["Muon"] < 2
    code, _, err = evidence("networks", "--out", str(tmp_path))  # not quick any more
    assert code == 2
    assert "was made with other settings" in err


def pretended(factors: dict[str, float], extent: study.Extent = study.QUICK) -> NetworkResults:
    """Results in which a method's loss is a factor times AdamW's, that of a training and seed, but for the first."""
    results = NetworkResults({"extent": json.loads(json.dumps(extent.__dict__))}, {})
    for place, training in enumerate(extent.trainings):
        for each in CONTESTANTS.values():
            for chosen in each.settings:
                factor = factors.get(f"{each.optimizer} {chosen.rate:g}", factors.get(each.optimizer, 1.0))
                for seed in (extent.tuning_seed, *extent.seeds):
                    value = factor ** (1 if place else 2) * (1 + chosen.decay) * (1 + seed / 1e4)
                    results.losses[name_of(training, each.optimizer, chosen, seed)] = value
        results.weights[training] = 1
    return results


def test_ratios_are_geometric_means_seed_by_seed_and_the_worst_is_the_largest() -> None:
    results = pretended({"Muon": 1.5, "by layer": 0.9, "by layer 0.04": 0.5})
    assert page.mean_ratio(results, MUON).value == pytest.approx((1.5 * 1.5**2) ** 0.5)
    assert page.mean_ratio(results, OURS).value == pytest.approx(1 / 1.01 * (0.5 * 0.25) ** 0.5)
    assert page.mean_ratio(results, OURS, MUON).value == pytest.approx((0.5 * 0.25 / 1.5**3) ** 0.5 / 1.01)
    largest, training = page.worst(results, MUON)
    assert training == study.QUICK.trainings[0]
    assert largest == pytest.approx(1.5**2)
    assert page.median(results, OURS) == pytest.approx((0.25 + 0.5) / 2 / 1.01)
    assert (page.ahead(results, OURS), page.ahead(results, MUON)) == (2, 0)
    one = page.mean_ratio(results, MUON, but=study.QUICK.trainings[0])
    assert one.value == pytest.approx(1.5)
    mean = page.mean_ratio(results, MUON)
    half = 12.7062 * abs(math.log(1.5)) / 2  # t of one degree times the deviation of log 1.5 and log 2.25 over √2
    assert mean.low is not None
    assert mean.high is not None
    assert np.log([mean.low, mean.high]) == pytest.approx([1.5 * math.log(1.5) - half, 1.5 * math.log(1.5) + half])
    name = name_of("few data", "Muon", RateAndDecay(3e-3, 0.01), study.QUICK.seeds[0])
    lost = replace(results, losses=results.losses | {name: None})
    assert page.mean_ratio(lost, MUON).value == page.worst(lost, MUON)[0] == math.inf


@pytest.mark.parametrize(
    ("factors", "verdicts"),
    [
        ({"by layer": 0.84, "Muon": 0.9}, [True, True, True, True, False, False, False]),
        ({"by layer": 0.93, "Muon": 0.9, "NMARS by layer": 0.9}, [False, False, True, True, False, True, False]),
        ({"by layer": 1.04, "NIGT by layer": 1.01}, [False, False, False, False, True, True, True]),
    ],
)
def test_the_registered_sentences_are_decided_by_their_numbers(factors: dict[str, float], verdicts: list[bool]) -> None:
    results = pretended(factors)
    for time, state, holds in ((1.1, 1.0, True), (1.2, 1.01, False)):
        costs = {"few data": {"Muon": Cost(2.0, 1.5), "by layer": Cost(2.0 * time, 1.5 * state)}}
        found = page.judged(replace(results, costs=costs))
        assert [each.holds for each in found] == [*verdicts[:4], holds, holds, *verdicts[4:]]
    registered = re.findall(r"^\d\. .*", (PUBLISHED / "registered.md").read_text("utf-8"), re.MULTILINE)
    for each, sentence in zip(found, registered, strict=True):
        if "≤" not in each.words:
            continue
        assert each.words.split("≤ ")[1].split()[0] in re.findall(r"\d+(?:\.\d+)?", sentence[2:])
    assert len(registered) == len(found)


def test_a_training_that_is_not_finished_is_named_and_does_not_count() -> None:
    results = replace(pretended({}), settings=json.loads(json.dumps(study.described(study.QUICK))))
    last = study.QUICK.trainings[-1]
    del results.losses[name_of(last, "Untuned", RateAndDecay(1.0), study.QUICK.seeds[-1])]
    costs = {"few data": {optimizer: Cost(1.0, 1.0) for optimizer in OPTIMIZERS}}
    text = page.render(replace(results, costs=costs))
    assert f"Not finished in the time there was: {last}." in text
    assert f"| {last} |" not in text


def test_the_results_kept_are_those_of_the_study_as_it_is() -> None:
    results = page.load(PUBLISHED)
    now = json.loads(json.dumps(study.described(study.FULL)))
    assert {**results.settings, "versions": None} == {**now, "versions": None}
    assert results.finished == list(TRAININGS)
    assert set(results.costs) == set(study.COSTLY)
    assert results.loss("few data", "by layer", RateAndDecay(methods.FIXED_LENGTH), 1) > 0
    assert page.worst(results, OURS)[1] == page.worst(results, FIXED)[1] == "graph network"
    for contestant in (each for each in CONTESTANTS.values() if len(each.settings) > 1):
        picked = results.picked("graph network", contestant)  # as the page says
        assert picked.rate == min(each.rate for each in contestant.settings)
        assert picked.decay == max(each.decay for each in contestant.settings)
