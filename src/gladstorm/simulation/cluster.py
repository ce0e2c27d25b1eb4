"""Tasks on the workers of a Dask cluster. Nothing else imports Dask, and this module only when a cluster is used.

Results come back to this process, which keeps them: a worker that dies costs the task it was at, and another worker
does that one again. A task that fails three times is reported at the end, after all others are done.
"""

from __future__ import annotations

import contextlib
import importlib.util
import pickle
import queue
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gladstorm.foundation import interrupts
from gladstorm.foundation.memory import require_room
from gladstorm.foundation.progress import annotate, quietly, remark
from gladstorm.foundation.provenance import versions
from gladstorm.foundation.rules import COUNT
from gladstorm.foundation.screen import shown
from gladstorm.foundation.sources import source_of
from gladstorm.foundation.tasks import HERE, Executor, Here, Task
from gladstorm.simulation import devices, programs

if TYPE_CHECKING:
    from distributed import Client, Future

R = TypeVar("R")

WORKER_BYTES = 300_000_000  # what a worker's process takes before it has computed anything
ANSWER_SECONDS = 5  # in which a scheduler must answer
GRAIN = 0.1  # seconds between two looks for Ctrl-C
TRIES = 3
AHEAD = 2  # tasks that a worker's thread has in hand or waiting, so that it never waits for this process


class TasksFailedError(ValueError):
    """Some tasks of a job failed, each as often as it was tried; all others are done."""


def executor_of(given: Any) -> Executor:
    """Where the tasks of a job are computed: in this process, or by the workers of a `dask.distributed.Client`."""
    if given is None:
        return HERE
    if isinstance(given, Here | OnDask):
        return given
    if type(given).__module__.startswith("distributed."):
        return OnDask(given)
    raise ValueError(f"executor: must be a dask.distributed.Client, or None for this process; got {shown(given)}.")


@contextlib.contextmanager
def opened(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """What --workers N or --scheduler ADDRESS asks for: so many processes of this machine, or a cluster's workers."""
    if workers is None and scheduler is None:
        yield HERE
        return
    if workers is not None and scheduler is not None:
        raise ValueError(f"--workers and --scheduler exclude each other; got {workers} and {scheduler!r}.")
    if importlib.util.find_spec("distributed") is None:
        raise ValueError("--workers and --scheduler need Dask, which is not installed; pip install 'gladstorm[dask]'.")
    import distributed

    if workers is not None:
        COUNT.require("cluster", "workers", workers)
        require_room("cluster", f"{workers:,} workers", workers * WORKER_BYTES, "ask for fewer")
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
        )
        with cluster, distributed.Client(cluster) as client:
            yield OnDask(client)
        return
    try:
        _require_answer(str(scheduler))
        client = distributed.Client(scheduler, timeout=ANSWER_SECONDS)
    except (OSError, ValueError, MemoryError) as problem:
        # Dask takes the greeting of another kind of server for the length of a message, of exabytes.
        other = "what answers there is no scheduler; a dashboard's address is not its scheduler's"
        why = other if isinstance(problem, MemoryError) else shown(problem)
        raise ValueError(
            f"--scheduler: a Dask scheduler must answer within {ANSWER_SECONDS} seconds; got {scheduler!r} ({why})."
        ) from None
    with client:
        yield OnDask(client)


def _require_answer(scheduler: str) -> None:
    """Raise what is wrong with an address: a Client that fails to connect goes on trying in the background."""
    from distributed.comm.addressing import get_address_host_port, parse_address

    protocol, _ = parse_address(scheduler)
    if protocol in ("tcp", "tls"):
        host, port = get_address_host_port(scheduler)
        socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()


