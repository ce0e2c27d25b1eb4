"""What the documents say is what the code does."""

import re
import runpy
from pathlib import Path

from gladstorm.theory.table import markdown

ROOT = Path(__file__).parent.parent


def test_the_tables_of_methods_and_parts_are_the_code_s() -> None:
    made_by = runpy.run_path(str(ROOT / "docs/generate_tables.py"))
    for path, renewed in ((ROOT / "README.md", "readme"), (ROOT / "docs/methods.md", "methods")):
        assert path.read_text() == made_by[renewed](path.read_text())


def test_the_comparison_page_is_made_from_the_results_beside_it() -> None:
    made_by = runpy.run_path(str(ROOT / "docs/generate_comparison.py"))
    assert (ROOT / "docs/comparison.md").read_text() == made_by["page"](made_by["kept"]())


def test_links_between_documents_lead_somewhere() -> None:
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_complexity_table_of_the_documents_is_the_code_s() -> None:
    assert (ROOT / "docs/theory.md").read_text().endswith(f"-->\n{markdown()}\n")


def test_the_reproduction_page_is_made_from_the_summaries_beside_it() -> None:
    made_by = runpy.run_path(str(ROOT / "docs/generate_reproduction.py"))
    assert (ROOT / "docs/reproduction.md").read_text() == made_by["reproduction"](made_by["kept"]())
    text = (ROOT / "README.md").read_text()
    assert text == made_by["readme"](text, made_by["kept"]())
