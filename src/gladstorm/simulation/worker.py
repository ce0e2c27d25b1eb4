"""What every process that computes tasks for another one has in common, and what the other one says about it."""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from gladstorm.core.screen import shown
from gladstorm.jobs.progress import annotate, quietly, remark
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.sources import source_of
from gladstorm.jobs.tasks import Task
from gladstorm.simulation import devices, programs

GRAIN = 0.1  # seconds between two looks for Ctrl-C
TRIES = 3


class TasksFailedError(ValueError):
    """Some tasks of a job failed, each as often as it was tried; all others are done."""


class Tally:
    """What became of the tasks of a job, said as they end."""

    def __init__(self) -> None:
        self._done = 0
        self._failed: list[str] = []  # names

    def ended(self, task: Task[Any], under_way: int, failure: str = "") -> None:
        """Count a task that is done, or that failed as often as it was tried."""
        if failure:
            self._failed.append(task.name)
            remark(f"{task.name} failed {TRIES} times:\n{failure}")
        else:
            self._done += 1
        annotate(f"{self._done} done, {under_way} under way, {len(self._failed)} failed; last: {task.name}")

    def require_all(self) -> None:
        """Raise a `TasksFailedError` if any failed."""
        if self._failed:
            raise TasksFailedError(
                f"executor: {len(self._failed)} tasks failed {TRIES} times each, and all others are done; their errors "
                f"are printed above. The first is {self._failed[0]}."
            )


def pickled(task: Task[Any], dumps: Callable[[Any], bytes]) -> bytes:
    """The task as bytes, or a sentence about what cannot be sent to another process."""
    try:
        return dumps(task.compute)
    except Exception as problem:  # whatever the user's object raises
        raise ValueError(
            f"executor: what workers compute must be picklable, and {_unpicklable(task.compute, task.name, dumps)} is "
            f"not ({shown(problem)}): define objectives, oracles and parts in a module that the workers can import, "
            "without open files, locks or generators."
        ) from problem


def _unpicklable(value: Any, name: str, dumps: Callable[[Any], bytes]) -> str:
    """The name of the innermost thing in a value that cannot be pickled: the class of what holds it, and the field."""
    inside = [(name, each) for each in value] if isinstance(value, list | tuple) else []
    if is_dataclass(value):
        inside = [(f"{type(value).__name__}.{each.name}", getattr(value, each.name)) for each in fields(value)]
    for its_name, each in inside:
        try:
            dumps(each)
        except Exception:  # as above
            return _unpicklable(each, its_name, dumps)
    return name


def made_with(compute: Callable[[], Any]) -> dict[str, str]:
    """What must be the same where a task is asked for and where it is computed."""
    return versions() | {"source": source_of(compute)}


def compute_on_worker(task: bytes, asked_with: dict[str, str]) -> Any:
    """Compute a task in a worker's thread, on a device of its own."""
    _require_same(versions(), asked_with)  # before the task is read: other versions may not be able to
    compute: Callable[[], Any] = pickle.loads(task)
    _require_same(made_with(compute), asked_with)
    device = _FREE.get()
    try:
        with devices.only([device]), quietly():
            return compute()
    finally:
        _FREE.put(device)


def _require_same(here: dict[str, str], asked_with: dict[str, str]) -> None:
    if other := {name: has for name, has in here.items() if asked_with.get(name, has) != has}:
        told = ", ".join(f"{name} {has} where {asked_with[name]} asks" for name, has in other.items())
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
