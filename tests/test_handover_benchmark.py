"""The benchmark that benchopt may have: its noise is the paper's, its solvers are ours, and benchopt runs it."""

import importlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from handover.benchmark_growing_noise.benchmark_utils.oracles import GrowingNoise, LeastSquares

FOLDER = Path(__file__).parents[1] / "handover/benchmark_growing_noise"
SOLVERS = sorted(path.stem for path in (FOLDER / "solvers").glob("*.py"))


def cubic(B: float = 2.0, G: float = 1.0) -> GrowingNoise:
    def gradient(x: np.ndarray) -> np.ndarray:
        return np.asarray(3 * np.linalg.norm(x) * x)

    return GrowingNoise(lambda x: np.linalg.norm(x) ** 3, gradient, np.ones(4) / 2, B, G)


def least_squares() -> LeastSquares:
    rng = np.random.default_rng(1)
    return LeastSquares(rng.normal(size=(30, 4)), rng.normal(size=30), np.zeros(4))


@pytest.mark.parametrize("distance", [0.0, 3.0])
def test_the_added_noise_has_no_bias_and_the_variance_that_is_said(distance: float) -> None:
    oracle, rng = cubic(), np.random.default_rng(0)
    x = oracle.start + distance * np.array([0.6, 0.0, -0.8, 0.0])
    errors = np.array([oracle.gradient(x, oracle.sample(rng)) - oracle.full_gradient(x) for _ in range(20_000)])
    expected = 2.0**2 * distance**2 + 1.0**2
    assert np.mean(np.sum(errors**2, axis=1)) == pytest.approx(expected, rel=0.03)  # four standard errors and more
    assert np.abs(errors.mean(axis=0)).max() < 5 * (expected / 20_000) ** 0.5


def test_rows_of_least_squares_have_the_full_gradient_as_their_mean_and_a_minimum() -> None:
    oracle, x = least_squares(), np.array([1.0, -2.0, 0.5, 3.0])
    mean = np.mean([oracle.gradient(x, row) for row in range(30)], axis=0)
    np.testing.assert_allclose(mean, oracle.full_gradient(x), rtol=1e-12)
    assert 0 < oracle.minimum < oracle.value(x)
    for i, unit in enumerate(1e-6 * np.eye(4)):
        slope = (oracle.value(x + unit) - oracle.value(x - unit)) / 2e-6
        assert slope == pytest.approx(oracle.full_gradient(x)[i], rel=1e-6)


@pytest.fixture
def solvers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The solvers' classes, with a stand-in for benchopt's base class where it is not installed."""
    if not find_spec("benchopt"):
        stand_in: Any = ModuleType("benchopt")
        stand_in.BaseSolver = object
        monkeypatch.setitem(sys.modules, "benchopt", stand_in)
    monkeypatch.syspath_prepend(str(FOLDER))
    return {name: importlib.import_module(f"solvers.{name}").Solver for name in SOLVERS}


class Counted:
    """An oracle that counts the gradients it gives."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.start, self.sample, self.count = oracle, oracle.start, oracle.sample, 0

    def gradient(self, x: np.ndarray, sample: Any) -> np.ndarray:
        self.count += 1
        return np.asarray(self.oracle.gradient(x, sample))


def solved(kind: Any, oracle: Any, budget: int, gamma: float) -> np.ndarray:
    solver = kind()
    solver.oracle, solver.gamma, solver.seed = oracle, gamma, 0
    solver.run(budget)
    return np.asarray(solver.get_result()["x"])


def test_solvers_spend_their_budget_and_come_nearer(solvers: dict[str, Any]) -> None:
    assert len(solvers) == 5
    for name, kind in solvers.items():
        for budget in (1, 2, 3, 64, 1000):
            oracle = Counted(cubic())
            x = solved(kind, oracle, budget, 1.0 if name.startswith("n") else 0.3)
            assert budget - 1 <= oracle.count <= budget, (name, budget)  # a step of NSTORM has two
        assert cubic().value(x) < 0.2 * cubic().value(cubic().start), name


def test_nsgdm_and_nstorm_without_noise_are_normalized_gradient_descent(solvers: dict[str, Any]) -> None:
    oracle = cubic(0.0, 0.0)
    for name, power, steps in (("nsgdm", -5 / 6, 64), ("nstorm", -3 / 4, 28)):
        distance = np.linalg.norm(solved(solvers[name], oracle, 64, 0.1) - oracle.start)
        assert distance == pytest.approx(0.1 * 64**power * steps), name


@pytest.mark.skipif(not find_spec("benchopt"), reason="needs benchopt: pip install benchopt, then this test again")
def test_benchopt_runs_it(tmp_path: Path) -> None:
    folder = tmp_path / "benchmark_growing_noise"
    shutil.copytree(FOLDER, folder)
    options = "--max-runs 3 --n-repetitions 1 --no-plot --no-display --output tried".split()
    done = subprocess.run(
        [sys.executable, "-m", "benchopt", "run", ".", *options],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stdout.lower()
    assert (folder / "outputs/tried.parquet").exists()
