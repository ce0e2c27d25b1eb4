"""Numbers and names that a page repeats from results or from the code are those of the results and the code."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gladstorm as gs
from evidence.untuned import page as untuned_page
from evidence.untuned import second
from gladstorm.methods import rows

ROOT = Path(__file__).parent.parent


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text().split())


def test_the_registered_sentences_are_judged_as_they_were_registered() -> None:
    registered = (ROOT / "docs/evidence/untuned/second/registered.md").read_text()
    numbered = re.findall(r"^(\d+)\. (.+)$", registered, re.MULTILINE)
    results = untuned_page.load(ROOT / "docs/evidence/untuned")
    verdicts = untuned_page.sentences(results)
    assert [number for number, _ in numbered] == [str(place) for place in range(1, len(verdicts) + 1)]
    known = second.cases().keys() - {untuned_page.VOID}
    assert len(known) == untuned_page.PROBLEMS
    for result in results:  # no case counts twice, and each has its seeds
        assert result.problem in known
        assert {len(each.norm) for each in result.scores.values()} == {result.seeds}
    assert len({(result.problem, result.budget) for result in results}) == len(results)


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
    notes = page("docs/release_notes.md")
    python = project["requires-python"].removeprefix(">=")
    for name, version in {
        "Python": python,
        "JAX": oldest["jax"],
        "PyTorch": oldest["torch"],
        "Optax": oldest["optax"],
    }.items():
        assert f"{name} {version} or newer" in notes
    for name in ("README.md", "docs/index.md"):
        assert f"Python {python} or newer" in page(name)


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
