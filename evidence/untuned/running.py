"""Run the problems of the untuned method's page, one file for each problem and budget.

What is there already is not run again: the held-out problems were run once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidence.untuned.problems import DEVELOPMENT, HELD_OUT, NETWORKS, SEEDS, Problem
from gladstorm import Method, nsgdm, nstorm, sgd, sweep
from gladstorm.core.parts import in_float64
from gladstorm.core.statistics import finite_list
from gladstorm.jobs.files import write_text
from gladstorm.methods import adam, clipped_sgd, with_decay
from gladstorm.methods.averages import PolynomialAverage
from gladstorm.methods.estimators import Fresh
from gladstorm.methods.schedules import LinearDecay
from gladstorm.methods.steps import Steered
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.record import Record

FEWER = 4  # seeds of a network at 10⁵ gradients

# Eleven step sizes over five decades for each rival, without and with a linear decay.
SMALL, UNIT = np.geomspace(1e-5, 1, 11), np.geomspace(1e-4, 10, 11)
LEVELS = (1.0, 10.0)  # at which gradients are clipped: this rival is tried at both, so twice as often
RIVALS: dict[str, Method] = {
    "SGD": sgd(SMALL),
    "clipped SGD": clipped_sgd(np.tile(SMALL, len(LEVELS)), np.repeat(LEVELS, SMALL.size)),
    "Adam": adam(0.3 * UNIT),
    "NSGDM": nsgdm(UNIT, 0.1),
    "NSTORM": nstorm(UNIT, 0.1),
}
OURS = "steered landing"

# Every part left out once: the numbers of the step, and the power of the decay.
WHOLE = {"gain": 1.0, "least": 1.0, "most": 0.5, "agreeing": 0.0, "widening": 0.25, "first": 0.1, "power": 1.0}
LEFT_OUT: dict[str, dict[str, float]] = {
    OURS: {},
    "without the decay (`steered`)": {"power": 0.0},
    "without steering, ℓ = r/√(n + 1)": {"gain": 0.0, "least": 0.5},
    "without steering, ℓ = r/(n + 1)^¾": {"gain": 0.0, "least": 0.75, "most": 0.75},
    "without the lower limit": {"least": 50.0},
    "without the upper limit, ℓ ≤ r": {"most": 0.0},
    "every step counted, not reversals": {"agreeing": 1.0},
    "a cut that does not widen": {"widening": 0.0},
    "first length a tenth of it": {"first": 0.01},
}


def run(folder: Path, kind: str, budgets: Sequence[int], names: Sequence[str]) -> None:
    """Run what is asked for and not there. A problem's budgets share their programs, which are kept for later runs."""
    problems = {"development": DEVELOPMENT, "held-out": HELD_OUT}[kind]
    for name in names:
        if name not in problems:
            raise ValueError(f"untuned: the {kind} problems are {', '.join(problems)}; got {name!r}.")
    for name, problem in problems.items():
        for budget in budgets:
            path = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{budget}.json"
            if not path.exists() and (not names or name in names):
                seeds = FEWER if name in NETWORKS and budget > 10**4 else SEEDS
                found = {"problem": name, "kind": kind, "budget": budget} | judged(problem, budget, seeds)
                write_text(path, json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def judged(problem: Problem, budget: int, seeds: int) -> dict[str, Any]:
    """‖∇f‖ and f − inf f of every seed, for our method with parts left out and for every rival's best settings."""
    oracles = [problem(seed) for seed in range(seeds)]
    two = {"NSTORM": with_decay(RIVALS["NSTORM"], [0, 1])}
    one = {name: with_decay(rival, [0, 1]) for name, rival in RIVALS.items() if name not in two}
    numbers = {field: [(WHOLE | each)[field] for each in LEFT_OUT.values()] for field in WHOLE}
    power = numbers.pop("power")
    ours = Method(Fresh(), Steered(LinearDecay(1.0, power=power), **numbers), average=PolynomialAverage(4.0))
    shared: dict[str, Any] = {"seeds": seeds, "records": 2, "progress": False}
    ends = Ends(sweep(oracles, {"ours": ours} | one, steps=budget - 1, **shared), oracles)
    ends_of_two = Ends(sweep(oracles, two, steps=(budget - 1) // 2, **shared), oracles)
    mine = ends.rows("ours")
    variants = {name: ends.scores(row) for name, row in zip(LEFT_OUT, mine, strict=True)}
    variants |= {"the last iterate, no average": ends.scores(mine[0], last=True)}
    rivals = {name: (ends_of_two if name in two else ends).best(name) for name in RIVALS}
    return {"seeds": seeds, "ours": variants, "rivals": rivals}


class Ends:
    """Where the runs of a record ended, judged by the exact gradient there, which not every problem records."""

    def __init__(self, record: Record, oracles: Sequence[Oracle]) -> None:
        self._record = record
        self._f_inf = [getattr(oracle.objective, "f_inf", None) for oracle in oracles]
        self._reported, self._last = (_norms(record, points, oracles) for points in (record.reported, record.last))

    def rows(self, name: str) -> np.ndarray:
        """The settings of a method."""
        return np.array([row for row, each in enumerate(self._record.configurations) if each.name == name])

    def scores(self, row: int, *, last: bool = False) -> dict[str, Any]:
        """‖∇f‖ and, where inf f is known, f − inf f of every seed at what is reported, or at the last iterate."""
        record = self._record
        values = (record.value if last else record.reported_value)[row, :, -1]
        known = None if None in self._f_inf else finite_list(values - np.array(self._f_inf, float))
        norms = (self._last if last else self._reported)[row]
        return {"norm": finite_list(norms), "excess": known, "diverged": int((record.diverged[row] >= 0).sum())}

    def best(self, name: str) -> dict[str, Any]:
        """The best setting by the mean over the seeds it is reported on, of all and of those without decay."""
        rows = self.rows(name)
        means = self._reported[rows].mean(axis=1)
        means = np.where(np.isfinite(means), means, np.inf)
        constant = self._record.numbers("gamma.power")[rows] == 0
        chosen = {"best": rows[np.argmin(means)], "constant": rows[np.argmin(np.where(constant, means, np.inf))]}
        return {which: {"setting": self._record.labels[row]} | self.scores(row) for which, row in chosen.items()}


def _norms(record: Record, points: np.ndarray, oracles: Sequence[Oracle]) -> np.ndarray:
    """‖∇f‖ at one point of every run, not a number if that diverged."""

    def of_seed(oracle: Any, points: Any) -> Any:
        source = getattr(oracle, "source", oracle)
        return jax.vmap(lambda x: jnp.linalg.norm(source.exact(source.at(x))))(points)

    with jax.enable_x64(True):
        columns = [of_seed(in_float64(oracle), points[:, seed]) for seed, oracle in enumerate(oracles)]
    return np.where(record.diverged < 0, np.stack(columns, axis=1), np.nan)
