"""The simulator beside NumPy, beside itself, and beside the machine's matrix product."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measuring import TOLERATED, Row, expected, faster, rounds, seconds, share, slower
from benchmarks.numpy_loops import Arm, Problem, batched, careful, plain
from benchmarks.products import fastest
from gladstorm import BlumGladyshev, Method, Oracle, nsgdm, nstorm, run, sgd, storm, sweep, untuned
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.problems import objectives
from gladstorm.problems.oracles import StreamingLeastSquaresOracle

RUNS, SEEDS = 96, 3
MEMORY_STEPS, MEMORY_RUNS = 10**7, 64

# Workload W, the phase-retrieval experiment: 3 seeds of every arm, and of the tuned ones 10 step sizes; 96 runs.
ARMS = {
    Arm("momentum", True, None, 4.641e-3, 2.154e-3): 3,  # NSGDM
    Arm("storm", True, None, 5.397e-3, 3.73e-4): 3,  # NSTORM
    Arm("fresh", False, None, 3e-3): 30,  # SGD
    Arm("fresh", False, 1.0, 3e-2): 30,  # SGD, dynamic batch
    Arm("storm", False, 1.0, 3e-2, 0.1): 30,  # STORM, dynamic batch
}


def simulated(oracle: Oracle, method: Method, steps: int, seeds: int, runs: int) -> Callable[[], float]:
    """Seconds per run and step of a sweep recorded as densely as 10⁴ steps are by default."""
    records = max(1, steps // 100)

    def job() -> object:
        return sweep(oracle, [method], steps=steps, seeds=seeds, records=records, progress=False)

    return lambda: seconds(job) / steps / runs


def ours(arm: Arm, B: float, G: float, count: int) -> Method:
    """The arm with `count` step sizes around its own."""
    gamma = arm.gamma * np.geomspace(1, 0.5, count)
    batch = 1 if arm.sigma2 is None else GrowWithDistance(B, G, arm.sigma2)
    if arm.estimator == "fresh":
        return sgd(gamma, batch=batch)
    if arm.normalized:
        return nsgdm(gamma, arm.eta) if arm.estimator == "momentum" else nstorm(gamma, arm.eta, n_init=4)
    return storm(gamma, arm.eta, batch=batch)


def workload_w() -> list[Row]:
    instance = objectives.PhaseRetrieval.from_seed(0)
    A, A_transposed, y = instance.A, instance.A_transposed, instance.y
    m, d = A.shape

    def grad(x: np.ndarray) -> Any:
        s = A @ x
        return (2 / m) * (A_transposed @ ((s * s - (y if x.ndim == 1 else y[:, None])) * s))

    oracle = BlumGladyshev(instance, 0.5, 1.0)
    # The loops are timed from where each arm is after a fifth of its 10⁴ steps: there its batches are what they stay.
    problems = {
        arm: Problem(
            grad, np.asarray(instance.start), run(oracle, ours(arm, 0.5, 1.0, 1), steps=2000).last[0, 0], 0.5, 1.0
        )
        for arm in ARMS
    }
    rng = np.random.default_rng(0)
    product = fastest(m, d, RUNS)

    def of_arm(arm: Arm) -> list[Callable[[], float]]:
        problem = problems[arm]
        return [
            simulated(oracle, ours(arm, 0.5, 1.0, RUNS // SEEDS), 1200, SEEDS, RUNS),
            lambda: seconds(lambda: plain(problem, arm, 100, rng)) / 100,
            lambda: seconds(lambda: careful(problem, arm, 100, rng)) / 100,
            lambda: seconds(lambda: batched(problem, arm, 40, RUNS, rng)) / 40 / RUNS,
            product,
        ]

    costs = np.array(rounds(*(job for arm in ARMS for job in of_arm(arm)))).reshape(len(ARMS), 5, -1)
    engine, first, single, columns, operation = np.average(costs, axis=0, weights=list(ARMS.values()))
    rate, peak, here = 4 * m * d / engine / 1e9, 1 / operation / 1e9, expected()
    return [
        Row("W: Gladstorm, µs per run and iteration", f"{np.median(engine) * 1e6:.1f}", "", True),
        faster("W vs plain NumPy loop", first, engine, TOLERATED * here.plain),
        faster("W vs careful NumPy, one run at a time", single, engine, TOLERATED * here.careful),
        faster("W vs NumPy batched over runs", columns, engine, TOLERATED * here.batched),
        share("W: gradient arithmetic vs the fastest matrix product", rate, peak, here.share_of_gemm),
    ]


def batches_and_methods() -> list[Row]:
    oracle = BlumGladyshev(objectives.PhaseRetrieval.from_seed(0), 0.5, 1.0)
    gammas = 3e-3 * np.geomspace(0.5, 1, RUNS // SEEDS)

    def with_batch(source: Oracle, size: int) -> Callable[[], float]:
        rule = GrowWithDistance(0.0, 1.0, 1 / size)
        return simulated(source, sgd(gammas, batch=rule), 600, SEEDS, RUNS)

    one, thousand, million = rounds(with_batch(oracle, 1), with_batch(oracle, 10**3), with_batch(oracle, 10**6))
    stream = StreamingLeastSquaresOracle(objectives.named("streaming-least-squares", dim=100))
    one_of_stream, million_of_stream = rounds(with_batch(stream, 1), with_batch(stream, 10**6))
    cubic = BlumGladyshev(objectives.named("power:3"), 0.5, 0.5)
    rows = [
        slower("dynamic batch of 10³ vs batch of 1", thousand, one, 1.15),
        slower("dynamic batch of 10⁶ vs batch of 1", million, one, 1.15),
        slower("streaming least squares, d = 100: batch of 10⁶ vs batch of 1", million_of_stream, one_of_stream, 3),
    ]
    for name, source, steps in (("phase retrieval", oracle, 600), ("cubic", cubic, 50_000)):
        momentum, recursive, without_tuning = rounds(
            simulated(source, nsgdm(3e-3, 2e-3), steps, RUNS, RUNS),
            simulated(source, nstorm(3e-3, 2e-3), steps, RUNS, RUNS),
            simulated(source, untuned(), steps, RUNS, RUNS),
        )
        rows.append(slower(f"NSTORM vs NSGDM per step, {name}", recursive, momentum, 1.15))
        rows.append(slower(f"untuned vs NSGDM per step, {name}", without_tuning, momentum, 1.3))
    return rows


def cubic() -> list[Row]:
    instance = objectives.named("power:3")
    oracle = BlumGladyshev(instance, 0.5, 0.5)
    problem = Problem(lambda x: 3 * np.linalg.norm(x, axis=0) * x, instance.start, instance.start, 0.5, 0.5)
    rng = np.random.default_rng(0)
    arm = Arm("momentum", True, None, 4.641e-4, 2.154e-3)
    engine, columns = rounds(
        simulated(oracle, nsgdm(arm.gamma, arm.eta), 100_000, RUNS, RUNS),
        lambda: seconds(lambda: batched(problem, arm, 4000, RUNS, rng)) / 4000 / RUNS,
    )
    return [
        Row("cubic, 96 runs, 10⁵ steps: Gladstorm, ns per run and step", f"{np.median(engine) * 1e9:.0f}", "", True),
        faster("cubic vs NumPy batched over runs", columns, engine, 6),
    ]


def scaling() -> list[Row]:
    oracle = BlumGladyshev(objectives.named("power:3"), 0.5, 0.5)
    method = nsgdm(4.641e-4, 2.154e-3)

    def total(steps: int, runs: int) -> Callable[[], float]:
        return lambda: seconds(lambda: sweep(oracle, [method], steps=steps, seeds=runs, progress=False))

    base, more_steps, more_runs = rounds(total(50_000, RUNS), total(500_000, RUNS), total(50_000, 10 * RUNS))
    return [
        slower("10 × the steps (cubic)", more_steps, base, 10.5),
        slower("10 × the runs (cubic)", more_runs, base, 10.5),
    ]


def memory() -> list[Row]:
    """Peak memory of a process of its own, beside one of a hundredth of the steps."""
    peaks = [
        float(
            subprocess.run(
                [sys.executable, "-m", "benchmarks", "peak-memory", str(steps)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for steps in (MEMORY_STEPS // 100, MEMORY_STEPS)
    ]
    figure = f"{peaks[1]:.2f} GB (10⁵ steps: {peaks[0]:.2f} GB)"
    return [Row("memory: cubic, 64 runs, 10⁷ steps", figure, "< 2 GB", peaks[1] < 2)]


def peak_of_one_sweep(steps: int) -> None:
    sweep(BlumGladyshev(objectives.named("power:3"), 0.5, 0.5), [nsgdm(1e-3, 1e-2)], steps=steps, seeds=MEMORY_RUNS)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
