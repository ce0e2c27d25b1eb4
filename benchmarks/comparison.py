"""`compare` with twelve methods beside the core: what tuning, budgets and many structures cost per run and step."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.measuring import Row, seconds, slower
from gladstorm import BlumGladyshev, nsgdm, sweep
from gladstorm.comparison.compare import compare, methods_from
from gladstorm.comparison.compared import Compared
from gladstorm.problems import objectives
from gladstorm.simulation import engine

BUDGET, SEEDS = 4000, 10
COMPILING = 100  # a budget that compiles every program and costs nothing
ROUNDS = 3  # of the core, before and after: the machine's speed changes
GRID = np.geomspace(1e-3, 1e-1, 10)
TEXTS = [
    "nsgdm(eta=0.01)",
    "nstorm(eta=0.01)",
    "sgd",
    "clipped_sgd(c=1)",
    "beta_ngd(beta=0.5)",
    "nsgdm_agnostic",
    "normalized_spider(q=10,large=10)",
    "clipped_spider(q=10,large=10,c0=1,c1=1)",
    "normalized_page(p=0.1,large=10)",
    "normalized_svrg(q=10,large=10)",
    "storm(eta=0.01)+normalized+anchored(weight=0.001)",
    "pasta(sigma2=1)",
]


def rows() -> list[Row]:
    oracle = BlumGladyshev(objectives.PhaseRetrieval.from_seed(0), 0.5, 1.0)
    methods = methods_from(TEXTS, GRID.tolist(), {"B": 0.5, "G": 1.0})
    gammas = 3e-3 * np.geomspace(0.5, 1, 32)

    def compared(budget: int) -> dict[str, Compared]:
        return compare(oracle, methods, budget=budget, seeds=SEEDS, tuning_seeds=SEEDS, progress=False)

    def core() -> object:
        return sweep(oracle, [nsgdm(gammas, 2e-3)], steps=1200, seeds=3, records=12, progress=False)

    program: Any = engine.advance
    before = program._cache_size()
    compared(COMPILING)
    programs = program._cache_size() - before
    core()
    alone = [seconds(core) / 96 / 1200 for _ in range(ROUNDS)]
    begun = time.perf_counter()
    found = compared(BUDGET)
    took = time.perf_counter() - begun
    alone += [seconds(core) / 96 / 1200 for _ in range(ROUNDS)]
    ours = np.array(took) / sum(_steps(each) for each in found.values())
    return [
        Row("compare, 12 methods × 10 step sizes × 10 seeds: compiled programs", str(programs), "", True),
        slower("compare vs the core, per run and step within the budget", ours, np.array(np.median(alone)), 2),
    ]


def _steps(each: Compared) -> int:
    """Steps within the budget, of all its runs."""
    return sum(
        int(record.steps[np.sum(record.sfo <= BUDGET, axis=-1) - 1].sum()) for record in (each.tuning, each.record)
    )
