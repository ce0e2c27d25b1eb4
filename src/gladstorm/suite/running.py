"""Problem after problem, budget after budget: tuned, reported, and put into numbers that can be kept as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from gladstorm.comparison.compare import FIRST_TUNING_SEED, Compared, compare
from gladstorm.comparison.intervals import ratio
from gladstorm.core.names import require_known
from gladstorm.core.rules import COUNT
from gladstorm.core.statistics import finite
from gladstorm.jobs.progress import remark
from gladstorm.jobs.provenance import versions
from gladstorm.suite.answers import answers
from gladstorm.suite.entries import LINEAR, Entry, gradient_size, made
from gladstorm.suite.measures import TARGET, geometric_mean, reached, to_best
from gladstorm.suite.problem import Role, SuiteProblem
from gladstorm.suite.problems import PROBLEMS

FORMAT = "gladstorm suite 1"
DIGITS = 5  # of what is kept


@dataclass(frozen=True)
class SuiteSettings:
    """How much is run."""

    budgets: tuple[int, ...]  # of stochastic gradients, each a comparison of its own
    seeds: int  # reported
    tuning_seeds: int
    step_sizes: int  # tried
    problems: tuple[str, ...] = tuple(PROBLEMS)

    def check(self) -> None:
        """Raise a ValueError unless every number is a count."""
        for name in ("budgets", "seeds", "tuning_seeds", "step_sizes"):
            COUNT.require("suite", name, getattr(self, name))


FULL = SuiteSettings((1_000, 10_000), seeds=20, tuning_seeds=5, step_sizes=11)
QUICK = SuiteSettings((30, 100), seeds=3, tuning_seeds=2, step_sizes=3, problems=("cubic", "counts"))


def choose(names: Sequence[str] | None, role: str | None) -> tuple[str, ...]:
    """The problems of these names and this role, in the order of the suite; None stands for all."""
    for name in names or ():
        require_known("suite: problem", name, PROBLEMS)
    if role is not None:
        require_known("suite: role", role, get_args(Role))
    chosen = [each for each in PROBLEMS.values() if each.name in (names or PROBLEMS) and role in (None, each.role)]
    if not chosen:
        raise ValueError(f"suite: some problem must have this name and role; got {names} and {role!r}.")
    return tuple(each.name for each in chosen)


def run(
    rows: Mapping[str, Entry],
    settings: SuiteSettings = FULL,
    *,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
) -> dict[str, Any]:
    """Everything the suite has to say about some rows, JSON-ready. `store` and `executor` are those of `sweep`."""
    settings.check()
    asked = [(PROBLEMS[name], budget) for name in settings.problems for budget in settings.budgets]
    comparisons = len(asked) * (len(rows) - 1)
    cases = []
    for number, (problem, budget) in enumerate(asked, 1):
        if progress:
            remark(f"suite: case {number} of {len(asked)}, {problem.name}, {budget:,} stochastic gradients …")
        low, high = problem.step_sizes
        size = gradient_size(problem.oracle(FIRST_TUNING_SEED), FIRST_TUNING_SEED)
        methods = made(rows.values(), np.geomspace(low, high, settings.step_sizes).tolist(), size)
        found = compare(
            problem.oracle,
            dict(zip(rows, methods, strict=True)),
            budget=budget,
            seeds=settings.seeds,
            tuning_seeds=settings.tuning_seeds,
            progress=progress,
            store=store,
            executor=executor,
        )
        cases.append(case(problem, budget, found, comparisons) | {"gradient_size": _round(size)})
    result = {
        "config": asdict(settings) | {"target": TARGET, "reference": reference(list(rows)), "versions": versions()},
        "methods": {name: {"method": row.name, "text": row.text, "decay": row.power} for name, row in rows.items()},
        "problems": {name: PROBLEMS[name].facts for name in settings.problems},
        "cases": cases,
    }
    return result | {"answers": answers(result)}


def reference(rows: Sequence[str]) -> str:
    """The row that others are measured by: that of the first method, with its decay if it has one.

    >>> reference(["SGD", "SGD, linear", "DoG"]), reference(["DoG", "SGD"])
    ('SGD, linear', 'DoG')
    """
    return rows[0] + LINEAR if rows[0] + LINEAR in rows else rows[0]


def case(problem: SuiteProblem, budget: int, found: Mapping[str, Compared], comparisons: int) -> dict[str, Any]:
    """One problem at one budget: what every row reports, how it stands to the reference and to the best."""
    scores = {row: geometric_mean(each.grad_norm) for row, each in found.items()}
    ratios = to_best({row: [score] for row, score in scores.items()})
    target = TARGET * min(scores.values())
    first = found[reference(list(found))]
    return {
        "problem": problem.name,
        "budget": budget,
        "target": _round(target),
        "rows": {
            row: _row(problem, each, first, comparisons, target)
            | {"score": _round(scores[row]), "to_best": _round(ratios[row][0])}
            for row, each in found.items()
        },
    }


def _row(problem: SuiteProblem, each: Compared, first: Compared, comparisons: int, target: float) -> dict[str, Any]:
    tuning, record = each.tuning, each.record
    chosen = tuning.configurations[int(np.argmin(each.settings))]
    relative = {
        "grad_norm": _relative(each.grad_norm, first.grad_norm, comparisons),
        "gap": _relative(each.gap, first.gap, comparisons),
    }
    averaged = record.config["methods"][record.labels[0]]["average"] is not None
    times = reached(record.reported_grad_norm[0], record.sfo[0], each.budget, target)
    return {
        "tuned": {field: _round(chosen.numbers[field]) for field in chosen.swept},
        "at_edge": each.at_edge,
        "tuning_score": _round(float(each.settings.min())),
        "steps": int(record.steps[each.ends].max()),
        "diverged": each.diverged,
        "grad_norm": _rounded(each.grad_norm),
        "value": _rounded(each.value),
        "gap": None if each.gap is None else _rounded(each.gap),
        "relative": relative,
        "reached": _rounded(times),
        "flags": flags(relative, even=problem.even_about is not None, averaged=averaged, ascends=each.ascends),
    }


def flags(relative: Mapping[str, Any], *, even: bool, averaged: bool, ascends: bool) -> list[str]:
    """What makes a row's ‖∇f‖ look better than its method is.

    `symmetry`: an average of iterates that jump to and fro over the minimum of an even function is near it for no
    merit. `ascends`: on most seeds f ended above f(x⁰), or the run diverged. `elsewhere`: ‖∇f‖ is smaller than the
    reference's and f − inf f larger, both beyond doubt: the stationary point is another.
    """
    found = ["symmetry"] * (even and averaged) + ["ascends"] * ascends
    norm, gap = relative["grad_norm"], relative["gap"]
    told = gap is not None and norm["high"] is not None and gap["low"] is not None
    return found + (["elsewhere"] if told and norm["high"] < 1 < gap["low"] else [])


def _relative(one: np.ndarray | None, other: np.ndarray | None, comparisons: int) -> dict[str, Any] | None:
    if one is None or other is None:
        return None
    found = ratio(one, other, max(1, comparisons))
    return {end: None if value is None else _round(value) for end, value in found.items()}


def _rounded(values: np.ndarray) -> list[float | None]:
    return [_round(value) for value in values.tolist()]


def _round(value: float) -> float | None:
    return finite(float(f"{value:.{DIGITS}g}"))
