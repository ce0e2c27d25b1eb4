"""Tasks in processes of this machine, which `--workers` asks for.

Each is joined to this process by a pair of sockets that have no address: nobody else can connect, send it a task or
read a result. A process that dies costs the task it was at, and another one takes its place: `concurrent.futures` gives
up all tasks when one process dies. A task that fails three times, by an exception or by the death of its process, is
reported at the end, after all others are done.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from typing import Any, TypeVar

from gladstorm.jobs import interrupts
from gladstorm.jobs.tasks import Task
from gladstorm.simulation.worker import GRAIN, TRIES, Tally, compute_on_worker, pack, prepare_worker

R = TypeVar("R")

DEATHS = 3  # of processes that were not ready yet, one after the other: the next would die too
END_SECONDS = 1  # in which a process that has closed its socket is gone


@dataclass
class _Attempt:
    """A task of a job that is due or running."""

    number: int
    task: Task[Any]
    job: Tally
    tries: int = 0


class Processes:
    """So many processes in a with-block, each at one task at a time."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[_Worker] = []
        self._died_early = 0

    def __enter__(self) -> Processes:
        resource_tracker.ensure_running()  # whose start would let processes receive Ctrl-C again
        self._workers = [_Worker() for _ in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes there are now."""
        return [worker.pid for worker in self._workers]

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they arrive."""
        job = Tally()
        fresh = (_Attempt(number, task, job) for number, task in tasks)
        due: deque[_Attempt] = deque()
        while True:
            for worker in self._workers:
                if not due and (following := next(fresh, None)):
                    due.append(following)
                if due and worker.is_ready and worker.attempt is None:
                    worker.begin(due.popleft())
            running = sum(worker.attempt is not None and worker.attempt.job is job for worker in self._workers)
            if not due and not running:
                break
            interrupts.check()
            joined: dict[Any, _Worker] = {worker.joined: worker for worker in self._workers}
            for ready in connection.wait(joined, GRAIN):
                attempt, result, failure = self._receive(joined[ready])
                if attempt is None or attempt.job is not job:  # ready, or at work for a job that was given up
                    continue
                attempt.tries += 1
                if failure and attempt.tries < TRIES:
                    due.append(attempt)
                    continue
                running -= 1
                job.count(attempt.task, running, failure)
                if not failure:
                    yield attempt.number, result
        job.require_all()

    def _receive(self, worker: _Worker) -> tuple[_Attempt | None, Any, str]:
        """The task that a worker was at, and its result or why there is none; of a dead worker, replace it."""
        was_ready, attempt = worker.is_ready, worker.attempt
        try:
            result, failure = worker.receive()
        except (EOFError, OSError):
            cause = worker.end_and_say_why()
            self._workers[self._workers.index(worker)] = _Worker()
            self._died_early = 0 if was_ready else self._died_early + 1
            if self._died_early >= DEATHS:
                raise ChildProcessError(
                    f"--workers: a process must live to compute; {DEATHS} in a row died while they started, the last "
                    f"{cause}."
                ) from None
            return attempt, None, f"its process {cause}"
        self._died_early = 0
        return attempt, result, failure


class _Worker:
    """A process, and the task it is at."""

    def __init__(self) -> None:
        context = get_context("spawn")  # a fork would copy JAX's threads half
        self.joined, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _without_ctrl_c():
            self._process.start()
        interrupts.kill_with_this_process(self.pid)
        theirs.close()  # so that its end is noticed
        self.is_ready = False
        self.attempt: _Attempt | None = None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid or 0

    def begin(self, attempt: _Attempt) -> None:
        """Send it a task."""
        packed = pack(attempt.task, pickle.dumps)
        self.attempt = attempt
        with contextlib.suppress(OSError):  # it has died, which is noticed next
            self.joined.send(packed)

    def receive(self) -> tuple[Any, str]:
        """The result of its task or why there is none; the first message says that it is ready."""
        message: tuple[Any, str] = self.joined.recv()
        self.is_ready, self.attempt = True, None
        return message

    def end(self) -> None:
        """Kill it: all it has is a task, which can be computed again."""
        self._process.kill()
        interrupts.forget_process(self.pid)
        self._process.join()
        self.joined.close()

    def end_and_say_why(self) -> str:
        """What became of one that sends no more."""
        self._process.join(END_SECONDS)
        self.end()
        code = self._process.exitcode or 0
        if code >= 0:
            return f"ended with exit code {code}"
        lacks = ", as when the memory is full" if -code == signal.SIGKILL else ""
        return f"was killed by {signal.Signals(-code).name}{lacks}"


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Let processes that start here ignore Ctrl-C, from their first moment on: who started them ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(joined: Any) -> None:
    """Compute what comes until nothing can come any more; the life of a process."""
    due: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive_tasks, args=(joined, due), daemon=True).start()
    sys.stdout = sys.stderr  # results go another way; what a user's part prints is not a command's answer
    prepare_worker(1)
    joined.send((None, ""))
    while True:
        packed = due.get()
        try:
            message = compute_on_worker(*packed), ""
        except Exception:
            message = None, traceback.format_exc()
        joined.send(message)


def _receive_tasks(joined: Any, due: queue.SimpleQueue[Any]) -> None:
    """Take tasks as they come; when the process that sends them is gone, so is this one, whatever it is at."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            due.put(joined.recv())
    os._exit(1)
