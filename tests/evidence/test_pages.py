"""What every study obeys: its page is made from the results beside it, and its command says what it does."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evidence import study
from gladstorm.core.results import to_json

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", study.names())
def test_the_page_is_made_from_the_results_beside_it(name: str) -> None:
    folder = study.PUBLISHED / name
    page = study.page_of(name)
    assert (folder / study.PAGE).read_text("utf-8") == page.render(page.load(folder))


def test_no_caption_ends_at_the_star_of_a_symbol_and_no_power_is_shown_as_typed() -> None:
    for path in study.PUBLISHED.rglob("*.md"):
        for paragraph in path.read_text("utf-8").split("\n\n"):
            prose = "".join(paragraph.strip().split("`")[::2])
            if re.match(r"\*[^*\s]", prose) and re.search(r"[^*]\*$", prose):
                assert not re.findall(r"(?<!\\)\*", prose[1:-1]), (path.parent.name, paragraph)
            assert not re.findall(r"ε\^-|L\*_", prose), (path.parent.name, paragraph)


@pytest.mark.parametrize("name", study.names())
def test_what_json_prints_of_a_study_is_json(name: str) -> None:
    results = study.page_of(name).load(study.PUBLISHED / name)
    assert json.loads(json.dumps(to_json(results), allow_nan=False))


@pytest.mark.parametrize("name", study.names())
def test_a_folder_without_results_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: the folder must hold .*; got .*{tmp_path.name}"):
        study.write_page(name, tmp_path)


def test_the_results_of_some_regimes_have_a_page_that_says_so() -> None:
    one = "nstorm/smooth/bg0"
    verification, tightness = (study.page_of(name) for name in ("verification", "tightness"))
    report = verification.load(study.PUBLISHED / "verification")
    for table in ("cases", "checks"):
        report[table] = [row for row in report[table] if row["regime"] == one]
    assert "1 of the 18 regimes of the paper, nstorm/smooth/bg0" in verification.render(report | {"studies": {}})
    found = tightness.load(study.PUBLISHED / "tightness")
    rows = tuple(row for row in found.rows if row.regime == one)
    assert f"a trial of {len(rows)} settings" in tightness.render(replace(found, rows=rows))


@pytest.mark.parametrize("name", study.names())
def test_a_study_says_what_it_asks_in_a_question(name: str) -> None:
    assert "?" in study.about(name)


def test_the_index_of_the_evidence_has_a_line_for_every_study() -> None:
    lines = (ROOT / "docs/evidence.md").read_text("utf-8")
    assert set(re.findall(r"^- \*\*\[.*\]\(evidence/(\w+)/index\.md\)", lines, re.MULTILINE)) == set(study.names())


def test_every_published_folder_is_a_study_s() -> None:
    assert {path.name for path in study.PUBLISHED.iterdir()} == set(study.names())


def test_starting_a_study_imports_that_study_only_and_nothing_heavy() -> None:
    asked = """import sys
from evidence.app import app, typer
typer.main.get_command(app).get_command(None, sys.argv[1])
print(*{name.split(".")[1] for name in sys.modules if name.count(".") > 1 and name.startswith("evidence.")})
print(*{"torch", "matplotlib"} & set(sys.modules))"""
    for name in study.names():
        run = subprocess.run([sys.executable, "-c", asked, name], capture_output=True, text=True, check=True)
        assert run.stdout == f"{name}\n\n"


def test_nothing_that_ships_imports_evidence() -> None:
    shipped = [path for path in (ROOT / "src").rglob("*.py") if "evidence" in path.read_text("utf-8")]
    for path in shipped:
        lines = [line.split() for line in path.read_text("utf-8").splitlines()]
        assert not any(line[:1] in (["from"], ["import"]) and line[1].startswith("evidence") for line in lines if line)
