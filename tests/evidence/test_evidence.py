"""The evidence page says what the report beside it says."""

import runpy
from pathlib import Path

import pytest

from gladstorm.plotting.styles import regime_in_words

ROOT = Path(__file__).parents[2]
PAGE = runpy.run_path(str(ROOT / "docs/generate_evidence.py"))


def test_the_page_is_made_from_the_report_beside_it() -> None:
    assert (ROOT / "docs/evidence/verification").read_text(encoding="utf-8") == PAGE["evidence"](
        PAGE["kept"](), PAGE["found"]()
    )


def test_the_page_shows_every_case_and_every_failure() -> None:
    report = PAGE["kept"]()
    for case in report["cases"]:
        assert f"| {regime_in_words(case['regime'])} | {case['instance']} |" in PAGE["evidence"](
            report, PAGE["found"]()
        )
    report["checks"][0]["holds"] = False
    report["cases"][0] |= {"holds": False, "slope": [], "slope_remark": "not testable"}
    text = PAGE["evidence"](report, PAGE["found"]())
    assert "**1 checks fail**" in text
    assert "| not testable |" in text
    assert text.rstrip().endswith(f"| {report['checks'][0]['seeds']} |")
    assert "| **no** |" in text


def test_what_the_page_concludes_changes_with_the_numbers() -> None:
    report, found = PAGE["kept"](), PAGE["found"]()
    if PAGE["measures_studies"](report):
        studies = report["studies"]
        for row in studies["inertia"]:
            row["below"] = {question: [1.0, 0.9, 1.0] for question in row["below"]}
        for row in studies["hard instances"]:
            row["per_seed"] = [100 * row["needed"] * row["eps"] ** -0.5 + seed for seed in range(16)]
        for row in studies["robustness"]:
            row["diverged"] = 0.25
        for row in studies["robustness ratios"]:
            row |= {"mean": 2.0, "low": 1.5, "high": 3.0}
        text = " ".join(PAGE["evidence"](report, found).split())  # wherever its lines break
        assert "Undecided: 0 of" in text
        assert "less often than not" not in text
        assert "STORM's best η leaves it behind momentum's in 0" in text
        assert "the number grows faster: NSGDM on the zero-chain, NSTORM on the zero-chain" in text
        assert "ends lower than both normalized methods in 0 of 11 settings" in text
        assert "one of the normalized methods ends lower than both kinds of SGD in 11" in text
        assert "at most 25% of the runs diverge" in text
    assert f"It finds all {len(found)}, everywhere" in PAGE["evidence"](report, found)
    found[0]["found_in"] -= 1
    assert f"Not found everywhere: {found[0]['broken']}." in PAGE["evidence"](report, found)


def test_an_identity_finds_more_than_its_half_width_with_high_probability() -> None:
    """With normal errors of deviation 1/√n, n = 10⁶, at 99 %: 2.576 + 1.645 deviations, against 2.576."""
    check = {"low": -2.5758e-3, "high": 2.5758e-3, "seeds": 10**6}
    assert PAGE["detectable"](check, 0.99) == pytest.approx(4.2207e-3, rel=1e-3)


def test_what_is_kept_is_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "docs/evidence").iterdir()) < 500_000
