"""The evidence page says what the report beside it says."""

import re
from collections import defaultdict
from typing import Any

import pytest

from evidence.page import regime_in_words
from evidence.study import PAGE, PUBLISHED
from evidence.verification.page import detectable, load, measures_studies, render
from gladstorm.theory import REGIMES

FOLDER = PUBLISHED / "verification"
RATIOS = ("bound", "sharper bound", "wrapper bound", "estimator error")  # columns of the table of cases


@pytest.fixture
def report() -> dict[str, Any]:
    """What is published."""
    return load(FOLDER)


def test_the_page_shows_every_figure_beside_it() -> None:
    shown = set(re.findall(r"!\[[^]]*\]\(([^)]*)\)", (FOLDER / PAGE).read_text(encoding="utf-8")))
    assert shown == {path.name for path in FOLDER.glob("*.png")}


def test_the_report_agrees_with_itself(report: dict[str, Any]) -> None:
    """What is summed up in it is the sum of its checks; it is one of --full, and of every regime."""
    confidence = report["confidence"]
    assert measures_studies(report)
    assert {case["regime"] for case in report["cases"]} == {"/".join(regime) for regime in REGIMES}
    checks = report["checks"]
    assert (report["holds"], confidence["checks"]) == (all(check["holds"] for check in checks), len(checks))
    wide: dict[tuple[float, ...], set[str]] = defaultdict(set)  # instances that have a number
    for check in checks:
        if check["low"] < check["high"]:
            wide[check["measured"], check["low"], check["high"]].add(check["instance"])
    # Noise of two growths has one size at r = 1, but for the last digits that the report does not have.
    alike = sum(len(each) > 1 and all(instance.startswith("noise in") for instance in each) for each in wide.values())
    assert len(wide) <= confidence["random_numbers"] <= len(wide) + alike
    assert confidence["level"] == pytest.approx(1 - confidence["family"] / confidence["random_numbers"], abs=1e-9)
    for case in report["cases"]:
        own = [c for c in checks if (c["regime"], c["instance"]) == (case["regime"], case["instance"])]
        assert (case["checks"], case["holds"]) == (len(own), all(check["holds"] for check in own)), case


def test_the_page_shows_every_case_with_its_numbers_and_every_failure(report: dict[str, Any]) -> None:
    for number, case in enumerate(report["cases"]):  # numbers that tell the cases apart
        case["rate"] = 1 + number / 100
        case["tightness"] = {name: [0.0, 2 + number / 10] for name in case["tightness"]}
    cells = [line.strip("| ").split(" | ") for line in render(report).splitlines()]
    shown = {(row[0], row[1]): row for row in cells if len(row) == 10}
    for case in report["cases"]:
        row = shown[regime_in_words(case["regime"]), case["instance"]]
        assert row[2] == f"{case['rate']:.4g}"
        assert row[3].split()[0] == (f"{case['slope'][0]:.3f}" if case["slope"] else case["slope_remark"].split()[0])
        ratios = [f"{case['tightness'][name][-1]:.2g}" if name in case["tightness"] else "" for name in RATIOS]
        assert [each.strip() for each in row[4:8]] == ratios
        assert row[8:] == [str(case["checks"]), "yes"]
    report["checks"][0]["holds"] = False
    report["cases"][0] |= {"holds": False, "slope": [], "slope_remark": "not testable"}
    text = render(report)
    assert "**1 checks fail**" in text
    assert "| not testable |" in text
    assert text.rstrip().endswith(f"| {report['checks'][0]['seeds']} |")
    assert "| **no** |" in text


def test_an_identity_finds_more_than_its_half_width_with_high_probability() -> None:
    """With normal errors of deviation 1/√n, n = 10⁶, at 99 %: 2.576 + 1.645 deviations, against 2.576."""
    check = {"low": -2.5758e-3, "high": 2.5758e-3, "seeds": 10**6}
    assert detectable(check, 0.99) == pytest.approx(4.2207e-3, rel=1e-3)


def test_what_is_kept_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 500_000
