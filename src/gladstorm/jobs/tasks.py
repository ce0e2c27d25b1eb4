"""Long jobs as lists of tasks: pure functions of a description, computed here or elsewhere, kept as they finish.

`results` is the one way through such a job. What the store has is never computed or sent anywhere; what is missing goes
to an executor, in this process or others, and is kept when it arrives. `sweep`, `compare` and the studies of `evidence`
are all such jobs, so all of them resume and spread.
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
    compute: Callable[[], R]  # can be pickled where the job is to run in other processes


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
    """Compute tasks, or read their results from a store.

    Args:
        tasks: What to compute.
        store: The folder of finished results. Other processes may be working on it as well: what they finish before it
            is begun here is not computed again.
        executor: Where what is missing is computed.

    Yields:
        The number and the result of every task: first those the store has, then the others as they finish. One result
        is held at a time.
    """
    if store is None:
        yield from executor.compute(enumerate(tasks))
        return
    missing = []
    for number, task in enumerate(tasks):
        interrupts.check()
        if (result := store.find(task.identity)) is None:
            missing.append(number)
        else:
            yield number, result
    if len(missing) == len(tasks):
        store.log_that_none_fits()
    finished_elsewhere = []

    def still_missing() -> Iterator[tuple[int, Task[K]]]:
        for number in missing:
            if store.has(tasks[number].identity):
                finished_elsewhere.append(number)
            else:
                yield number, tasks[number]

    for number, result in executor.compute(still_missing()):
        store.keep(tasks[number].identity, result)
        yield number, result
    for number in finished_elsewhere:
        yield number, store.recall(tasks[number].identity, tasks[number].compute)
