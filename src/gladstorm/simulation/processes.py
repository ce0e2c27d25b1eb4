"""Tasks in processes of this machine, which `--workers` asks for.

Each is joined to this process by a pair of sockets that have no address: nobody else can connect, send it a task or
read a result. A process that dies costs the task it was at, and another one takes its place. A task that fails three
times, by an exception or by the death of its process, is reported at the end, after all others are done.
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
from gladstorm.simulation.worker import GRAIN, TRIES, Tally, compute_on_worker, made_with, pickled, prepare_worker

R = TypeVar("R")

DEATHS = 3  # of processes that were not ready yet, one after the other: the next would die too
END_SECONDS = 1  # in which a process that has closed its socket is gone


@dataclass
class _Attempt:
    """A task of a job on its way."""

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
        resource_tracker.ensure_running()  # whose start would let processes hear Ctrl-C again
        self._workers = [_Worker() for _ in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._workers:
            each.end()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes there are now."""
        return [each.pid for each in self._workers]

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they arrive."""
        job = Tally()
        fresh = (_Attempt(number, task, job) for number, task in tasks)
        due: deque[_Attempt] = deque()
        while True:
            for worker in self._workers:
                if not due and (following := next(fresh, None)):
                    due.append(following)
                if due and worker.is_idle:
                    worker.begin(due.popleft())
            under_way = sum(each.attempt is not None and each.attempt.job is job for each in self._workers)
            if not due and not under_way:
                break
            interrupts.check()
            joined: dict[Any, _Worker] = {each.joined: each for each in self._workers}
            for speaks in connection.wait(joined, GRAIN):
                attempt, result, failure = self._hear(joined[speaks])
                if attempt is None or attempt.job is not job:  # ready, or at work for a job that was given up
                    continue
                attempt.tries += 1
                if failure and attempt.tries < TRIES:
                    due.append(attempt)
                    continue
                under_way -= 1
                job.ended(attempt.task, under_way, failure)
                if not failure:
                    yield attempt.number, result
        job.require_all()

    def _hear(self, worker: _Worker) -> tuple[_Attempt | None, Any, str]:
        """What a worker has to say: the task it was at, its result or why there is none."""
        was_ready, attempt = worker.is_ready, worker.attempt
        try:
            result, failure = worker.listen()
        except (EOFError, OSError):
            cause = worker.what_ended_it()
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
    """A process, and what it is at."""

    def __init__(self) -> None:
        context = get_context("spawn")  # a fork would copy JAX's threads half
        self.joined, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _without_ctrl_c():
            self._process.start()
        interrupts.end_too(self.pid)
        theirs.close()  # so that its end is heard
        self.is_ready = False
        self.attempt: _Attempt | None = None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid or 0

    @property
    def is_idle(self) -> bool:
        """Whether it can begin with a task."""
        return self.is_ready and self.attempt is None

    def begin(self, attempt: _Attempt) -> None:
        """Send it a task."""
        task = pickled(attempt.task, pickle.dumps)
        self.attempt = attempt
        with contextlib.suppress(OSError):  # it has died, which is heard next
            self.joined.send((task, made_with(attempt.task.compute)))

    def listen(self) -> tuple[Any, str]:
        """The result of its task or why there is none; what it says first is that it is ready."""
        said: tuple[Any, str] = self.joined.recv()
        self.is_ready, self.attempt = True, None
        return said

    def end(self) -> None:
        """Kill it: all it has is a task, which can be computed again."""
        self._process.kill()
        interrupts.has_ended(self.pid)
        self._process.join()
        self.joined.close()

    def what_ended_it(self) -> str:
        """What became of one that says no more."""
        self._process.join(END_SECONDS)
        self.end()
        code = self._process.exitcode or 0
        if code >= 0:
            return f"ended with exit code {code}"
        lacks = ", as when the memory is full" if -code == signal.SIGKILL else ""
        return f"was killed by {signal.Signals(-code).name}{lacks}"


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Let processes that start here be deaf to Ctrl-C, from their first moment on: who started them ends them."""
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
    threading.Thread(target=_receive, args=(joined, due), daemon=True).start()
    sys.stdout = sys.stderr  # results go another way; what a user's part prints is not a command's answer
    prepare_worker(1)
    joined.send((None, ""))
    while True:
        task, asked_with = due.get()
        try:
            said = compute_on_worker(task, asked_with), ""
        except Exception:
            said = None, traceback.format_exc()
        joined.send(said)


def _receive(joined: Any, due: queue.SimpleQueue[Any]) -> None:
    """Take tasks as they come; when the process that sends them is gone, so is this one, whatever it is at."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            due.put(joined.recv())
    os._exit(1)
