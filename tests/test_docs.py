"""What the documents say is what the code does."""

import re
import runpy
from pathlib import Path

from gladstorm import nsgdm, nstorm, sgd, storm
from gladstorm.theory.table import markdown

ROOT = Path(__file__).parent.parent


def test_the_method_table_of_the_readme_is_the_code_s() -> None:
    text = (ROOT / "README.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)\(.*?\)` \| (\w+ \| \w+ \| \w+) \|", text, re.MULTILINE))
    made = {"nsgdm": nsgdm(1, 1), "nstorm": nstorm(1, 1), "sgd": sgd(1), "storm": storm(1, 1)}
    assert rows == {
        name: " | ".join(type(part).__name__ for part in (method.estimator, method.step, method.batch))
        for name, method in made.items()
    }


def test_links_between_documents_lead_somewhere() -> None:
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_complexity_table_of_the_documents_is_the_code_s() -> None:
    assert (ROOT / "docs/theory.md").read_text().endswith(f"-->\n{markdown()}\n")


def test_the_reproduction_page_is_made_from_the_summaries_beside_it() -> None:
    made_by = runpy.run_path(str(ROOT / "docs/generate.py"))
    assert (ROOT / "docs/reproduction.md").read_text() == made_by["reproduction"](made_by["kept"]())
    text = (ROOT / "README.md").read_text()
    assert text == made_by["readme"](text, made_by["kept"]())
