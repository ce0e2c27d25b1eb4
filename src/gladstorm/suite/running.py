"""Problem after problem, budget after budget: tuned, reported, and put into numbers.

The rows are methods by text, each with a constant step size and with a linear decay.
"""

from __future__ import annotations  # `gradient_size` is called by text: its kinds of arguments are read as text

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.comparison.compare import FIRST_TUNING_SEED, compare
from gladstorm.comparison.compared import Compared, Relative
from gladstorm.core.estimate import Estimate
from gladstorm.core.names import require_known
from gladstorm.core.parts import Array
from gladstorm.core.statistics import finite, significant
from gladstorm.jobs.progress import log
from gladstorm.jobs.provenance import versions
from gladstorm.methods import Method, with_decay
from gladstorm.methods.method import settings_of
from gladstorm.methods.text import parse_method
from gladstorm.problems.oracles import Oracle
from gladstorm.problems.sampling import keys_of
from gladstorm.suite.answers import answers
from gladstorm.suite.problems import PROBLEMS, Role, SuiteProblem
from gladstorm.suite.result import MethodRow, RowScores, SuiteCase, SuiteConfig, SuiteResult, SuiteSettings

DIGITS = 5  # of what is kept
# What users use. gradient_size: of a stochastic gradient at x⁰, which users read off their first steps. Clipping at it
# is SGD, for gradients shrink on the way; a tenth of it is about their size near a solution, and cuts at once.
BASELINES = {
    "SGD": "sgd",
    "clipped SGD": "clipped_sgd(c=gradient_size(0.1))",
    "Adam": "adam",
    "NSGDM": "nsgdm(eta=0.1)",
    "NSTORM": "nstorm(eta=0.1)",
    "DoG, averaged": "dog(gamma=1)",
}
LINEAR = ", linear"  # after the name of a method: its step size decays linearly to 0
TARGET = 2.0  # times the best score on a problem: what is to be reached
SAMPLES = 101  # stochastic gradients that gradient_size is the median of


FULL = SuiteSettings((1_000, 10_000), seeds=20, tuning_seeds=5, step_sizes=11, problems=tuple(PROBLEMS))
QUICK = SuiteSettings((30, 100), seeds=3, tuning_seeds=2, step_sizes=3, problems=("cubic", "counts"))


def entries(baselines: Mapping[str, str], given: Iterable[str] = ()) -> dict[str, MethodRow]:
    """The rows: two of each baseline and of each given method that is tuned, one of a given method that has its γ.

    >>> list(entries({"SGD": "sgd", "DoG": "dog(gamma=1)"}, ["nigt(gamma=1,eta=0.1)"]))
    ['SGD', 'SGD, linear', 'DoG', 'DoG, linear', 'nigt(gamma=1,eta=0.1)']
    """
    rows: dict[str, MethodRow] = {}
    for name, text in [*baselines.items(), *((text, text) for text in given)]:
        if name in rows:
            raise ValueError(f"suite: every method must be given once; got {name!r} twice.")
        as_given = MethodRow(name, text, None)
        (method,) = made([as_given], [1.0, 2.0], 1.0)
        if settings_of(method) == 1 and name not in baselines:
            rows[name] = as_given
        else:
            rows |= {name: MethodRow(name, text, 0.0), name + LINEAR: MethodRow(name, text, 1.0)}
    return rows


def made(rows: Iterable[MethodRow], step_sizes: Sequence[float], size: float) -> list[Method]:
    """The method of each row; those that leave γ out get all of the step sizes.

    In a text, gradient_size(share) is a share of `size`, to three digits. A constant step size is a decay of power 0:
    both rows of a method run in one program.
    """

    def gradient_size(share: float = 1.0) -> float:
        return significant(share * size, 3)

    methods = []
    for row in rows:
        method = parse_method(row.text, {"gamma": list(step_sizes)}, {"gradient_size": gradient_size})
        methods.append(method if row.decay is None else with_decay(method, row.decay))
    return methods


