"""What the documents say is what the code does."""

import json
import pkgutil
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from evidence import tables
from evidence.tightness import page
from gladstorm import worst
from gladstorm.core import references
from gladstorm.core.results import from_json
from gladstorm.jobs.files import load_json
from gladstorm.plotting.explore import SCORES

ROOT = Path(__file__).parent.parent
WRITTEN_BY_THE_BUILD = ("made/gallery/index.rst", "made/command_line.md")


def test_tables_and_marked_numbers_of_documents_are_those_of_the_code_and_the_results() -> None:
    for name in tables.pages():
        assert (ROOT / name).read_text("utf-8") == tables.renewed(name)


def test_every_file_contributing_names_is_there() -> None:
    folders = [ROOT / name for name in ("src", "evidence", "tests", "docs", "benchmarks")]
    files = [path.as_posix() for folder in folders for path in folder.rglob("*.py")]
    files += [path.as_posix() for path in ROOT.glob("*.py")]
    named = re.findall(r"`(?:python )?([\w/]+\.py)\b", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 25
    missing = [name for name in named if not any(file.endswith(f"/{name}") for file in files)]
    assert missing == []


def test_words_that_only_this_project_used_stay_away() -> None:
    """Flatten and unflatten, report progress, incompatible, conventions: the words of the field."""
    of_old = re.compile(r"\b(planted|hearing|misfits?|manners|foreign|own affair|only_shows_its_shapes)\b")
    files = [
        path for root in ("src", "evidence", "docs") for kind in ("*.py", "*.md") for path in (ROOT / root).rglob(kind)
    ]
    files = [path for path in files if not {"made", "_build"} & set(path.parts)]
    assert len(files) > 200
    assert [(path.name, found[0]) for path in files if (found := of_old.search(path.read_text("utf-8")))] == []


def test_contributing_says_the_tree_twelve_words_and_one_walk_in_under_a_thousand_words() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.split()) < 1000
    glossary = text.partition("## Twelve words\n\n")[2].partition("\n\n## ")[0]
    assert len(re.findall(r"^- \*\*", glossary, re.MULTILINE)) == 12


def test_names_that_the_changelog_gives_are_there() -> None:
    given = set(re.findall(r"`((?:gs|gladstorm)(?:\.\w+)+)", (ROOT / "CHANGELOG.md").read_text()))
    assert len(given) > 20
    assert [name for name in given if not resolves(name)] == []


def resolves(name: str) -> bool:
    """Whether a dotted name is there; what needs a package that is not installed here counts."""
    place = name.replace("gs.", "gladstorm.", 1)
    package = place.split(".")[1]
    if package in ("lightning", "transformers", "numpyro", "pymc") and not find_spec(package):
        return True
    try:
        pkgutil.resolve_name(place)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_work_is_cited_and_every_citation_is_a_known_work() -> None:
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py") if path.name != "references.py"]
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md") if path.name != "bibliography.md"]
    pages += [path.read_text() for path in ROOT.glob("paper/proofs/*.md")]
    everything = "\n".join(sources + pages)
    known = {str(work): name for name, work in references.works().items()}
    assert [name for work, name in known.items() if work not in everything and name not in everything] == []
    family = r"[A-ZŁÖÜ][\w'’\-]+"
    cited = set(re.findall(rf"({family}(?: and {family}| et al\.)? (?:19|20)\d\d)\b", everything))
    assert cited - {str(work) for work in references.works().values()} == set()


def test_every_entry_of_the_bibliography_is_read_whole_and_no_other_key_is_known() -> None:
    text = references.FILE.read_text()
    assert len(references.works()) == text.count("@")
    assert sum(len(work.fields) for work in references.works().values()) == text.count(" = {")
    listed = tables.works().splitlines()
    assert len(listed) == len(references.works())
    assert [line.partition(" [Find it](")[0] for line in listed if f"**{references.CUTKOSKY_MEHTA_2020}**" in line] == [
        "- **Cutkosky and Mehta 2020**. Ashok Cutkosky, Harsh Mehta. Momentum improves normalized SGD. ICML, 2020."
    ]
    with pytest.raises(AttributeError, match="cutkosky_2020"):
        _ = references.CUTKOSKY_2020


def test_every_extra_that_is_named_can_be_installed_and_the_readme_names_all() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "evidence").rglob("*.py"),
    ]
    lists = {names for path in pages for names in re.findall(r"(?:gladstorm|'\.)\[([a-z,]+)\]", path.read_text())}
    named = {extra for names in lists for extra in names.split(",")}
    assert {"plot", "numpyro", "data"} <= named <= extras
    assert set(re.findall(r"`\[([a-z]+)\]`", (ROOT / "README.md").read_text())) == extras


def test_links_into_the_playground_show_what_it_has() -> None:
    script = (ROOT / "docs/gallery/plot_15_playground.py").read_text("utf-8")
    playground: dict[str, Any] = {}
    exec(script.partition("# %%")[0], playground)  # what is swept; the sweep itself comes after it
    numbers: dict[str, Any] = {"B": playground["GROWTHS"], "G": playground["AT_START"]}
    numbers |= {name.lower(): json.loads(playground[name]) for name in ("GAMMA", "ETA")}
    for document in ("index.md", "start_training.md", "start_research.md", "start_bound.md"):
        links = re.findall(r'href="playground\.html#?([^"]*)"', (ROOT / "docs" / document).read_text("utf-8"))
        assert links, document
        for name, value in (pair for link in links for pair in parse_qsl(link)):
            if name in numbers:
                assert float(value) in numbers[name], (document, name)
            elif name == "score":
                assert value in SCORES
            else:  # methods by their places
                assert name in ("hide", "heat")
                assert all(int(place) < len(playground["METHODS"]) for place in value.split(","))
    view = playground["VIEW"]
    assert view.keys() - {"problem"} == numbers.keys()
    assert view["problem"] in playground["PROBLEMS"]
    assert all(view[name] in values for name, values in numbers.items())


def test_links_between_documents_lead_somewhere() -> None:
    for document in (
        path for where in ("", "docs/", "docs/evidence/**/", "paper/proofs/") for path in ROOT.glob(f"{where}*.md")
    ):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            script = target.replace("made/gallery/plot_", "gallery/plot_").replace(".rst", ".py")
            source = "conf.py" if target in WRITTEN_BY_THE_BUILD else script
            assert (document.parent / source).exists(), f"{document.name} links to {target}"


def test_the_problems_of_tightness_are_made_from_the_results_beside_them() -> None:
    result = page.load(ROOT / "docs/evidence/tightness")
    problems = page.problems(result.rows)
    assert len(problems) == 18
    for name, problem in problems.items():
        content = load_json("test", ROOT / "docs/evidence/tightness" / name, worst.FORMAT)
        del content["format"]
        assert from_json(type(problem), content) == problem
    for row in result.rows:
        for rung in row.rungs:
            assert max(rung.audit.values()) <= 1 + 1e-6
            assert rung.kind == "any" or (rung.gap_share or 0) <= 0.1  # noise alone
            assert (rung.measured.high or 0) <= (rung.sharper or rung.bound)  # or the bound would be false
