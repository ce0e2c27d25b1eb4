"""Numbers and names that a page repeats from results or from the code are those of the results and the code."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gladstorm as gs
from command_lines import commands
from evidence.posteriors import page as posteriors_page
from evidence.suite.page import load as load_suite
from evidence.untuned import families, second
from evidence.untuned import page as untuned_page
from evidence.untuned.rivals import COSINE
from gladstorm.methods import rows
from gladstorm.suite import tables as suite_tables

ROOT = Path(__file__).parent.parent


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text().split())


@pytest.mark.parametrize(
    ("judgement", "file", "problems"),
    [("first", "registered.md", families.cases), ("second", "second/registered.md", second.cases)],
)
def test_the_registered_sentences_are_judged_as_they_were_registered(judgement: str, file: str, problems: Any) -> None:
    registered = (ROOT / "docs/evidence/untuned" / file).read_text()
    numbered = re.findall(r"^(\d+)\. (.+)$", registered, re.MULTILINE)
    results = untuned_page.load(ROOT / "docs/evidence/untuned")[judgement]
    verdicts = untuned_page.sentences(results, judgement)
    assert [number for number, _ in numbered] == [str(place) for place in range(1, len(verdicts) + 1)]
    known = problems().keys() - {untuned_page.VOID}
    assert len(known) == untuned_page.PROBLEMS[judgement]
    for result in results:  # no case counts twice, and each has its seeds
        assert result.problem in known
        assert {len(each["norm"]) for each in result["scores"].values()} == {result["seeds"]}
    assert len({(result.problem, result.budget) for result in results}) == len(results)


def test_what_the_readme_says_of_variational_inference_is_what_was_found() -> None:
    results = posteriors_page.load(ROOT / "docs/evidence/posteriors")
    judged = [case for case in results["cases"] if (case["set"], case["family"]) == ("validation", "mean field")]
    ours, adam, tuned = (
        f"{posteriors_page.score(judged, name, 10_000):.2g}"
        for name in (posteriors_page.OURS, "Adam 0.01", posteriors_page.TUNED_STL)
    )
    true = [sentence["verdict"] for sentence in posteriors_page.sentences(results)].count("true")
    readme = page("README.md")
    assert f"On {len(judged)} real posteriors that had no part in any choice it ended {ours} nats below" in readme
    assert f"ended {adam} nats below, and Adam tuned for each model {tuned}." in readme
    assert (true, len(posteriors_page.sentences(results))) == (8, 11)
    assert "Eight of eleven registered sentences hold" in readme


def test_what_pages_say_of_the_untuned_method_is_what_was_found() -> None:
    results = untuned_page.load(ROOT / "docs/evidence/untuned")["second"]
    norms, values = ([result.ratio(score) for result in results] for score in ("norm", "loss"))
    wins = sum(result.ratio("loss", to=COSINE) < 1 for result in results)
    verdicts = [sentence.verdict.strip("*") for sentence in untuned_page.sentences(results)]
    found = (
        f"In {len(results)} cases on problems that it was not designed on, its gradient norm was "
        f"{np.median(norms):.2f} times that of the best of six tuned methods in the median, and its f − f* "
        f"{np.median(values):.2f} times; f was lower than that of Adam at 10⁻³ with cosine decay in {wins}. Of its "
        f"{len(verdicts)} registered sentences {verdicts.count('true')} are true and {verdicts.count('false')} are "
        "false"
    )
    for name in ("README.md", "docs/choosing.md"):
        assert found in page(name)
    near = untuned_page.near_the_best(results, 1.5)
    assert (
        f"within 1.5 times the best of all in {near['untuned']} cases, that of Adam in {near['Adam']} and that of SGD "
        f"in {near['SGD']}, both tuned"
    ) in page("README.md")


def test_what_pages_say_of_the_suite_is_what_it_found() -> None:
    suite = load_suite(ROOT / "docs/evidence/suite")
    headings, cells = suite_tables.over_cases(suite)
    found = {row[0]: dict(zip(headings, row, strict=True)) for row in cells}
    words = {12: "twelve"}[len(suite.problems)]
    cases, budgets = len(suite.cases), suite.config.budgets
    assert len(budgets) == 2
    verdicts = {each.deed: [case.verdict for case in each.cases] for each in suite.answers}
    better, worse = ({deed: given.count(word) for deed, given in verdicts.items()} for word in ("better", "worse"))
    assert (better["normalize"], better["reduce variance"]) == (0, 0)
    readme, index, choosing = page("README.md"), page("docs/index.md"), page("docs/choosing.md")
    assert f"NSGDM was clearly better than SGD in 0 of {cases} cases and worse in {worse['normalize']}" in readme
    assert f"clearly better than NSGDM in 0 and worse in {worse['reduce variance']}" in readme
    assert f"On {words} test problems, with equal cost and equal tuning, NSGDM was never clearly better" in index
    assert f"{words} problems and two budgets make {cases}." in choosing
    assert set(re.findall(r"\[(\d+) cases\]", choosing)) == {str(cases)}
    assert f"than NSGDM in none of [{cases} cases](evidence/suite/index.md) and clearly worse in" in choosing
    within, best, mean = ("within 2 ×", f"best, of {cases} cases", "to the best, geometric mean")
    sgd, adam, nsgdm, dog = (found[name] for name in ("SGD, linear", "Adam, linear", "NSGDM, linear", "DoG, averaged"))
    assert f"SGD was within twice the best in {sgd[within]} of [{cases} cases]" in choosing
    assert f"and Adam in {adam[within]}. SGD diverged in {sgd['diverged']} runs, Adam in none." in choosing
    assert {row["diverged"].split()[0] for row in (adam, nsgdm)} == {"0"}
    worst = [f"{float(row['worst']):.1f}" for row in (nsgdm, adam)]
    assert "NSGDM's worst case was {} times the best, Adam's {} ".format(*worst) in choosing
    assert f"was best in {dog[best]} of {cases} cases and {dog['worst']} times the best in one" in choosing
    fell = {
        name: [f"{float(found[each][mean]):.1f}" for each in (name, f"{name}, linear")] for name in ("Adam", "NSGDM")
    }
    assert "Adam went from {} to {} times the best".format(*fell["Adam"]) in choosing
    assert "and NSGDM from {} to {}.".format(*fell["NSGDM"]) in choosing


def test_how_far_measured_norms_are_below_the_bounds_is_what_verify_found() -> None:
    report = json.loads((ROOT / "docs/evidence/verification/published.json").read_text())
    assert report["settings"]["horizons"][-1] == 100_000

    def percent(method: str, smoothness: str) -> list[float]:
        regime = f"{method}/{smoothness}/bg0"
        return [100 * case["tightness"]["bound"][-1] for case in report["cases"] if case["regime"] == regime]

    nsgdm, nstorm = percent("nsgdm", "smooth"), percent("nstorm", "smooth")
    said = page("docs/start_bound.md")
    assert f"was {min(nsgdm):.0f} to {max(nsgdm):.0f} % of NSGDM's bound" in said
    assert f"and {min(nstorm):.0f} to {max(nstorm):.0f} % of NSTORM's at $T = 100{{,}}000$" in said
    assert max(percent("nsgdm", "sublinear") + percent("nstorm", "sublinear")) < 1


def test_how_tight_the_bounds_are_on_natural_noise_is_what_verify_found() -> None:
    report = json.loads((ROOT / "docs/evidence/verification/published.json").read_text())
    at = report["settings"]["horizons"].index(10_000)
    found = {(case["regime"], case["instance"]): case["tightness"]["bound"][at] for case in report["cases"]}
    least, gaussian = (
        [found[f"{method}/smooth/bg0", instance] for method in ("nsgdm", "nstorm")]
        for instance in ("streaming least squares, d = 2", "variational Gaussian, d = 1")
    )
    assert (
        f"is {least[0]:.0%} (NSGDM) and {least[1]:.0%} (NSTORM) of the bound on the first, "
        f"{gaussian[0]:.0%} and {gaussian[1]:.0%} on the second."
    ).replace("%", " %") in page("docs/natural.md")


def test_the_bound_and_the_horizons_in_the_text_of_the_page_about_bounds_are_those_of_plan() -> None:
    constants: dict[str, Any] = {"alpha": 0, "L0": 1.0, "B": 0.1, "G": 0.5, "gap": 1.0}
    assert f"needs {gs.theory.plan('nsgdm', eps=0.5, **constants).horizon:,} iterates" in page("docs/start_bound.md")


def test_the_release_notes_require_what_the_package_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["optional-dependencies"]["sim"],
        *project["optional-dependencies"]["torch"],
        *project["optional-dependencies"]["optax"],
    ]
    oldest = dict(line.partition(";")[0].split(">=") for line in lines if line.startswith(("jax>", "torch>", "optax>")))
    said = page("docs/release_notes.md")
    python = project["requires-python"].removeprefix(">=")
    for name, version in {
        "Python": python,
        "JAX": oldest["jax"],
        "PyTorch": oldest["torch"],
        "Optax": oldest["optax"],
    }.items():
        assert f"{name} {version} or newer" in said
    assert f"Python {python} or newer" in page("docs/index.md")
    assert f"Python ≥ {python}" in page("README.md")


def test_every_command_that_takes_long_can_resume_and_its_page_says_with_which_option() -> None:
    said = page("docs/start_research.md")
    (words,) = re.findall(r"`--store DIR` for ((?:`\w+`(?:, | and )?)+)", said)
    options = {
        (program, name): {each for option in command.params for each in option.opts}
        for program, named in commands().items()
        for name, command in named.items()
    }
    long = {name for (program, name), has in options.items() if program == "gladstorm" and "--workers" in has}
    assert sorted(re.findall(r"`(\w+)`", words)) == sorted(long)
    assert "`--out DIR` for `python -m evidence NAME`" in said
    for (program, name), has in options.items():
        assert "--json" in has, name
        assert "--store" in has or "--workers" not in has, name
        assert "--out" in has or program != "evidence", name


def test_the_metadata_of_a_saved_record_is_what_the_page_of_formats_says(tmp_path: Path) -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=2), B=0.5, G=0.5)
    gs.sweep(oracle, {"SGD": gs.sgd(gamma=0.1)}, steps=2, seeds=1).save(tmp_path / "record.parquet")
    ((key, text),) = pq.read_schema(tmp_path / "record.parquet").metadata.items()
    said = page("docs/formats.md").partition("## Records")[2].partition("| column")[0]
    assert f"has one key, `{key.decode()}`," in said
    held = json.loads(text)
    assert f'`format` is "{held["format"]}"' in said
    assert all(f"`{name}`" in said for name in held)


@pytest.mark.parametrize("words", [["methods"], ["methods", "--json"]], ids=" ".join)
def test_the_command_methods_prints_every_cell_of_the_table_on_its_page(
    gladstorm: Callable[..., tuple[int, str, str]], words: list[str]
) -> None:
    _, out, _ = gladstorm(*words)
    printed = " ".join(out.split())
    for row in rows():
        for cell in row.values():
            assert cell in printed