def gradient_size(oracle: Oracle, seed: int) -> float:
    """The median of ‖∇f(x⁰; ξ)‖ over some samples."""
    with jax.enable_x64(True):
        point = oracle.at(jnp.asarray(oracle.objective.start, float))
        keys = keys_of(seed, SAMPLES)

        def norm(key: Array) -> Array:
            length: Array = jnp.linalg.norm(oracle.grad(point, oracle.sample(key, point)))
            return length

        return float(np.median(jax.vmap(norm)(keys)))


def choose(names: Sequence[str] | None, role: str | None) -> tuple[str, ...]:
    """The problems of these names and this role, in the order of the suite; None stands for all."""
    for name in names or ():
        require_known("suite: problem", name, PROBLEMS)
    if role is not None:
        require_known("suite: role", role, get_args(Role))
    chosen = [
        problem for problem in PROBLEMS.values() if problem.name in (names or PROBLEMS) and role in (None, problem.role)
    ]
    if not chosen:
        raise ValueError(f"suite: some problem must have this name and role; got {names} and {role!r}.")
    return tuple(problem.name for problem in chosen)


def run(
    rows: Mapping[str, MethodRow],
    settings: SuiteSettings = FULL,
    *,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
) -> SuiteResult:
    """Run some rows on every problem and budget, and answer the questions.

    Args:
        rows: By name, as `entries` makes them.
        settings: How much is run.
        progress, store, executor: Those of `sweep`.
    """
    settings.check()
    posed = [(PROBLEMS[name], budget) for name in settings.problems for budget in settings.budgets]
    how: dict[str, Any] = {"seeds": settings.seeds, "tuning_seeds": settings.tuning_seeds}
    how |= {"progress": progress, "store": store, "executor": executor}
    comparisons, cases = len(posed) * (len(rows) - 1), []
    for number, (problem, budget) in enumerate(posed, 1):
        if progress:
            log(f"suite: case {number} of {len(posed)}, {problem.name}, {budget:,} stochastic gradients …")
        low, high = problem.step_sizes
        size = gradient_size(problem.oracle(FIRST_TUNING_SEED), FIRST_TUNING_SEED)
        methods = made(rows.values(), np.geomspace(low, high, settings.step_sizes).tolist(), size)
        results = compare(problem.oracle, dict(zip(rows, methods, strict=True)), budget=budget, **how)
        cases.append(case(problem, budget, results, comparisons, size))
    config = SuiteConfig(**asdict(settings), target=TARGET, reference=reference(list(rows)), versions=versions())
    result = SuiteResult(config, dict(rows), {name: PROBLEMS[name].facts for name in settings.problems}, cases)
    return replace(result, answers=answers(result))


def reference(rows: Sequence[str]) -> str:
    """The row that others are measured by: that of the first method, with its decay if it has one.

    >>> reference(["SGD", "SGD, linear", "DoG"]), reference(["DoG", "SGD"])
    ('SGD, linear', 'DoG')
    """
    return rows[0] + LINEAR if rows[0] + LINEAR in rows else rows[0]


