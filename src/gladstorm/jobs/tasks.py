"""Long jobs as lists of tasks, pure functions of a description: computed here or elsewhere, kept in a store.

`results` is the one way through such a job. What the store has is never computed or sent anywhere; what is missing goes
to an executor, in this process or others, and is kept when it arrives. `sweep`, `compare` and the studies of `evidence`
are all such jobs, so all of them resume and spread.

A result is found by the hash of everything that decides it: what was asked for, the versions, and the source. Its file
appears whole and carries its own digest and this hash: one that is damaged, or stands under another's name, is named,
removed and computed again. Any number of processes may share a store.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from gladstorm.core.screen import shown
from gladstorm.jobs import interrupts
from gladstorm.jobs.files import require_regular, save_json
from gladstorm.jobs.progress import log
from gladstorm.jobs.provenance import digest, source, versions

_FORMAT = "gladstorm store 1"
_MADE_WITH = "made-with.json"
_OPENED: set[Path] = set()  # folders of which this process has said what else they hold


class Keepable(Protocol):
    """A result that a store can keep."""

    def save(self, path: Path, /, *, key: str) -> None:
        """Write the result, whole or not at all, with its key and a digest."""

    @classmethod
    def load(cls, path: Path, /, *, key: str) -> Self:
        """Read what `save` wrote; a ValueError says when it is damaged or has another key."""


R = TypeVar("R")
K = TypeVar("K", bound=Keepable)


class Store(Generic[K]):
    """A folder of results of one kind, those of each combination of versions and source in a folder of their own."""

    def __init__(self, folder: str | os.PathLike[str], kind: type[K], suffix: str) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise ValueError(f"store: must be the path of a folder, or None to keep nothing; got {shown(folder)}.")
        folder, made_with = Path(folder), versions() | {"source": source()}
        self._kind, self._suffix, self._full = kind, suffix, False
        self._folder = folder / _key(made_with)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not (self._folder / _MADE_WITH).exists():
                save_json(self._folder / _MADE_WITH, _FORMAT, {"versions": made_with})
        except OSError as problem:
            raise ValueError(
                f"store: must be a folder that can be written to; got {str(folder)!r} ({problem.strerror})."
            ) from None
        self._has_others = folder not in _OPENED and any(folder.glob(f"*/*/*{suffix}"))
        _OPENED.add(folder)

    def find(self, identity: Any) -> K | None:
        """The result of this identity if it is there whole. A damaged one is logged and removed."""
        path = self._path(identity)
        try:
            return self._kind.load(path, key=self._key_of(path))
        except FileNotFoundError:
            return None
        except ValueError as damage:
            log(f"{damage} It is computed again.")
            with contextlib.suppress(OSError):  # on a disk that has become read-only, what is kept can still be read
                path.unlink(missing_ok=True)
            self._has_others = False  # this job has been here
            return None

    def log_that_none_fits(self) -> None:
        """Log, once, that no result found here is of this job: who meant to resume may have changed a number."""
        if self._has_others:
            log(
                f"store: {self._folder.parent} holds results of other jobs, versions or source and none of this job, "
                "whose problem, methods, seeds or steps differ; everything is computed, and the others are kept."
            )
        self._has_others = False

    def has(self, identity: Any) -> bool:
        """Whether there is a file for this identity."""
        return self._path(identity).is_file()

    def keep(self, identity: Any, result: K) -> None:
        """Write the result. On a full disk the job goes on, and that nothing can be kept is logged once."""
        path = self._path(identity)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            result.save(path, key=self._key_of(path))
        except OSError as problem:
            if not self._full:
                log(f"store: results can no longer be kept in {path.parent} ({problem.strerror}); the job goes on.")
            self._full = True

    def recall(self, identity: Any, compute: Callable[[], K]) -> K:
        """The result of this identity: read if it is there whole, else computed and kept."""
        result = self.find(identity)
        if result is None:
            result = compute()
            self.keep(identity, result)
        return result

    def _path(self, identity: Any) -> Path:
        """The file of a result, in one of 256 folders: a folder of 10⁵ files is slow to work in."""
        key = _key(identity)
        path = self._folder / key[:2] / f"{key}{self._suffix}"
        require_regular("store", path)
        if path.is_symlink():
            raise ValueError(f"store: a result must not be a link; got {str(path)!r}: remove it.")
        return path

    def _key_of(self, path: Path) -> str:
        """The key of the file at a path: by which versions and source it was made, of which identity."""
        return f"{self._folder.name}/{path.stem}"


def _key(identity: Any) -> str:
    """The name of what some JSON-ready data decides."""
    return digest(json.dumps(identity, sort_keys=True).encode())


@dataclass(frozen=True)
class Task(Generic[R]):
    """One of the pure functions a job consists of."""

    name: str  # for people
    identity: Any  # everything that decides the result, JSON-ready
    compute: Callable[[], R]  # can be pickled where the job is to run in other processes


class Executor(Protocol):
    """A place where tasks are computed."""

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
    waiting = dict(enumerate(tasks))

    def read(numbers: list[int]) -> Iterator[tuple[int, K]]:
        for number in numbers:
            interrupts.check()
            task = waiting.pop(number)
            yield number, store.recall(task.identity, task.compute)

    def missing() -> Iterator[tuple[int, Task[K]]]:
        for number in list(waiting):
            if not store.has(tasks[number].identity):  # or another process has finished it
                yield number, waiting.pop(number)

    yield from read([number for number, task in waiting.items() if store.has(task.identity)])
    if len(waiting) == len(tasks):
        store.log_that_none_fits()
    for number, result in executor.compute(missing()):
        store.keep(tasks[number].identity, result)
        yield number, result
    yield from read(list(waiting))
