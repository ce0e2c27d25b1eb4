"""The tables and sentences of `gladstorm suite`, for a terminal and for a page: headings and cells as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gladstorm.comparison.text import interval
from gladstorm.suite.answers import FACTS
from gladstorm.suite.measures import profile

LEGEND = """\
‖∇f‖ is the geometric mean over seeds, f the median, at what a row reports when the budget is spent; smaller is better.
*Relative* is the geometric mean over seeds of its ratio to the reference, on the same noise from the same start; below
1 is better. All intervals are valid at the same time, with 95 % confidence (Bonferroni). *Target reached* is the median
number of stochastic gradients after which ‖∇f‖ stays below twice the best score of the case, and how many of the runs
get there. * means that tuning chose the smallest or largest step size that was tried. ° marks an average on an even
function: iterates that jump over the minimum cancel, for no merit. ! marks another stationary point: ‖∇f‖ is below the
reference's and f above it, both beyond doubt. ↑ means that f ended above f(x⁰), or the run diverged, on most seeds."""
MARKS = {"symmetry": "°", "elsewhere": "!", "ascends": "↑"}

Table = tuple[list[str], list[list[str]]]  # headings, rows


def title(result: Mapping[str, Any], case: Mapping[str, Any]) -> str:
    """What a table is about."""
    facts = result["problems"][case["problem"]]
    kind = "its own noise" if facts["natural"] else "added noise"
    where = "far" if facts["far"] else "near"
    told = f"{case['problem']} ({facts['role']}): {facts['about']}; d = {facts['dim']}, {kind}, {where} starts"
    return f"{told}; {case['budget']:,} stochastic gradients"


def of_case(result: Mapping[str, Any], case: Mapping[str, Any]) -> Table:
    """One problem at one budget: a row for each method."""
    facts, reference = result["problems"][case["problem"]], result["config"]["reference"]
    known = facts["inf f"] is not None
    values = ["f − inf f", "relative"] if known else ["f"]
    headings = ["method", "γ", f"‖{facts['field']}‖", "relative", *values, "target reached", "diverged"]
    rows = []
    for name, row in case["rows"].items():
        marks = "".join(MARKS[flag] for flag in row["flags"])
        tuned = ", ".join(f"{number:.3g}" for number in row["tuned"].values()) + " *" * bool(row["at_edge"])
        relative = {
            key: "1" if name == reference else "" if found is None else between(found)
            for key, found in row["relative"].items()
        }
        f = [_median(row["gap"]), relative["gap"]] if known else [_median(row["value"])]
        cells = [name + f" {marks}" * bool(marks), tuned, _number(row["score"]), relative["grad_norm"], *f]
        rows.append([*cells, _reached(row["reached"]), f"{row['diverged']} of {len(row['grad_norm'])}"])
    return headings, rows


def over_cases(result: Mapping[str, Any]) -> Table:
    """All cases: a row for each method."""
    rows = []
    longest = max(result["config"]["budgets"])
    for name in result["methods"]:
        of = [case["rows"][name] for case in result["cases"]]
        ratios = np.array([np.inf if row["to_best"] is None else row["to_best"] for row in of])
        alive = ratios[np.isfinite(ratios)]
        mean = (
            f"{np.exp(np.log(alive).mean()):.3g}"
            if alive.size == ratios.size
            else f"failed in {np.isinf(ratios).sum()}"
        )
        within = [f"{round(share * ratios.size)}" for share in profile(ratios, np.array([1.0, 2.0]))]
        late = [case["rows"][name]["reached"] for case in result["cases"] if case["budget"] == longest]
        got = sum(time is not None for times in late for time in times)
        lost = sum(row["diverged"] for row in of)
        runs = sum(len(row["grad_norm"]) for row in of)
        worst = "∞" if alive.size < ratios.size else f"{ratios.max():.3g}"
        rows.append([name, mean, worst, *within, f"{got} of {sum(map(len, late))}", f"{lost} of {runs}"])
    count = len(result["cases"])
    within = [f"best, of {count} cases", "within 2 ×"]
    return ["method", "to the best, geometric mean", "worst", *within, "runs that reach the target", "diverged"], rows


