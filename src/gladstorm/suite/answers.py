"""When should I normalize, when clip, when reduce variance? Answered from paired intervals, case by case.

A question sets a method against the one it changes. Each runs as tuning prefers, with a constant step size or with a
linear decay. A verdict needs an interval: of the ratio of ‖∇f‖, on one side of 1; or, where seeds diverged and the
ratio has no mean, of the share of paired seeds that did better, on one side of ½, from who loses no more seeds. All
intervals of the three questions are valid at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from gladstorm.comparison.intervals import CONFIDENCE, ratio


class Question(NamedTuple):
    """Whether to do something: the method that does, and the one that does not."""

    deed: str
    does: str
    does_not: str


QUESTIONS = (
    Question("normalize", "NSGDM", "SGD"),
    Question("clip", "clipped SGD", "SGD"),
    Question("reduce variance", "NSTORM", "NSGDM"),
)
# Facts by which cases may be told apart, in words that follow "where".
FACTS: dict[str, Callable[[Mapping[str, Any], int], bool]] = {
    "the noise grows faster than BG-0 allows": lambda facts, _: bool(facts["outside"]) and facts["field"] == "∇f",
    "the noise is the problem's own": lambda facts, _: bool(facts["natural"]),
    "the start is far": lambda facts, _: bool(facts["far"]),
    "x has 20 numbers or more": lambda facts, _: bool(facts["dim"] >= 20),
    "the budget is 1,000 or less": lambda _, budget: budget <= 1000,
}


def answers(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One answer for each question whose two methods were run."""
    ran = {row["method"] for row in result["methods"].values()}
    asked = [each for each in QUESTIONS if {each.does, each.does_not} <= ran]
    return [_answer(result, question, len(asked) * len(result["cases"])) for question in asked]


def _answer(result: Mapping[str, Any], question: Question, comparisons: int) -> dict[str, Any]:
    found = []
    for case in result["cases"]:
        one, other = (_preferred(result, case, method) for method in (question.does, question.does_not))
        with_it, without = case["rows"][one], case["rows"][other]
        numbers, others = _numbers(with_it), _numbers(without)
        relative, seeds = ratio(numbers, others, comparisons), share_of_seeds(numbers, others, comparisons)
        found.append(
            {
                "problem": case["problem"],
                "budget": case["budget"],
                "rows": [one, other],
                "diverged": [with_it["diverged"], without["diverged"]],
                "relative": _rounded(relative),
                "seeds": _rounded(seeds),
                "verdict": verdict(relative, seeds, with_it["diverged"], without["diverged"]),
            }
        )
    told = {word: _clearest([each for each in found if each["verdict"] == word]) for word in ("better", "worse")}
    return question._asdict() | {"cases": found, "clearest": told, "where": _where(result, found)}


def share_of_seeds(one: np.ndarray, other: np.ndarray, comparisons: int) -> dict[str, Any]:
    """Of the paired seeds on which two methods differ, those on which the first did better; to diverge is worst.

    The interval of the share is Clopper and Pearson's, which is exact; it accounts for the number of comparisons.

    >>> found = share_of_seeds(np.array([1.0, 1.0, np.nan]), np.array([2.0, np.nan, np.nan]), 1)
    >>> found["better"], found["of"], round(found["low"], 3), found["high"]
    (2, 2, 0.158, 1.0)
    """
    one, other = (np.where(np.isfinite(each), each, np.inf) for each in (one, other))
    better, differ = int(np.sum(one < other)), int(np.sum(one != other))
    if differ == 0:
        return {"better": 0, "of": 0, "low": 0.0, "high": 1.0}
    low, high = stats.binomtest(better, differ).proportion_ci(1 - (1 - CONFIDENCE) / comparisons, "exact")
    return {"better": better, "of": differ, "low": float(low), "high": float(high)}


def verdict(relative: Mapping[str, Any], seeds: Mapping[str, Any], diverged: int, diverged_without: int) -> str:
    """Better, worse or cannot tell: by the ratio, or by the seeds where no ratio is finite.

    Who does better on most seeds and loses more of the others is neither better nor worse.
    """
    if relative["mean"] is None:
        better = seeds["low"] > 0.5 and diverged <= diverged_without
        worse = seeds["high"] < 0.5 and diverged >= diverged_without
        return "better" if better else "worse" if worse else "cannot tell"
    if relative["low"] is None:
        return "cannot tell"
    return "better" if relative["high"] < 1 else "worse" if relative["low"] > 1 else "cannot tell"


def _clearest(cases: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The case whose ratio's interval stays farthest from 1; one without a ratio if there is no other."""

    def distance(each: Mapping[str, Any]) -> float:
        relative = each["relative"]
        if relative["mean"] is None:
            return 0.0
        return abs(float(np.log(relative["high"] if relative["high"] < 1 else relative["low"])))

    return max(cases, key=distance, default=None)


def _preferred(result: Mapping[str, Any], case: Mapping[str, Any], method: str) -> str:
    """The row of a method that did best on the tuning seeds."""
    own = [name for name, row in result["methods"].items() if row["method"] == method]
    scores = {name: case["rows"][name]["tuning_score"] for name in own}
    best: str = min(own, key=lambda name: np.inf if scores[name] is None else scores[name])
    return best


def _where(result: Mapping[str, Any], cases: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The fact that separates the cases where it is better from the others most, if it is so more often than not."""
    best: dict[str, Any] | None = None
    for words, holds in FACTS.items():
        such = [each for each in cases if holds(result["problems"][each["problem"]], each["budget"])]
        others = [each for each in cases if each not in such]
        if not such or not others:
            continue
        better = [[each for each in some if each["verdict"] == "better"] for some in (such, others)]
        lead = len(better[0]) / len(such) - len(better[1]) / len(others)
        if 2 * len(better[0]) > len(such) and lead > (best["lead"] if best else 0):
            counts = [[len(some), len(all_)] for some, all_ in zip(better, (such, others), strict=True)]
            best = {"words": words, "lead": float(f"{lead:.4g}"), "better": counts[0], "better_elsewhere": counts[1]}
            best |= {"worse": sum(each["verdict"] == "worse" for each in such), "clearest": _clearest(better[0])}
    return best


def _numbers(row: Mapping[str, Any]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in row["grad_norm"]], float)


def _rounded(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in found.items()}
