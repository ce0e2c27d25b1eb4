"""The evidence page says what the report beside it says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
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


def test_what_the_page_concludes_changes_with_the_numbers() -> None:
    report = PAGE["kept"]()
    studies = report["studies"]
    for row in studies["inertia"]:
        row["below"] = {question: [1.0, 0.9, 1.0] for question in row["below"]}
    for row in studies["hard instances"]:
        row["per_seed"] = [100 * row["needed"] * row["eps"] ** -0.5 + seed for seed in range(16)]
    for row in studies["robustness"]:
        row["final"] = [1.0 if row["method"] == "NSTORM" else 2.0] * 3
        row["diverged"] = 0.25
    text = " ".join(PAGE["evidence"](report).split())  # wherever its lines break
    assert "Undecided: 0 of" in text
    assert "less often than not" not in text
    assert "STORM's best η leaves it behind momentum's in 0" in text
    assert "SFO grows faster: NSGDM on the zero-chain, NSTORM on the zero-chain" in text
    assert "both normalized methods in 0 of" in text
    assert "share of diverged runs is 25% at most" in text
    assert "not below NSGDM" not in text


def test_what_is_kept_is_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "docs/evidence").iterdir()) < 500_000
