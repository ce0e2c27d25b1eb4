"""What keeping and spreading a sweep costs: beside the same sweep in this process, with nothing kept."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.measuring import Row, rounds, seconds, slower
from evidence.verification.checks import PartResult
from gladstorm import BlumGladyshev, Record, nsgdm, sgd, sweep
from gladstorm.jobs.tasks import Executor, Task, results
from gladstorm.problems import objectives
from gladstorm.simulation import cluster, layout

ORACLE = BlumGladyshev(objectives.named("power:3", start=4.7), 0.5, 0.5)
METHODS = {"NSGDM": nsgdm(np.geomspace(1e-4, 1e-2, 10), 0.01), "SGD": sgd(np.geomspace(1e-4, 1e-2, 10))}
STEPS, SEEDS = 100_000, 40  # four tasks of about two seconds
MANY = 1000  # tasks
ROUNDS = 7  # a store costs a few hundredths, as much as rounds differ


def rows() -> list[Row]:
    return [*_kept_and_spread(), _resumed(), _synced(), *_dispatched()]


def _swept(**options: object) -> Record:
    return sweep(ORACLE, METHODS, steps=STEPS, seeds=SEEDS, progress=False, **options)  # type: ignore[arg-type]


def _kept_and_spread() -> list[Row]:
    cores = len(os.sched_getaffinity(0))

    def kept() -> float:
        with tempfile.TemporaryDirectory() as folder:
            return seconds(partial(_swept, store=folder))

    with cluster.open_executor(cores, None) as executor:
        plain, with_store, spread = rounds(
            partial(seconds, _swept), kept, partial(seconds, partial(_swept, executor=executor)), repetitions=ROUNDS
        )
    return [
        slower("a sweep that is kept in a store vs one that is not", with_store, plain, 1.05),
        slower(f"the sweep on {cores} workers of one core each vs in this process", spread, plain, 1.10),
    ]


def _resumed() -> Row:
    """A finished job of so many tasks, asked for again."""
    small: Any = {"TASK_SECONDS": 1e-9, "RUNS": 1}
    with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(layout, **small):

        def job() -> Record:
            return sweep(ORACLE, [sgd(0.01)], steps=10, seeds=MANY, progress=False, store=folder)

        job()
        assert len(list(Path(folder).glob("*/*/*.parquet"))) == MANY
        took = float(np.median([seconds(job) for _ in range(ROUNDS)]))
    return Row(f"resuming a finished job of {MANY} tasks", f"{took:.2f} s", "≤ 2 s", took <= 2)


def _synced() -> Row:
    """What waiting for the disk costs a file: its bytes before its name, and the name."""
    with tempfile.TemporaryDirectory(dir=".") as folder:  # on the disk a store is on, not in memory

        def written() -> float:
            def save_all() -> None:
                for number in range(100):
                    PartResult().save(Path(folder) / str(number))

            return seconds(save_all) / 100

        def not_waiting() -> float:
            with mock.patch("os.fsync"):
                return written()

        synced, plain = (float(np.median(each)) for each in rounds(written, not_waiting, repetitions=ROUNDS))
    said = f"{1000 * synced:.1f} ms, {1000 * plain:.1f} ms without waiting"
    return Row("a small file that outlives a power cut", said, "", True)


def _dispatched() -> list[Row]:
    """What a task costs that computes nothing: sent, done, brought back."""
    from distributed import Client, LocalCluster

    tasks = [Task(str(number), number, PartResult) for number in range(MANY)]

    def row(where: str, executor: Executor) -> Row:
        list(results(tasks[:10], None, executor))
        took = seconds(lambda: list(results(tasks, None, executor)))
        return Row(f"a task {where} that computes nothing", f"{1000 * took / MANY:.1f} ms", "", True)

    with cluster.open_executor(1, None) as executor:
        found = [row("in a process of --workers", executor)]
    local = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL")
    with local, Client(local) as client:
        return [*found, row("on a Dask cluster", cluster.choose_executor(client))]
