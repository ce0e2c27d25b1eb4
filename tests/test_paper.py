"""The paper and the report: every number is that of the results, every name and work that they use exists."""

import re

from gladstorm.core import references
from paper.values import ROOT, every, filled

PAPER = (ROOT / "paper/paper.md").read_text("utf-8")
REPORT = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "paper/report").glob("*.typ")))


def test_every_number_of_the_paper_is_that_of_the_results() -> None:
    found = every()
    assert filled(PAPER, found["texts"]) == PAPER, "run make paper"
    assert set(re.findall(r'\bn\("(\w+)"\)', REPORT)) <= set(found["texts"])
    assert set(re.findall(r'\bdata\("(\w+)"', REPORT)) == set(found["tables"])


def test_every_work_cited_is_listed_as_the_package_lists_it_and_no_other_is() -> None:
    text = (ROOT / "paper/paper.bib").read_text("utf-8")
    listed = {match[1]: match[0] for match in re.finditer(r"^@\w+\{(\w+),\n.*?^\}$", text, re.DOTALL | re.MULTILINE)}
    cited = set(re.findall(r"@(\w+)", PAPER)) | set(re.findall(r"[@<]([a-z]+(?:_[a-z]+)*_\d{4}|numpyro)", REPORT))
    assert cited == set(listed)
    own = (ROOT / "src/gladstorm/core/references.bib").read_text("utf-8")
    assert all(entry in own for key, entry in listed.items() if key in references.works())


def test_every_figure_of_the_report_is_there() -> None:
    figures = re.findall(r'evidence\("([\w/.-]+)"', REPORT)
    assert figures
    assert all((ROOT / "docs/evidence" / figure).exists() for figure in figures)
