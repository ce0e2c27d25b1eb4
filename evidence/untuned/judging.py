"""Run the registered problems, one file for each problem and budget. What is there already is not run again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from evidence.untuned import families, second
from evidence.untuned.families import JudgedProblem
from evidence.untuned.results import EndScores, JudgedCase
from evidence.untuned.rivals import LAST, OURS, TUNED, TWO_GRADIENTS, UNTUNED
from gladstorm import Method, sweep, untuned
from gladstorm.core.parts import in_float64
from gladstorm.core.results import to_json
from gladstorm.core.statistics import finite_list
from gladstorm.jobs.files import write_text
from gladstorm.problems.oracle import Oracle
from gladstorm.simulation.record import Record

BUDGETS = (10**3, 10**4, 10**5)  # stochastic gradients
FIRST_TUNING_SEED, TUNING_SEEDS = 1000, 3  # rivals are tuned on starts and noise that are not reported
SEEDS, NOISY_SEEDS, FEWER_SEEDS = 12, 30, 6  # reported; where noise is added; of large problems at 10⁵ gradients


class Judgement(NamedTuple):
    """A registered set of problems, and by which scores rivals are tuned."""

    cases: Callable[[], dict[str, Callable[[], JudgedProblem]]]
    tuned_by: tuple[str, ...]
    folder: str  # inside that of the study


JUDGEMENTS = {
    "first": Judgement(families.cases, ("norm", "loss"), ""),
    "second": Judgement(second.cases, ("loss",), "second"),
}


def require_known(names: Sequence[str], judgement: Judgement) -> None:
    """Refuse names of no problem."""
    for name in names:
        if name not in (cases := judgement.cases()):
            raise ValueError(f"untuned: the problems are {', '.join(cases)}; got {name!r}.")


def run(folder: Path, judgement: Judgement, names: Sequence[str] = (), budgets: Sequence[int] = BUDGETS) -> None:
    """Judge what is asked for and not there."""
    cases = {name: cache(made) for name, made in judgement.cases().items()}
    for budget in budgets:
        for name, made in cases.items():
            file = f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{budget}.json"
            path = folder / judgement.folder / file
            if not path.exists() and (not names or name in names):
                case = made()
                result = judge(case, name, budget, judgement.tuned_by)
                path.parent.mkdir(exist_ok=True)
                write_text(path, json.dumps(to_json(result, path.name), ensure_ascii=False) + "\n")


def judge(case: JudgedProblem, name: str, budget: int, tuned_by: Sequence[str]) -> JudgedCase:
    """‖∇f‖ and the loss of every reported seed: ours, the rivals with their best settings, the untuned ones."""
    seeds = NOISY_SEEDS if case.family == "added noise" else SEEDS
    if case.is_large and budget > 10**4:
        seeds = FEWER_SEEDS
    tuning = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + TUNING_SEEDS)
    grids = {name: make(settings) for name, (settings, make) in TUNED.items()}
    trials = _ends(case, grids, budget, tuning)
    chosen: dict[str, Method] = {OURS: untuned(), **UNTUNED}
    settings: dict[str, dict[str, list[float]]] = {}
    for rival, (grid, make) in TUNED.items():
        best = {score: int(np.argmin(_means(trials[rival][score]))) for score in tuned_by}
        settings[rival] = {score: grid[row].tolist() for score, row in best.items()}
        for score, row in best.items():
            chosen[f"{rival}, by {score}"] = make(grid[row : row + 1])
    ends = _ends(case, chosen, budget, range(seeds))
    scores = {
        method: EndScores(**{score: finite_list(rows[0]) for score, rows in of_method.items()})
        for method, of_method in ends.items()
    }
    return JudgedCase(name, case.family, budget, seeds, case.f_inf, settings, scores)


def _means(scores: np.ndarray) -> np.ndarray:
    """The mean over seeds of each setting; infinite if a seed diverged."""
    means = scores.mean(axis=1)
    return np.where(np.isfinite(means), means, np.inf)


def _ends(
    case: JudgedProblem, methods: Mapping[str, Method], budget: int, seeds: Sequence[int]
) -> dict[str, dict[str, np.ndarray]]:
    """Return ‖∇f‖ and the loss of every method, (setting, seed), where its runs end; NaN where they diverged."""
    oracles = [case.make(seed) for seed in seeds]
    ends: dict[str, dict[str, np.ndarray]] = {}
    for gradients in (1, 2):
        some = {name: method for name, method in methods.items() if _gradients_a_step(name) == gradients}
        if some:
            steps = (budget - 1) // gradients
            record = sweep(oracles, some, steps=steps, seeds=list(seeds), records=1, progress=False)
            for name in some:
                ends[name] = _scores(case, record[name], oracles)
            if OURS in some:
                ends[LAST] = _scores(case, record[OURS], oracles, last=True)
    return ends


def _gradients_a_step(name: str) -> int:
    return 2 if name.split(",")[0] in TWO_GRADIENTS else 1


def _scores(
    case: JudgedProblem, record: Record, oracles: Sequence[Oracle], *, last: bool = False
) -> dict[str, np.ndarray]:
    return {
        "norm": reported_norms(record, oracles, last=last),
        "loss": _at_the_ends(record, oracles, _loss_of(case), last=last),
    }


@cache  # one function for each problem, so that it is compiled once
def _loss_of(case: JudgedProblem) -> Callable[[Any, Any], Any]:
    return lambda oracle, x: (case.held_out or oracle.objective.value)(x)


def _norm(oracle: Any, x: Any) -> Any:
    source = getattr(oracle, "source", oracle)
    return jnp.linalg.norm(source.exact(source.at(x)))


def reported_norms(record: Record, oracles: Sequence[Oracle], *, last: bool = False) -> np.ndarray:
    """‖∇f‖, (setting, seed), at what is reported or at the last iterate; not a number where a run diverged."""
    return _at_the_ends(record, oracles, _norm, last=last)


def _at_the_ends(
    record: Record, oracles: Sequence[Oracle], function: Callable[[Any, Any], Any], *, last: bool
) -> np.ndarray:
    points = record.last if last else record.reported
    with jax.enable_x64(True):
        columns = [_at_each(function, in_float64(oracle), points[:, seed]) for seed, oracle in enumerate(oracles)]
    return np.where(record.diverged < 0, np.stack(columns, axis=1), np.nan)


@partial(jax.jit, static_argnums=0)
def _at_each(function: Callable[[Any, Any], Any], oracle: Any, points: Any) -> Any:
    return jax.vmap(partial(function, oracle))(points)
