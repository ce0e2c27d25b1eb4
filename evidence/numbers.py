"""Numbers that README and docs repeat from studies and theorems, each under a name.

In a document a number stands behind its name, `<!--untuned.cases-->21<!---->`, which no reader sees. `python -m
evidence.tables` writes all of them anew, and a test compares them.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent.parent / "docs" / "evidence"
MARKED = re.compile(r"<!--([a-z]+)\.([^>]+?)-->(.*?)<!---->", re.DOTALL)


def renewed_numbers(text: str) -> str:
    """Return a document with every marked number as the results have it now."""
    return MARKED.sub(lambda mark: f"<!--{mark[1]}.{mark[2]}-->{_number(mark[1], mark[2])}<!---->", text)


def _number(study: str, name: str) -> str:
    if study not in STUDIES or name not in STUDIES[study]():
        known = ", ".join(STUDIES[study]() if study in STUDIES else STUDIES)
        raise ValueError(f"tables: a marked number must be one of {known}; got {study}.{name}.")
    return STUDIES[study]()[name]


@cache
def untuned() -> Mapping[str, str]:
    """Return what the second judgement of the untuned method found."""
    from evidence.untuned import page
    from evidence.untuned.rivals import COSINE

    results = page.load(DOCS / "untuned")["second"]
    verdicts = [sentence.verdict.strip("*") for sentence in page.sentences(results)]
    near = {name: str(count) for name, count in page.near_the_best(results, 1.5).items()}
    return {
        "cases": str(len(results)),
        "norm": f"{np.median([result.ratio('norm') for result in results]):.2f}",
        "value": f"{np.median([result.ratio('loss') for result in results]):.2f}",
        "below-adam": str(sum(result.ratio("loss", to=COSINE) < 1 for result in results)),
        "sentences": str(len(verdicts)),
        "true": str(verdicts.count("true")),
        "false": str(verdicts.count("false")),
        "near": near["untuned"],
        "near-adam": near["Adam"],
        "near-sgd": near["SGD"],
    }


@cache
def posteriors() -> Mapping[str, str]:
    """Return what the fits of mean-field Gaussians to real posteriors reached, and how many sentences hold."""
    from evidence.posteriors import page

    results = page.load(DOCS / "posteriors")
    judged = [case for case in results["cases"] if (case["set"], case["family"]) == ("validation", "mean field")]
    verdicts = [sentence["verdict"] for sentence in page.sentences(results)]
    gaps = {"ours": page.OURS, "adam": "Adam 0.01", "tuned": page.TUNED_STL}
    counts = {"models": len(judged), "sentences": len(verdicts), "true": verdicts.count("true")}
    return {
        **{name: str(count) for name, count in counts.items()},
        **{name: f"{page.score(judged, method, 10_000):.2g}" for name, method in gaps.items()},
    }


@cache
def suite() -> Mapping[str, str]:
    """Return what the suite found over all its cases: `worse.normalize`, `within.SGD-linear`, `worst.Adam-linear`."""
    from evidence.suite.page import load
    from gladstorm.suite import tables

    result = load(DOCS / "suite")
    numbers = {"problems": str(len(result["problems"])), "cases": str(len(result["cases"]))}
    for answer in result["answers"]:
        verdicts, deed = [case["verdict"] for case in answer["cases"]], answer["deed"].replace(" ", "-")
        numbers |= {f"{word}.{deed}": str(verdicts.count(word)) for word in ("better", "worse")}
    for name, mean, worst, best, within, _, diverged in tables.over_cases(result)[1]:
        row = name.replace(", ", "-").replace(" ", "-")
        numbers |= {f"mean.{row}": mean, f"worst.{row}": worst, f"best.{row}": best, f"within.{row}": within}
        numbers[f"diverged.{row}"] = diverged.partition(" ")[0]
    return numbers


@cache
def verification() -> Mapping[str, str]:
    """Return measured norms as percentages of a bound: `nsgdm.low` to `nsgdm.high` over problems at T = 100,000."""
    from evidence.verification.page import load

    report = load(DOCS / "verification")
    horizons = report["settings"]["horizons"]
    numbers = {}
    for method in ("nsgdm", "nstorm"):
        cases = [case for case in report["cases"] if case["regime"] == f"{method}/smooth/bg0"]
        last = [100 * case["tightness"]["bound"][-1] for case in cases]
        numbers |= {f"{method}.low": f"{min(last):.0f}", f"{method}.high": f"{max(last):.0f}"}
        for case in cases:
            name = case["instance"].partition(",")[0].replace(" ", "-")
            numbers[f"{method}.{name}"] = f"{100 * case['tightness']['bound'][horizons.index(10_000)]:.0f}"
    return numbers


STUDIES: dict[str, Callable[[], Mapping[str, str]]] = {
    "untuned": untuned,
    "posteriors": posteriors,
    "suite": suite,
    "verification": verification,
}
