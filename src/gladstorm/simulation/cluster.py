"""Executors of tasks: this process, others of this machine, or the workers of a Dask cluster.

Both are pools of `concurrent.futures`: `--workers N` its own, `--scheduler` that of `distributed`, imported only here.
Results come back to this process, which keeps them. A death costs the tasks under way, which are computed again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import itertools
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, TypeVar

from gladstorm.core.rules import COUNT, require_free_memory
from gladstorm.core.screen import shown
from gladstorm.jobs import interrupts
from gladstorm.jobs.progress import quietly
from gladstorm.jobs.provenance import source_of, versions
from gladstorm.jobs.tasks import HERE, Executor, Here, Task
from gladstorm.simulation import devices

if TYPE_CHECKING:
    from distributed import Client

R = TypeVar("R")

WORKER_BYTES = 300_000_000  # what a worker's process takes before it has computed anything
ANSWER_SECONDS = 5  # in which a scheduler must answer
GRAIN = 0.1  # seconds between two looks for Ctrl-C
AHEAD = 2  # tasks that a worker has in hand or waiting: it never waits for this process, and little is held
DEATHS = 3  # after which processes are made again


def choose_executor(given: Any) -> Executor:
    """Return the executor of a job's tasks: this process, or the workers of a `dask.distributed.Client`."""
    if given is None:
        return HERE
    if isinstance(given, Here | Processes):
        return given
    if type(given).__module__.startswith("distributed."):
        return _on_dask(given)
    raise ValueError(f"executor: must be a dask.distributed.Client, or None for this process; got {shown(given)}.")


@contextlib.contextmanager
def open_executor(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """Open the executor of --workers N or --scheduler ADDRESS: N processes of this machine, or a cluster's workers."""
    if workers is not None and scheduler is not None:
        raise ValueError(f"--workers and --scheduler exclude each other; got {workers} and {scheduler!r}.")
    if workers is not None:
        COUNT.require("cluster", "workers", workers)
        require_free_memory("cluster", f"{workers:,} workers", workers * WORKER_BYTES, "ask for fewer")
        resource_tracker.ensure_running()  # whose start would let processes hear Ctrl-C
        spawn = multiprocessing.get_context("spawn")  # a fork would copy JAX's threads half
        make = partial(ProcessPoolExecutor, workers, spawn, _begin_worker)
        processes = Processes(make, lambda: workers, pickle.dumps, BrokenProcessPool, DEATHS)
        try:
            yield processes
        finally:
            processes.end()
    elif scheduler is not None:
        with _connected(scheduler) as client:
            yield _on_dask(client)
    else:
        yield HERE


def _on_dask(client: Client) -> Processes:
    import cloudpickle
    from distributed import KilledWorker

    make = partial(client.get_executor, pure=False, retries=2)
    return Processes(make, lambda: sum(client.nthreads().values()), cloudpickle.dumps, KilledWorker, 0)


def _connected(scheduler: str) -> Client:
    if importlib.util.find_spec("distributed") is None:
        raise ValueError("--scheduler needs Dask, which is not installed; pip install 'gladstorm[dask]'.")
    import distributed
    from distributed.comm.addressing import get_address_host_port, parse_address

    try:
        if parse_address(scheduler)[0] in ("tcp", "tls"):  # a Client that fails to connect goes on in the background
            socket.create_connection(get_address_host_port(scheduler), timeout=ANSWER_SECONDS).close()
        return distributed.Client(scheduler, timeout=ANSWER_SECONDS)
    except (OSError, ValueError, MemoryError) as problem:  # a dashboard's greeting is read as a length of exabytes
        why = f"must be the address of a Dask scheduler that answers within {ANSWER_SECONDS} seconds"
        raise ValueError(f"--scheduler: {why}; got {scheduler!r} ({shown(problem)}).") from None


class Processes:
    """Other processes behind a pool of `concurrent.futures`: spawned here, or the workers of a Dask cluster."""

    def __init__(
        self,
        make: Callable[[], concurrent.futures.Executor],  # the pool
        size: Callable[[], int],  # how many compute at once, now
        dumps: Callable[[Any], bytes],
        death: type[BaseException],  # what futures then have
        most_deaths: int,  # after which the pool is made again
    ) -> None:
        self._make, self._size, self._dumps, self._death, self._most_deaths = make, size, dumps, death, most_deaths
        self._pool = make()

    def end(self) -> None:
        """End the processes: an interrupted command has no time to wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they arrive."""
        fresh, deaths = iter(tasks), 0
        due: list[tuple[int, Task[R]]] = []  # again
        running: dict[Future[Any], tuple[int, Task[R]]] = {}
        try:
            while True:
                free = AHEAD * max(1, self._size()) - len(running)
                for number, task in [*due, *itertools.islice(fresh, max(0, free - len(due)))]:
                    running[self._submit(task)] = number, task
                due = []
                if not running:
                    return
                interrupts.check()
                finished = wait(running, GRAIN, FIRST_COMPLETED).done
                if any(isinstance(future.exception(), self._death) for future in finished):
                    if (deaths := deaths + 1) > self._most_deaths:
                        raise ChildProcessError(
                            f"executor: a process must live to compute; {deaths} times one died, as when the memory "
                            f"is full, the last time with {next(iter(running.values()))[1].name} under way."
                        )
                    self._pool = self._make()
                    due, running = list(running.values()), {}
                    continue
                for future in finished:
                    number, _ = running.pop(future)
                    yield number, future.result()
        finally:
            for future in running:
                future.cancel()

    def _submit(self, task: Task[Any]) -> Future[Any]:
        packed = _pack(task, self._dumps)
        # Processes that start here ignore Ctrl-C from their first moment on: who started them ends them.
        mask = getattr(signal, "pthread_sigmask", lambda *_: ())
        before = mask(getattr(signal, "SIG_BLOCK", 0), [signal.SIGINT])
        try:
            return self._pool.submit(_compute_there, packed, _made_with())
        except self._death as death:
            failed: Future[Any] = Future()
            failed.set_exception(death)
            return failed
        finally:
            mask(getattr(signal, "SIG_SETMASK", 0), before)


def _made_with() -> dict[str, str]:
    return versions() | {"source": source_of("gladstorm")}


def _pack(task: Task[Any], dumps: Callable[[Any], bytes]) -> bytes:
    try:
        return dumps(task.compute)
    except Exception as problem:  # whatever the user's object raises
        raise ValueError(
            f"executor: what other processes compute must be picklable, and {task.name} is not ({shown(problem)}): "
            "define objectives, oracles and parts in a module that they can import, without open files, locks or "
            "generators."
        ) from problem


def _compute_there(packed: bytes, made_with: dict[str, str]) -> Any:
    """Compute a task in another process, on as many devices as a laptop has: the same programs, the same bytes."""
    if differs := {name: has for name, has in _made_with().items() if made_with[name] != has}:
        words = ", ".join(f"{name} {has} where {made_with[name]} asks" for name, has in differs.items())
        raise ValueError(f"executor: workers must have the versions of the process that sends tasks; one has {words}.")
    with contextlib.suppress(RuntimeError):  # of JAX, which takes no settings after its first computation
        devices.tune(devices.FEWEST)
    devices.keep_programs()
    with quietly():
        return pickle.loads(packed)()


def _begin_worker() -> None:
    """Let a process live as long as the one that started it, and print nothing where a command's answer goes."""
    sys.stdout = sys.stderr
    parent = multiprocessing.parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
