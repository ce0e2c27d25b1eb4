"""When should I normalize, when clip, when reduce variance? Answered from paired intervals, case by case.

A question sets a method against the one it changes. Each runs as tuning prefers, with a constant step size or with a
linear decay. A verdict needs an interval: of the ratio of ‖∇f‖, on one side of 1; or, where seeds diverged and the
ratio has no mean, of the share of paired seeds that did better, on one side of ½, from who loses no more seeds. All
intervals of the three questions are valid at the same time.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gladstorm.comparison.scores import CONFIDENCE, ratio
from gladstorm.core.estimate import Estimate
from gladstorm.core.statistics import share_interval, significant
from gladstorm.suite.result import Answer, CaseAnswer, SeedShare, SuiteCase, SuiteResult

DIGITS = 4  # that answers keep


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


def answers(result: SuiteResult) -> list[Answer]:
    """One answer for each question whose two methods were run."""
    ran = {row.method for row in result.methods.values()}
    questions = [question for question in QUESTIONS if {question.does, question.does_not} <= ran]
    return [_answer(result, question, len(questions) * len(result.cases)) for question in questions]


def _answer(result: SuiteResult, question: Question, comparisons: int) -> Answer:
    cases = []
    for case in result.cases:
        chosen, other = (_preferred(result, case, method) for method in (question.does, question.does_not))
        with_it, without = case.rows[chosen], case.rows[other]
        numbers, others = (np.array(row.grad_norm, float) for row in (with_it, without))  # None is NaN
        relative, seeds = ratio(numbers, others, comparisons), share_of_seeds(numbers, others, comparisons)
        lost = (with_it.diverged, without.diverged)
        shown = replace(seeds, low=significant(seeds.low, DIGITS), high=significant(seeds.high, DIGITS))
        rounded = relative.map(lambda end: significant(end, DIGITS))
        judged = verdict(relative, seeds, *lost)
        cases.append(CaseAnswer(case.problem, case.budget, (chosen, other), lost, rounded, shown, judged))
    better, worse = (_clearest([case for case in cases if case.verdict == word]) for word in ("better", "worse"))
    deed, does, does_not = question
    return Answer(deed, does, does_not, cases, better, worse)


def share_of_seeds(scores: np.ndarray, other: np.ndarray, comparisons: int) -> SeedShare:
    """Return on how many of the paired seeds on which two methods differ the first did better; to diverge is worst.

    The interval of the share is Clopper and Pearson's, which is exact; it accounts for the number of comparisons.
    """
    scores, other = (np.where(np.isfinite(values), values, np.inf) for values in (scores, other))
    better, differ = int(np.sum(scores < other)), int(np.sum(scores != other))
    if differ == 0:
        return SeedShare(0, 0, 0.0, 1.0)
    return SeedShare(better, differ, *share_interval(better, differ, 1 - (1 - CONFIDENCE) / comparisons))


def verdict(relative: Estimate, seeds: SeedShare, diverged: int, diverged_without: int) -> str:
    """Better, worse or cannot tell: by the ratio, or by the seeds where no ratio is finite.

    Who does better on most seeds and loses more of the others is neither better nor worse.
    """
    if relative.value is None:
        better = seeds.low > 0.5 and diverged <= diverged_without
        worse = seeds.high < 0.5 and diverged >= diverged_without
        return "better" if better else "worse" if worse else "cannot tell"
    if relative.low is None or relative.high is None:
        return "cannot tell"
    return "better" if relative.high < 1 else "worse" if relative.low > 1 else "cannot tell"


def _clearest(cases: list[CaseAnswer]) -> CaseAnswer | None:
    """The case whose ratio's interval stays farthest from 1; one without a ratio if there is no other."""

    def distance(case: CaseAnswer) -> float:
        low, high = case.relative.low, case.relative.high
        if low is None or high is None:
            return 0.0
        return abs(float(np.log(high if high < 1 else low)))

    return max(cases, key=distance, default=None)


def _preferred(result: SuiteResult, case: SuiteCase, method: str) -> str:
    """The row of a method that did best on the tuning seeds."""
    rows: list[str] = [name for name, row in result.methods.items() if row.method == method]
    scores = np.array([case.rows[name].tuning_score for name in rows], float)  # None is NaN
    return rows[int(np.argmin(np.where(np.isnan(scores), np.inf, scores)))]
