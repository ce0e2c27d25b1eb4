"""What advice repeats from studies is what their results say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence.digits.page import PLACES, Difference, accuracies, differences, found_for
from evidence.page import MeanInterval
from evidence.untuned.page import load, sentences
from gladstorm.diagnosis.advice import ACTIONS, CHOOSING, DIGITS, EVIDENCE, SUITE

ROOT = Path(__file__).parents[2]
WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def results(path: str) -> Any:
    return json.loads((ROOT / "docs/evidence" / path).read_text("utf-8"))


@pytest.fixture(scope="module")
def on_digits() -> dict[tuple[str, tuple[str, str]], list[Difference]]:
    """By noise and pair of methods, the differences in test accuracy of every framework and network."""
    found: dict[tuple[str, tuple[str, str]], list[Difference]] = {}
    for ((*_, noise), pair), difference in differences(results("digits/results.json")).items():
        found.setdefault((noise, pair), []).append(difference)
    return found


def test_where_noise_grows_nsgdm_is_not_behind_on_digits(
    on_digits: dict[tuple[str, tuple[str, str]], list[Difference]],
) -> None:
    for rival in ("SGD", "SGD + clipping", "Adam"):
        assert all(each.interval.sign >= 0 for each in on_digits["BG", ("NSGDM", rival)])
    assert all(each.interval.sign <= 0 for each in on_digits["BG", ("NSTORM", "NSGDM")])
    said = "it was not behind SGD, clipped SGD or Adam, nor behind NSTORM at the same number of gradients"
    assert f"On digits with growing noise, without a decay, {said}." in EVIDENCE["grows"]


def test_with_a_decay_sgd_diverges_on_some_problems_of_the_suite_and_nsgdm_on_none() -> None:
    suite = results("suite/suite.json")
    assert suite["config"]["reference"] == "SGD, linear"
    lost = {case["problem"] for case in suite["cases"] if case["rows"]["SGD, linear"]["diverged"]}
    others = [case["rows"]["NSGDM, linear"] for case in suite["cases"] if case["problem"] not in lost]
    assert not any(case["rows"]["NSGDM, linear"]["diverged"] for case in suite["cases"])
    assert all(row["relative"]["grad_norm"]["high"] >= 1 for row in others)
    said = f"SGD diverged on {WORDS[len(lost)]} of {WORDS[len(suite['problems'])]} problems"
    assert f"it never diverged, while {said}; on the others it was not better than SGD." in EVIDENCE["grows"]


def test_where_noise_falls_nsgdm_is_never_clearly_better_on_digits(
    on_digits: dict[tuple[str, tuple[str, str]], list[Difference]],
) -> None:
    for rival in ("SGD", "Adam"):
        assert all(each.interval.sign <= 0 for each in on_digits["none", ("NSGDM", rival)])
    (path,) = (
        each["designed"]["report"]["path"]
        for each in results("calibration/networks.json")
        if (each["network"], each["method"]) == ("MLP", "SGD")
    )
    assert path["high"] < 1
    assert "where the noise of a perceptron under SGD falls too, NSGDM was never clearly better" in EVIDENCE["falls"]


def test_where_noise_does_not_grow_nstorm_ends_behind_sgd_and_adam_on_digits() -> None:
    """In the mean over frameworks and networks, seed by seed."""
    digits = results("digits/results.json")

    def ends(method: str) -> np.ndarray:
        places = [place for place in PLACES if place[-1] == "none"]
        return np.asarray(np.mean([accuracies(found_for(digits, *place, method)) for place in places], axis=0))

    for rival in ("SGD", "Adam"):
        assert MeanInterval.over(list(ends("NSTORM") - ends(rival))).sign == -1
    assert EVIDENCE["does not grow"] == "On digits without added noise it ended behind both."


def test_where_noise_grows_faster_nsgdm_with_a_decay_never_diverges_and_sgd_does_on_one_problem_of_two() -> None:
    suite = results("suite/suite.json")
    faster = {name for name, problem in suite["problems"].items() if "grows faster" in str(problem["outside"])}
    rows = [(case["problem"], case["rows"]) for case in suite["cases"] if case["problem"] in faster]
    assert not any(row["NSGDM, linear"]["diverged"] for _, row in rows)
    lost = {problem for problem, row in rows if row["SGD, linear"]["diverged"]}
    said = (
        f"{WORDS[len(faster)]} problems have such noise: with a decay NSGDM never diverged there, and SGD diverged on"
    )
    assert f"{said} {WORDS[len(lost)]} of them." in EVIDENCE["grows faster"]


def test_where_nothing_is_known_normalized_steps_are_clearly_better_in_no_case_of_the_suite() -> None:
    cases = results("suite/suite.json")["cases"]
    highs = [case["rows"]["NSGDM, linear"]["relative"]["grad_norm"]["high"] for case in cases]
    assert all(high is None or high >= 1 for high in highs)  # None where SGD, which it is compared with, diverged
    assert f"in none of the {len(cases)} cases of docs/evidence/suite" in EVIDENCE["not known"]


def test_the_untuned_method_is_named_first_only_if_every_registered_sentence_about_it_is_true() -> None:
    verdicts = {each.verdict for each in sentences(load(ROOT / "docs/evidence/untuned")["second"])}
    assert ("untuned" in ACTIONS) == (verdicts == {"true"})
    assert all("without tuning" in code for code in ACTIONS["adam"].values())


def test_every_page_that_advice_refers_to_is_there() -> None:
    assert all((ROOT / page / "index.md").is_file() for page in (DIGITS, SUITE, "docs/evidence/untuned"))
    assert (ROOT / CHOOSING).is_file()