def in_short(answers: Sequence[Mapping[str, Any]]) -> str:
    """One sentence for all questions; `sentence` has the rows that support each of its parts."""
    *first, last = map(_part, answers)
    return f"If you tune the step size, {', '.join(first)}{', and ' * bool(first)}{last}."


def _part(answer: Mapping[str, Any]) -> str:
    deed, where, clearest = answer["deed"], answer["where"], answer["clearest"]
    if where is not None:
        return f"{deed} where {where['words']}"
    if clearest["better"] is not None:
        return f"{deed} only where a trial of your own shows that it helps"
    if clearest["worse"] is not None:
        return f"do not {deed}"
    return f"try for yourself whether to {deed}"


def sentence(answer: Mapping[str, Any]) -> str:
    """How often it is better, where, how often it diverges, and the clearest cases for and against."""
    does, does_not = answer["does"], answer["does_not"]
    verdicts = [each["verdict"] for each in answer["cases"]]
    better, worse, rest = (verdicts.count(word) for word in ("better", "worse", "cannot tell"))
    lost = [sum(each["diverged"][place] for each in answer["cases"]) for place in (0, 1)]
    told = [
        f"{does[:1].upper()}{does[1:]} is better than {does_not} in {better} of {len(verdicts)} cases and worse in "
        f"{worse}; in {rest} the intervals cannot tell"
    ]
    if (where := answer["where"]) is not None:
        (good, such), (others, elsewhere) = where["better"], where["better_elsewhere"]
        told.append(
            f"Where {where['words']}, it is better in {good} of {such} cases and worse in {where['worse']}; elsewhere "
            f"better in {others} of {elsewhere}"
        )
    elif better:
        told.append(f"None of the {len(FACTS)} facts about problems that we tried says where it is better")
    told.append(f"Runs that diverged: {lost[0]} with {does}, {lost[1]} with {does_not}")
    told += [f"The clearest case {word} it: {row_of(each)}" for word, each in _clearest(answer) if each is not None]
    return ". ".join(told) + "."


def _clearest(answer: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any] | None]]:
    """The clearest cases for and against; where the answer names a fact, the first is one of which it holds."""
    where, clearest = answer["where"], answer["clearest"]
    return [("for", clearest["better"] if where is None else where["clearest"]), ("against", clearest["worse"])]


def row_of(each: Mapping[str, Any]) -> str:
    """One comparison."""
    one, other = (f'"{name}"' for name in each["rows"])
    at = f"on {each['problem']} with {each['budget']:,} gradients"
    if each["relative"]["mean"] is not None:
        return f"{at}, ‖∇f‖ of {one} is {between(each['relative'])} times that of {other}"
    seeds, lost = each["seeds"], " against ".join(map(str, each["diverged"]))
    better = f"{seeds['better']} of {seeds['of']} seeds (share {seeds['low']:.2g} to {seeds['high']:.2g})"
    return f"{at}, {one} does better than {other} on {better}, and {lost} runs diverge"


def between(found: Mapping[str, Any]) -> str:
    """A ratio with its interval."""
    return interval(found, "{mean:.3g} ({low:.3g} to {high:.3g})")


def _number(value: float | None) -> str:
    return "∞" if value is None else f"{value:.3g}"


def _median(values: list[float | None]) -> str:
    median = float(np.median([np.inf if value is None else value for value in values]))
    return "∞" if np.isinf(median) else f"{median:.3g}"


def _reached(times: list[float | None]) -> str:
    count = sum(time is not None for time in times)
    median = float(np.median([np.inf if time is None else time for time in times]))
    return (f"{median:,.0f}, " if np.isfinite(median) else "") + f"{count} of {len(times)}"
