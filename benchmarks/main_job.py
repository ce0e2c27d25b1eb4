"""The reproduction with three seeds beside the plain NumPy loop for the same runs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import TOLERATED, Row, expected, faster, seconds
from benchmarks.numpy_loops import Arm, Problem, plain
from evidence.reproduction.experiments import EXPERIMENTS
from evidence.reproduction.results import MAIN, NSGDM, NSTORM, STORM_DYNAMIC, Results

ROOT = Path(__file__).parent.parent  # where evidence is
STEPS = 60
LARGE = 300  # a batch to see what a sample costs the loop


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:

        def reproduced(name: str) -> float:
            command = [sys.executable, "-m", "evidence", "reproduction", "--seeds", "3", "--out", f"{folder}/{name}"]
            return seconds(partial(subprocess.run, command, check=True, capture_output=True, cwd=ROOT))

        reproduced("compiling")  # leaves the compiled programs on disk
        results = {name: Results.load(Path(folder, "compiling", name, "results.parquet")) for name in EXPERIMENTS}

        def loops() -> float:
            return sum(numpy_seconds(name, each) for name, each in results.items())

        # The machine's speed changes: each run is compared with the loops on both sides of it.
        between, took = [loops()], []
        for name in ("first", "second", "third"):
            took.append(reproduced(name))
            between.append(loops())
    total = (np.array(between[:-1]) + between[1:]) / 2
    return [
        Row("reproduce, both experiments, 3 seeds, grids, figures, report", f"{np.median(took):.0f} s", "", True),
        faster(
            "reproduce vs plain NumPy loop for the same runs", total, np.array(took), TOLERATED * expected().main_job
        ),
    ]


def numpy_seconds(name: str, results: Results) -> float:
    """What the plain loop would take: its cost per step and per sample, times the steps and samples there were.

    A grid has step sizes that blow batches up; for the loop they are taken to be no larger than at the tuned one.
    """
    objective = EXPERIMENTS[name].instance(0)
    start = np.asarray(objective.start)
    grad = cubed if name == "cubic" else phase_retrieval(objective)
    G, B = results.config["G"], results.config["B"]
    problem = Problem(grad, start, start, B, G)
    rng = np.random.default_rng(0)
    total = 0.0
    for (_, method), record in results.records.items():
        estimator = {NSGDM: "momentum", NSTORM: "storm", STORM_DYNAMIC: "storm"}.get(method, "fresh")
        normalized = method in (NSGDM, NSTORM)

        def per_step(batch: int, estimator: str = estimator, normalized: bool = normalized) -> float:
            arm = Arm(estimator, normalized, G**2 / batch, 1e-6, 0.1)
            return float(np.median([seconds(lambda: plain(problem, arm, STEPS, rng)) / STEPS for _ in range(3)]))

        one, many = per_step(1), per_step(LARGE)
        queries = 2 if estimator == "storm" else 1
        steps, usual = int(record.steps[-1]), results.runs(MAIN, method)
        most = steps * usual.sfo[..., -1].mean() / queries / usual.steps[-1]
        samples = np.minimum(record.sfo[..., -1] / queries, most)
        total += one * steps * samples.size + (many - one) / (LARGE - 1) * float(np.maximum(samples - steps, 0).sum())
    return total


def cubed(x: np.ndarray) -> Any:
    return 3 * np.linalg.norm(x) * x


def phase_retrieval(objective: Any) -> Callable[[np.ndarray], Any]:
    A, y = objective.A, objective.y

    def grad(x: np.ndarray) -> Any:
        s = A @ x
        return 2 / y.size * (A.T @ ((s * s - y) * s))

    return grad
