"""Where tasks are computed: in this process, in others of this machine, or by the workers of a Dask cluster.

Nothing else imports Dask, and this module only when a cluster is used.

Results come back to this process, which keeps them: a worker that dies costs the task it was at, and another worker
does that one again. A task that fails three times is reported at the end, after all others are done.
"""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import socket
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from gladstorm.core.memory import require_free_memory
from gladstorm.core.rules import COUNT
from gladstorm.core.screen import shown
from gladstorm.jobs import interrupts
from gladstorm.jobs.progress import log
from gladstorm.jobs.tasks import HERE, Executor, Here, Task
from gladstorm.simulation.processes import Processes
from gladstorm.simulation.worker import GRAIN, TRIES, Tally, compute_on_worker, pack, prepare_worker

if TYPE_CHECKING:
    from distributed import Client, Future

R = TypeVar("R")

WORKER_BYTES = 300_000_000  # what a worker's process takes before it has computed anything
ANSWER_SECONDS = 5  # in which a scheduler must answer
AHEAD = 2  # tasks that a worker's thread has in hand or waiting: it never waits for this process, and little is held


def choose_executor(given: Any) -> Executor:
    """Where the tasks of a job are computed: in this process, or by the workers of a `dask.distributed.Client`."""
    if given is None:
        return HERE
    if isinstance(given, Here | Processes | OnDask):
        return given
    if type(given).__module__.startswith("distributed."):
        return OnDask(given)
    raise ValueError(f"executor: must be a dask.distributed.Client, or None for this process; got {shown(given)}.")


@contextlib.contextmanager
def open_executor(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """What --workers N or --scheduler ADDRESS asks for: so many processes of this machine, or a cluster's workers."""
    if workers is None and scheduler is None:
        yield HERE
        return
    if workers is not None and scheduler is not None:
        raise ValueError(f"--workers and --scheduler exclude each other; got {workers} and {scheduler!r}.")
    if workers is not None:
        COUNT.require("cluster", "workers", workers)
        require_free_memory("cluster", f"{workers:,} workers", workers * WORKER_BYTES, "ask for fewer")
        with Processes(workers) as processes:
            yield processes
        return
    if importlib.util.find_spec("distributed") is None:
        raise ValueError("--scheduler needs Dask, which is not installed; pip install 'gladstorm[dask]'.")
    import distributed
    from distributed.comm.addressing import get_address_host_port, parse_address

    try:
        address = str(scheduler)
        if parse_address(address)[0] in ("tcp", "tls"):  # a Client that fails to connect goes on in the background
            socket.create_connection(get_address_host_port(address), timeout=ANSWER_SECONDS).close()
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


class OnDask:
    """The workers of a Dask cluster, however many there are and come to be."""

    def __init__(self, client: Client) -> None:
        from distributed.diagnostics.plugin import WorkerPlugin

        class Prepare(WorkerPlugin):
            name = "gladstorm"

            def setup(self, worker: Any) -> None:
                prepare_worker(worker.state.nthreads)

        self._client = client
        self._threads, self._counted = 0, -1.0  # of all workers, and when they were counted
        self._waiting = False
        try:
            client.register_plugin(Prepare())
        except OSError as problem:  # of the connection, as Dask's CommClosedError is
            raise ValueError(
                f"executor: the workers must live and be reachable; one was lost while it was made ready "
                f"({shown(problem)})."
            ) from problem
        except Exception as problem:  # Dask raises here whatever a worker raised there
            raise ValueError(
                f"executor: the workers must be able to import this version of gladstorm; one says {shown(problem)}."
            ) from problem

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they arrive."""
        import cloudpickle

        waiting, tally = iter(tasks), Tally()
        running: dict[Any, tuple[int, Task[R], Future[R]]] = {}
        finished: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()
        try:
            while True:
                most = max(1, AHEAD * self._count_threads())
                while len(running) < most and (following := next(waiting, None)) is not None:
                    packed = pack(following[1], cloudpickle.dumps)
                    future = self._client.submit(compute_on_worker, *packed, pure=False, retries=TRIES - 1)
                    running[future.key] = *following, future
                    future.add_done_callback(finished.put)
                if not running:
                    break
                interrupts.check()
                try:
                    future = finished.get(timeout=GRAIN)
                except queue.Empty:
                    continue
                number, task, _ = running.pop(future.key)
                failure = ""
                if future.status != "finished":
                    failure = "".join(traceback.format_exception(None, future.exception(), future.traceback()))
                tally.count(task, len(running), failure)
                if not failure:
                    yield number, future.result()
        finally:
            self._client.cancel([future for _, _, future in running.values()])
        tally.require_all()

    def _count_threads(self) -> int:
        """Threads of all workers, asked for once a second: workers come and go."""
        now = time.monotonic()
        if now - self._counted > 1:
            self._threads, self._counted = sum(self._client.nthreads().values()), now
            if not self._threads and not self._waiting:
                log("waiting for workers: the scheduler has none …")
            self._waiting = not self._threads
        return self._threads
