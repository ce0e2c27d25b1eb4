"""Long jobs as lists of tasks: pure functions of a description, computed here or elsewhere, kept as they finish.

`results` is the one way through such a job. What the store has is never computed or sent anywhere; what is missing goes
to an executor, in this process or on a cluster, and is kept when it arrives. `sweep`, `compare` and the
studies of `evidence` are all such jobs, so all of them resume and spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from gladstorm.jobs import interrupts
from gladstorm.jobs.store import Keepable, Store

R = TypeVar("R")
K = TypeVar("K", bound=Keepable)


@dataclass(frozen=True)
class Task(Generic[R]):
    """One of the pure functions a job consists of."""

    name: str  # for people
    identity: Any  # everything that decides the result, JSON-ready
    compute: Callable[[], R]  # can be pickled where the job is to run on a cluster


class Executor(Protocol):
    """Where tasks are computed."""

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, as they finish; a task is taken when it can begin."""


class Here:
    """This process, one task after the other."""

    def compute(self, tasks: Iterable[tuple[int, Task[R]]]) -> Iterator[tuple[int, R]]:
        """Every task's result with its number, in order."""
        for number, task in tasks:
            interrupts.check()
            yield number, task.compute()


HERE = Here()


def results(
    tasks: Sequence[Task[K]], store: Store[K] | None = None, executor: Executor = HERE
) -> Iterator[tuple[int, K]]:
    """The result of every task with its number: first those the store has, then the others as they finish.

    One result is held at a time: whoever asks joins them as they come.
    """
    if store is None:
        yield from executor.compute(enumerate(tasks))
        return
    missing: list[int] = []
    for number, task in enumerate(tasks):
        interrupts.check()
        if (found := store.find(task.identity)) is None:
            missing.append(number)
        else:
            yield number, found
    if len(missing) == len(tasks):
        store.say_that_none_fits()
    due = _Due(tasks, missing, store)
    try:
        for number, result in executor.compute(due.to_compute()):
            store.keep(tasks[number].identity, result)
            due.claimed.discard(number)
            yield number, result
        for number in due.found_meanwhile:
            task = tasks[number]
            yield number, store.recall(task.identity, task.compute)
    finally:
        due.release()


class _Due:
    """The missing tasks of a job whose store other processes may be working on as well."""

    def __init__(self, tasks: Sequence[Task[Any]], missing: list[int], store: Store[Any]) -> None:
        self._tasks, self._missing, self._store = tasks, missing, store
        self.claimed: set[int] = set()
        self.found_meanwhile: list[int] = []

    def to_compute(self) -> Iterator[tuple[int, Task[Any]]]:
        """Those nobody else has begun, then the rest: work may be done twice, and none is waited for or lost."""
        later = []
        for number in self._missing:
            task = self._tasks[number]
            if self._store.claim(task.identity):
                self.claimed.add(number)
                yield from self._unless_there(number)
            else:
                later.append(number)
        for number in later:
            yield from self._unless_there(number)

    def release(self) -> None:
        """Leave to others what was begun and will not be finished here."""
        for number in self.claimed:
            self._store.release(self._tasks[number].identity)

    def _unless_there(self, number: int) -> Iterator[tuple[int, Task[Any]]]:
        task = self._tasks[number]
        if self._store.has(task.identity):
            self.found_meanwhile.append(number)
        else:
            yield number, task