class OnDask:
    """The workers of a Dask cluster, however many there are and come to be."""

    def __init__(self, client: Client) -> None:
        from distributed.diagnostics.plugin import WorkerPlugin

        class Prepare(WorkerPlugin):
            name = "gladstorm"

            def setup(self, worker: Any) -> None:
                prepare_worker(worker.state.nthreads)

        self._client = client
        try:
            client.register_plugin(Prepare())
        except Exception as problem:  # Dask raises here whatever a worker raised there
            raise ValueError(
                f"executor: the workers must be able to import this version of gladstorm; one says {shown(problem)}."
            ) from problem

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they arrive."""
        work = _Dispatch(self._client, iter(tasks))
        try:
            while work.begin_more():
                if (finished := work.next_finished()) is not None:
                    yield finished
        finally:
            work.cancel()
        if work.failed:
            raise TasksFailedError(
                f"executor: {len(work.failed)} tasks failed {TRIES} times each, and all others are done; their errors "
                f"are printed above. The first is {work.failed[0]}."
            )


class _Dispatch:
    """Tasks under way: a few more than the workers have threads for, so that nobody waits and little is held."""

    def __init__(self, client: Client, tasks: Iterator[tuple[int, Task[Any]]]) -> None:
        self._client, self._tasks = client, tasks
        self._finished: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._running: dict[Any, tuple[int, Task[Any], Future[Any]]] = {}
        self._done = 0
        self._threads, self._counted = 0, -1.0  # of all workers, and when they were counted
        self._waiting = False
        self.failed: list[str] = []  # names

    def begin_more(self) -> bool:
        """Send tasks as far as there is room; False when all are done."""
        room = max(1, AHEAD * self._count_threads())
        while len(self._running) < room and (following := next(self._tasks, None)) is not None:
            number, task = following
            future = self._client.submit(
                compute_on_worker, _pickled(task), versions(), source_of(task.compute), pure=False, retries=TRIES - 1
            )
            self._running[future.key] = number, task, future
            future.add_done_callback(self._finished.put)
        return bool(self._running)

    def next_finished(self) -> tuple[int, Any] | None:
        """The number and result of a task that has just finished, if one has."""
        interrupts.check()
        try:
            future = self._finished.get(timeout=GRAIN)
        except queue.Empty:
            return None
        number, task, _ = self._running.pop(future.key)
        result = None
        if future.status == "finished":
            result = number, future.result()
            self._done += 1
        else:
            self.failed.append(task.name)
            remark(f"{task.name} failed {TRIES} times:\n{_traceback(future)}")
        annotate(f"{self._done} done, {len(self._running)} under way, {len(self.failed)} failed; last: {task.name}")
        return result

    def cancel(self) -> None:
        """Take back what has not finished."""
        self._client.cancel([future for _, _, future in self._running.values()])

    def _count_threads(self) -> int:
        """Threads of all workers, asked for once a second: workers come and go."""
        now = time.monotonic()
        if now - self._counted > 1:
            self._threads, self._counted = sum(self._client.nthreads().values()), now
            if not self._threads and not self._waiting:
                remark("waiting for workers: the scheduler has none …")
            self._waiting = not self._threads
        return self._threads


def _traceback(future: Future[Any]) -> str:
    problem = future.exception()
    return "".join(traceback.format_exception(type(problem), problem, future.traceback()))


def _pickled(task: Task[Any]) -> bytes:
    """The task as bytes, or a sentence about what cannot be sent to another process."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(task.compute))
    except Exception as problem:  # whatever the user's object raises
        raise ValueError(
            f"executor: what workers compute must be picklable, and {_unpicklable(task.compute, task.name)} is not "
            f"({shown(problem)}): define objectives, oracles and parts in a module that the workers can import, "
            "without open files, locks or generators."
        ) from problem


def _unpicklable(value: Any, name: str) -> str:
    """The name of the innermost thing in a value that cannot be pickled: the class of what holds it, and the field."""
    import cloudpickle

    inside = [(name, each) for each in value] if isinstance(value, list | tuple) else []
    if is_dataclass(value):
        inside = [(f"{type(value).__name__}.{each.name}", getattr(value, each.name)) for each in fields(value)]
    for its_name, each in inside:
        try:
            cloudpickle.dumps(each)
        except Exception:  # as above
            return _unpicklable(each, its_name)
    return name


def compute_on_worker(pickled: bytes, asked_with: dict[str, str], source: str) -> Any:
    """Compute a task in a worker's thread, on a device of its own."""
    _require_same(versions(), asked_with)
    compute: Callable[[], Any] = pickle.loads(pickled)
    _require_same({"source": source_of(compute)}, {"source": source})
    device = _FREE.get()
    try:
        with devices.only([device]), quietly():
            return compute()
    finally:
        _FREE.put(device)


def _require_same(here: dict[str, str], asked_with: dict[str, str]) -> None:
    if other := {name: (here[name], asked) for name, asked in asked_with.items() if here[name] != asked}:
        told = ", ".join(f"{name} {has} where {asked} asks" for name, (has, asked) in other.items())
        raise ValueError(f"executor: workers must have the versions of the process that sends tasks; one has {told}.")


_FREE: queue.SimpleQueue[Any] = queue.SimpleQueue()  # the devices of a worker, one for each of its threads
_PREPARED = threading.Lock()


def prepare_worker(threads: int) -> None:
    """Give each thread of this process a device of its own, once; where JAX has started they share what there is."""
    if not _PREPARED.acquire(blocking=False):
        return
    with contextlib.suppress(RuntimeError):  # of JAX, which takes no settings after its first computation
        devices.tune(threads)
    programs.enable_program_cache()
    there = devices.available()
    for number in range(threads):
        _FREE.put(there[number % len(there)])
