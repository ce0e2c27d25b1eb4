"""What both sides of an executor share: how a task is sent, how a worker computes it, and what is said of the job."""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from gladstorm.core.screen import shown
from gladstorm.jobs.progress import annotate, log, quietly
from gladstorm.jobs.provenance import source_of, versions
from gladstorm.jobs.tasks import Task
from gladstorm.simulation import devices, programs

GRAIN = 0.1  # seconds between two looks for Ctrl-C
TRIES = 3


class TasksFailedError(ValueError):
    """Some tasks of a job failed, each as often as it was tried; all others are done."""


class Tally:
    """Counts the tasks of a job that are done and that failed, and shows it as they end."""

    def __init__(self) -> None:
        self._done = 0
        self._failed: list[str] = []  # names

    def count(self, task: Task[Any], running: int, failure: str = "") -> None:
        """Count a task that is done, or that failed as often as it was tried."""
        if failure:
            self._failed.append(task.name)
            log(f"{task.name} failed {TRIES} times:\n{failure}")
        else:
            self._done += 1
        annotate(f"{self._done} done, {running} under way, {len(self._failed)} failed; last: {task.name}")

    def require_all(self) -> None:
        """Raise a `TasksFailedError` if any failed."""
        if self._failed:
            raise TasksFailedError(
                f"executor: {len(self._failed)} tasks failed {TRIES} times each, and all others are done; their errors "
                f"are printed above. The first is {self._failed[0]}."
            )


def pack(task: Task[Any], dumps: Callable[[Any], bytes]) -> tuple[bytes, dict[str, str]]:
    """A task as it is sent to a worker: its bytes, and the versions and source that it must be computed with.

    Raises:
        ValueError: If it cannot be pickled; the sentence names the innermost field that cannot.
    """
    made_with = versions() | {"source": source_of(task.compute)}
    try:
        return dumps(task.compute), made_with
    except Exception as problem:  # whatever the user's object raises
        raise ValueError(
            f"executor: what workers compute must be picklable, and {_unpicklable(task.compute, task.name, dumps)} is "
            f"not ({shown(problem)}): define objectives, oracles and parts in a module that the workers can import, "
            "without open files, locks or generators."
        ) from problem


def _unpicklable(value: Any, name: str, dumps: Callable[[Any], bytes]) -> str:
    """The name of the innermost thing in a value that cannot be pickled: the class of what holds it, and the field."""
    inside = [(name, entry) for entry in value] if isinstance(value, list | tuple) else []
    if is_dataclass(value):
        inside = [(f"{type(value).__name__}.{field.name}", getattr(value, field.name)) for field in fields(value)]
    for inner_name, inner in inside:
        try:
            dumps(inner)
        except Exception:  # as above
            return _unpicklable(inner, inner_name, dumps)
    return name


def compute_on_worker(task: bytes, made_with: dict[str, str]) -> Any:
    """Compute what `pack` packed in a worker's thread, on a device of its own."""
    _require_same(versions(), made_with)  # before the task is read: other versions may not be able to
    compute: Callable[[], Any] = pickle.loads(task)
    _require_same({"source": source_of(compute)}, made_with)
    device = _FREE.get()
    try:
        with devices.only([device]), quietly():
            return compute()
    finally:
        _FREE.put(device)


def _require_same(here: dict[str, str], there: dict[str, str]) -> None:
    if differs := {name: has for name, has in here.items() if there.get(name, has) != has}:
        words = ", ".join(f"{name} {has} where {there[name]} asks" for name, has in differs.items())
        raise ValueError(f"executor: workers must have the versions of the process that sends tasks; one has {words}.")


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
