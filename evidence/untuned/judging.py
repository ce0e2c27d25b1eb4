"""Run the registered problems, one file for each problem and budget. What is there already is not run again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidence.untuned import second
from evidence.untuned.results import EndScores, JudgedCase
from evidence.untuned.rivals import LAST, OURS, TUNED, TWO_GRADIENTS, UNTUNED
from evidence.untuned.second import JudgedProblem
from gladstorm import Method, sweep, untuned
from gladstorm.core.parts import in_float64
from gladstorm.core.results import to_json
from gladstorm.core.statistics import finite_list
from gladstorm.jobs.files import write_text
from gladstorm.problems.oracle import Oracle
from gladstorm.simulation.record import Record

BUDGETS = (10**3, 10**4, 10**5)  # stochastic gradients
FIRST_TUNING_SEED, TUNING_SEEDS = 1000, 3  # rivals are tuned on starts and noise that are not reported
SEEDS, NOISY_SEEDS = 12, 30  # reported; where noise is added
FOLDER = "second"  # inside that of the study: a first judgement was about an earlier method


def require_known(names: Sequence[str]) -> None:
    """Refuse names of no problem."""
    for name in names:
        if name not in (cases := second.cases()):
            raise ValueError(f"untuned: the problems are {', '.join(cases)}; got {name!r}.")


def run(folder: Path, names: Sequence[str] = (), budgets: Sequence[int] = BUDGETS) -> None:
    """Judge what is asked for and not there."""
    cases = {name: cache(made) for name, made in second.cases().items()}
    for budget in budgets:
        for name, made in cases.items():
            file = f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{budget}.json"
            path = folder / FOLDER / file
            if not path.exists() and (not names or name in names):
                result = judge(made(), name, budget)
                path.parent.mkdir(exist_ok=True)
                write_text(path, json.dumps(to_json(result, path.name), ensure_ascii=False) + "\n")


def judge(case: JudgedProblem, name: str, budget: int) -> JudgedCase:
    """‖∇f‖ and f of every reported seed: ours, the rivals with the settings of the smallest f, the untuned ones."""
    seeds = NOISY_SEEDS if case.family == "added noise" else SEEDS
    tuning = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + TUNING_SEEDS)
    trials = _ends(case, {name: make(settings) for name, (settings, make) in TUNED.items()}, budget, tuning)
    chosen: dict[str, Method] = {OURS: untuned(), **UNTUNED}
    settings: dict[str, dict[str, list[float]]] = {}
    for rival, (grid, make) in TUNED.items():
        row = int(np.argmin(_means(trials[rival]["loss"])))
        settings[rival] = {"loss": grid[row].tolist()}
        chosen[f"{rival}, by loss"] = make(grid[row : row + 1])
    scores = {
        method: EndScores(**{score: finite_list(rows[0]) for score, rows in of_method.items()})
        for method, of_method in _ends(case, chosen, budget, range(seeds)).items()
    }
    return JudgedCase(name, case.family, budget, seeds, case.f_inf, settings, scores)


def _means(scores: np.ndarray) -> np.ndarray:
    """The mean over seeds of each setting; infinite if a seed diverged."""
    means = scores.mean(axis=1)
    return np.where(np.isfinite(means), means, np.inf)


def _ends(
    case: JudgedProblem, methods: Mapping[str, Method], budget: int, seeds: Sequence[int]
) -> dict[str, dict[str, np.ndarray]]:
    """Return ‖∇f‖ and f of every method, (setting, seed), where its runs end; NaN where they diverged."""
    oracles = [case.make(seed) for seed in seeds]
    ends: dict[str, dict[str, np.ndarray]] = {}
    for gradients in (1, 2):
        some = {name: method for name, method in methods.items() if _gradients_a_step(name) == gradients}
        if some:
            steps = (budget - 1) // gradients
            record = sweep(oracles, some, steps=steps, seeds=list(seeds), records=1, progress=False)
            for name in some:
                ends[name] = _scores(record[name], oracles)
            if OURS in some:
                ends[LAST] = _scores(record[OURS], oracles, last=True)
    return ends


def _gradients_a_step(name: str) -> int:
    return 2 if name.split(",")[0] in TWO_GRADIENTS else 1


def _scores(record: Record, oracles: Sequence[Oracle], *, last: bool = False) -> dict[str, np.ndarray]:
    return {
        "norm": reported_norms(record, oracles, last=last),
        "loss": _at_the_ends(record, oracles, _value, last=last),
    }


def _value(oracle: Any, x: Any) -> Any:
    return oracle.objective.value(x)


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