def case(
    problem: SuiteProblem, budget: int, results: Mapping[str, Compared], comparisons: int, size: float
) -> SuiteCase:
    """One problem at one budget: what every row reports, how it stands to the reference and to the best."""
    scores = {row: geometric_mean(result.grad_norm) for row, result in results.items()}
    ratios = to_best({row: [score] for row, score in scores.items()})
    target, first = TARGET * min(scores.values()), results[reference(list(results))]

    def row(name: str, compared: Compared) -> RowScores:
        tuning, record = compared.tuning, compared.record
        chosen = tuning.configurations[int(np.argmin(compared.settings))]
        against = compared.relative_to(first, max(1, comparisons))
        relative = Relative(_rounded(against.grad_norm), against.gap and _rounded(against.gap))
        averaged = record.config["methods"][record.labels[0]]["average"] is not None
        times = reached(record.reported_grad_norm[0], record.sfo[0], budget, target)
        return RowScores(
            score=_round(scores[name]),
            to_best=_round(ratios[name][0]),
            tuned={field: _round(chosen.numbers[field]) for field in chosen.swept},
            at_edge=compared.at_edge,
            tuning_score=_round(float(compared.settings.min())),
            steps=compared.steps,
            diverged=compared.diverged,
            grad_norm=list(map(_round, compared.grad_norm)),
            value=list(map(_round, compared.value)),
            gap=None if compared.gap is None else list(map(_round, compared.gap)),
            relative=relative,
            reached=list(map(_round, times)),
            flags=flags(relative, even=problem.even_about is not None, averaged=averaged, ascends=compared.ascends),
        )

    rows = {name: row(name, compared) for name, compared in results.items()}
    return SuiteCase(problem.name, budget, _round(target), _round(size), rows)


def flags(relative: Relative, *, even: bool, averaged: bool, ascends: bool) -> list[str]:
    """Return the reasons for which a row's ‖∇f‖ looks better than its method is.

    `symmetry`: an average of iterates that jump to and fro over the minimum of an even function is near it for no
    merit. `ascends`: on most seeds f ended above f(x⁰), or the run diverged. `elsewhere`: ‖∇f‖ is smaller than the
    reference's and f − inf f larger, both beyond doubt: the stationary point is another.
    """
    high = relative.grad_norm.high
    low = None if relative.gap is None else relative.gap.low
    elsewhere = high is not None and low is not None and high < 1 < low
    return ["symmetry"] * (even and averaged) + ["ascends"] * ascends + ["elsewhere"] * elsewhere


def _rounded(estimate: Estimate) -> Estimate:
    return estimate.map(lambda end: significant(end, DIGITS))


def _round(value: float) -> float | None:
    return finite(significant(value, DIGITS))


# Numbers over seeds and problems. What fails is part of them: it has the score ∞, or the time ∞.


def geometric_mean(values: np.ndarray) -> float:
    """The score of a row on a case: over seeds, of which none may have diverged; else ∞."""
    if not np.all(np.isfinite(values)):
        return float("inf")
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(values).mean()))


def to_best(scores: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    """Per row the ratio of its score to the best of all rows, case by case; ∞ where it failed."""
    table = np.array(list(scores.values()), float)
    best = table.min(axis=0)
    with np.errstate(invalid="ignore"):
        ratios = np.where(np.isfinite(table), table / best, np.inf)
    return dict(zip(scores, ratios, strict=True))


def profile(ratios: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The share of all cases in which a row is within each factor of the best (Dolan and Moré 2002)."""
    return np.asarray((ratios[:, None] <= factors).mean(axis=0))


def reached(grad_norm: np.ndarray, sfo: np.ndarray, budget: int, target: float) -> np.ndarray:
    """Per run the stochastic gradients after which ‖∇f‖ is at most the target at every recorded step; ∞ if at none.

    Not the first time it is: a noisy iterate that passes a solution is there by chance, and leaves.
    """
    inside = sfo <= budget
    there = (grad_norm <= target) | ~inside
    for_good = np.flip(np.logical_and.accumulate(np.flip(there, -1), -1), -1) & inside
    first = np.argmax(for_good, axis=-1)[..., None]
    times = np.take_along_axis(sfo, first, -1)[..., 0].astype(float)
    return np.where(for_good.any(axis=-1), times, np.inf)


def reaching(times: np.ndarray, shares: np.ndarray, budget: int) -> np.ndarray:
    """The share of all runs, those that never reach their target included, that have by each share of the budget."""
    return np.asarray((times[:, None] <= shares * budget).mean(axis=0))


def with_infinities(values: Iterable[float | None]) -> np.ndarray:
    """Numbers of which JSON keeps those that are not finite as null."""
    return np.array([np.inf if value is None else value for value in values], float)
