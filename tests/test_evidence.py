"""The evidence page says what the report beside it says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = runpy.run_path(str(ROOT / "docs/generate_evidence.py"))


def test_the_page_is_made_from_the_report_beside_it() -> None:
    assert (ROOT / "docs/evidence.md").read_text(encoding="utf-8") == PAGE["evidence"](PAGE["kept"]())


def test_the_page_shows_every_case_and_every_failure() -> None:
    report = PAGE["kept"]()
    for case in report["cases"]:
        assert f"| {case['regime']} | {case['instance']} |" in PAGE["evidence"](report)
    report["checks"][0]["holds"] = False
    report["cases"][0] |= {"holds": False, "slope": [], "slope_remark": "not testable"}
    text = PAGE["evidence"](report)
    assert "**1 of them fail**" in text
    assert "| not testable |" in text
    assert text.rstrip().endswith(f"| {report['checks'][0]['seeds']} |")
    assert "| **no** |" in text


def test_what_is_kept_is_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "docs/evidence").iterdir()) < 500_000
