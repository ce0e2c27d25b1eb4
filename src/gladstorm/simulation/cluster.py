"""Executors of tasks: this process, others of this machine, or the workers of a Dask cluster.

`--workers N` is `concurrent.futures.ProcessPoolExecutor`, `--scheduler` is `distributed`, which nothing else imports.
Results come back to this process, which keeps them. A death costs the tasks under way, which are computed again.
"""

from __future__ import annotations

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
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
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
    if isinstance(given, Here | Processes | OnDask):
        return given
    if type(given).__module__.startswith("distributed."):
        return OnDask(given)
    raise ValueError(f"executor: must be a dask.distributed.Client, or None for this process; got {shown(given)}.")


@contextlib.contextmanager
def open_executor(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """Open the executor of --workers N or --scheduler ADDRESS: N processes of this machine, or a cluster's workers."""
    if workers is not None and scheduler is not None:
        raise ValueError(f"--workers and --scheduler exclude each other; got {workers} and {scheduler!r}.")
    if workers is not None:
        COUNT.require("cluster", "workers", workers)
        require_free_memory("cluster", f"{workers:,} workers", workers * WORKER_BYTES, "ask for fewer")
        with Processes(workers) as processes:
            yield processes
    elif scheduler is not None:
        with _connected(scheduler) as client:
            yield OnDask(client)
    else:
        yield HERE


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
    """Worker processes in a with-block, joined to this one by pipes: nobody else can send them anything."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> Processes:
        resource_tracker.ensure_running()  # whose start would let processes hear Ctrl-C
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)  # an interrupted command has no time to wait

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they arrive."""
        fresh, deaths = iter(tasks), 0
        due: list[tuple[int, Task[R]]] = []  # again
        running: dict[Future[Any], tuple[int, Task[R]]] = {}
        try:
            while True:
                free = AHEAD * self._count - len(running)
                for number, task in [*due, *itertools.islice(fresh, max(0, free - len(due)))]:
                    running[self._submit(task)] = number, task
                due = []
                if not running:
                    return
                interrupts.check()
                finished = wait(running, GRAIN, FIRST_COMPLETED).done
                if any(isinstance(future.exception(), BrokenProcessPool) for future in finished):
                    if (deaths := deaths + 1) > DEATHS:
                        raise ChildProcessError(
                            f"--workers: a process must live to compute; {deaths} times one died, as when the memory "
                            f"is full, the last time with {next(iter(running.values()))[1].name} under way."
                        )
                    self._begin()
                    due, running = list(running.values()), {}
                    continue
                for future in finished:
                    number, _ = running.pop(future)
                    yield number, future.result()
        finally:
            for future in running:
                future.cancel()

    def _begin(self) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would copy JAX's threads half
        self._pool = ProcessPoolExecutor(self._count, spawn, _begin_worker)

    def _submit(self, task: Task[Any]) -> Future[Any]:
        packed = _pack(task, pickle.dumps)
        # Processes that start here ignore Ctrl-C from their first moment on: who started them ends them.
        mask = getattr(signal, "pthread_sigmask", lambda *_: ())
        before = mask(getattr(signal, "SIG_BLOCK", 0), [signal.SIGINT])
        try:
            return self._pool.submit(_compute_there, packed, _made_with())
        except BrokenProcessPool as death:
            failed: Future[Any] = Future()
            failed.set_exception(death)
            return failed
        finally:
            mask(getattr(signal, "SIG_SETMASK", 0), before)


class OnDask:
    """The workers of a Dask cluster, however many there are and come to be."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they arrive."""
        import cloudpickle
        from distributed import KilledWorker, as_completed

        fresh, completed = iter(tasks), as_completed()
        numbers: dict[Any, int] = {}
        try:
            while True:
                most = max(1, AHEAD * sum(self._client.nthreads().values()))
                for number, task in itertools.islice(fresh, max(0, most - len(numbers))):
                    packed = _pack(task, cloudpickle.dumps)
                    future = self._client.submit(_compute_there, packed, _made_with(), pure=False, retries=2)
                    numbers[future] = number
                    completed.add(future)
                if not numbers:
                    return
                while not completed.has_ready():
                    interrupts.check()
                    time.sleep(GRAIN)
                future = next(completed)
                number = numbers.pop(future)
                try:
                    yield number, future.result()
                except KilledWorker as death:
                    raise ChildProcessError(f"executor: workers must live to compute; {shown(death)}.") from death
        finally:
            self._client.cancel(list(numbers))


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
    """Compute a task in another process, on one device."""
    if differs := {name: has for name, has in _made_with().items() if made_with[name] != has}:
        words = ", ".join(f"{name} {has} where {made_with[name]} asks" for name, has in differs.items())
        raise ValueError(f"executor: workers must have the versions of the process that sends tasks; one has {words}.")
    with contextlib.suppress(RuntimeError):  # of JAX, which takes no settings after its first computation
        devices.tune(1)
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
