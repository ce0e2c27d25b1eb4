"""What advice repeats from studies is what their results say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evidence.networks import page
from evidence.numbers import suite as suite_numbers
from evidence.untuned.page import load, sentences
from evidence.untuned_networks import page as judgement
from gladstorm.diagnosis.advice import ACTIONS, CHOOSING, EVIDENCE, NETWORKS, SUITE

ROOT = Path(__file__).parents[2]
WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def results(path: str) -> Any:
    return json.loads((ROOT / "docs/evidence" / path).read_text("utf-8"))


def test_on_networks_a_norm_for_each_layer_is_ahead_of_adamw_and_one_norm_behind() -> None:
    networks = page.load(ROOT / "docs/evidence/networks")
    muon, layers, one = (page.mean_ratio(networks, name).value for name in (page.MUON, page.OURS, "NSGDM, one norm"))
    assert muon is not None
    assert layers is not None
    assert one is not None
    assert muon < layers < 1 < one
    said = f"on {WORDS[len(networks.finished)]} small networks they ended at {muon:.2f} and {layers:.2f} times the loss"
    said += f" of AdamW, all tuned, in the geometric mean; NSGDM with one norm for all weights at {one:.2f}."
    assert said in EVIDENCE["network"]
    assert "NSGDM(gladstorm.torch.by_layer(model), lr=" in ACTIONS["adam"]["torch"]


def test_with_a_decay_sgd_diverges_on_some_problems_of_the_suite_and_nsgdm_on_none() -> None:
    suite = results("suite/suite.json")
    assert suite["config"]["reference"] == "SGD, linear"
    lost = {case["problem"] for case in suite["cases"] if case["rows"]["SGD, linear"]["diverged"]}
    others = [case["rows"]["NSGDM, linear"] for case in suite["cases"] if case["problem"] not in lost]
    assert not any(case["rows"]["NSGDM, linear"]["diverged"] for case in suite["cases"])
    assert all(row["relative"]["grad_norm"]["high"] >= 1 for row in others)
    said = f"SGD diverged on {WORDS[len(lost)]} of {WORDS[len(suite['problems'])]} problems"
    assert f"With a linear decay it never diverged in docs/evidence/suite, while {said}" in EVIDENCE["grows"]
    assert "; on the others it was not better than SGD." in EVIDENCE["grows"]


def test_variance_reduction_is_clearly_better_in_no_case_of_the_suite() -> None:
    assert suite_numbers()["better.reduce-variance"] == "0"
    said = f"it was clearly better than NSGDM in none of the {suite_numbers()['cases']} cases of docs/evidence/suite"
    assert said in EVIDENCE["does not grow"]


def test_where_nothing_is_known_normalized_steps_are_clearly_better_in_no_case_of_the_suite() -> None:
    cases = results("suite/suite.json")["cases"]
    highs = [case["rows"]["NSGDM, linear"]["relative"]["grad_norm"]["high"] for case in cases]
    assert all(high is None or high >= 1 for high in highs)  # None where SGD, which it is compared with, diverged
    assert f"in none of the {len(cases)} cases of docs/evidence/suite" in EVIDENCE["not known"]


def test_without_tuning_the_method_by_layer_is_recommended_with_the_median_of_its_judgement() -> None:
    results = judgement.load(ROOT / "docs/evidence/untuned_networks")
    count, median = len(results.finished(1000)), judgement.median(results, 1000, judgement.NULL)
    said = f"in 1000 steps on {WORDS[count]} networks it ended in the median at {median:.2f} times the loss"
    assert said in EVIDENCE["untuned"]
    assert all("by_layer" in code.split("without tuning")[1] for code in ACTIONS["adam"].values())


def test_the_untuned_method_is_named_first_only_if_every_registered_sentence_about_it_is_true() -> None:
    verdicts = {each.verdict for each in sentences(load(ROOT / "docs/evidence/untuned"))}
    assert ("untuned" in ACTIONS) == (verdicts == {"true"})
    assert all("without tuning" in code for code in ACTIONS["adam"].values())


def test_every_page_that_advice_refers_to_is_there() -> None:
    assert all((ROOT / page / "index.md").is_file() for page in (NETWORKS, SUITE, "docs/evidence/untuned"))
    assert (ROOT / CHOOSING).is_file()
