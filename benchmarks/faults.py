"""Kill workers and clients of a sweep at random moments: does the result have the bytes of an undisturbed one?

`python -m benchmarks.faults --times 50` kills a worker of a local cluster of two 50 times, and a client with its store
50 times; the tests do one of each. Exit code 1 if any result differs.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from gladstorm import BlumGladyshev, Record, nsgdm, sgd, sweep
from gladstorm.jobs.progress import quietly
from gladstorm.problems import objectives
from gladstorm.simulation import layout
from gladstorm.simulation.cluster import open_executor

ORACLE = BlumGladyshev(objectives.named("power:3", start=4.7), 0.5, 0.5)
METHODS = {"NSGDM": nsgdm([1e-3, 1e-2], 0.01), "SGD": sgd([1e-3, 1e-2])}
STEPS, SEEDS = 20_000, 16
TASKS: Any = {"TASK_SECONDS": 0.02, "RUNS": 4}  # many of a few milliseconds, so that kills meet them


def swept(**options: Any) -> Record:
    with mock.patch.multiple(layout, **TASKS):
        return sweep(ORACLE, METHODS, steps=STEPS, seeds=SEEDS, progress=False, **options)


def content(record: Record) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        record.save(Path(folder) / "record")
        return (Path(folder) / "record").read_bytes()


def killing_workers(times: int, chance: random.Random) -> Iterator[bool]:
    """Whether each of so many sweeps, with a worker killed while it ran, gave the bytes of an undisturbed one.

    The processes stay for all of them, so that some are killed while they start.
    """
    with open_executor(2, None) as processes:
        for _ in range(times):
            yield survives_a_killed_worker(processes, lambda: [each.pid or 0 for each in active_children()], chance)


def survives_a_killed_worker(executor: Any, workers: Callable[[], list[int]], chance: random.Random) -> bool:
    """Whether a sweep, one of whose workers is killed while it runs, has the bytes of an undisturbed one."""
    undisturbed = content(swept(executor=executor))
    begun = time.monotonic()
    swept(executor=executor)  # with programs compiled, as the one to be disturbed
    took = time.monotonic() - begun
    killer = threading.Timer(chance.uniform(0, took), lambda: os.kill(chance.choice(workers()), signal.SIGKILL))
    killer.start()
    disturbed = content(swept(executor=executor))
    killer.join()
    return disturbed == undisturbed


def killing_clients(times: int, chance: random.Random) -> Iterator[bool]:
    """Whether each of so many sweeps, killed and started again on its store, gave the bytes of an undisturbed one."""
    undisturbed = content(swept())
    as_here = os.environ | {"JAX_NUM_CPU_DEVICES": str(len(jax.local_devices()))}  # runs cut otherwise round otherwise
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            whole = [sys.executable, "-m", "benchmarks.faults", "--once", folder]
            with subprocess.Popen(whole, cwd=Path(__file__).parent.parent, env=as_here) as process:
                while process.poll() is None and not list(Path(folder).glob("*/made-with.json")):
                    time.sleep(0.01)
                assert not process.poll(), "failed before it was killed"
                time.sleep(chance.uniform(0, 4))
                process.kill()
            yield content(swept(store=folder)) == undisturbed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--once", help=argparse.SUPPRESS)  # what `killing_clients` kills
    given = parser.parse_args()
    if given.once:
        swept(store=given.once)
        return
    chance, survived = random.Random(given.seed), []
    for name, kill in {"workers": killing_workers, "clients": killing_clients}.items():
        same = 0
        with quietly():
            for number, alike in enumerate(kill(given.times, chance), 1):
                same += alike
                survived.append(alike)
                print(f"{name} killed: {same} of {number} results have the bytes of an undisturbed one", flush=True)
    sys.exit(0 if all(survived) else 1)


if __name__ == "__main__":
    main()
