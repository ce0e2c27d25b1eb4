"""Finished results of a long job's tasks in a folder, so that a killed one resumes.

A result is found by the hash of everything that decides it: what was asked for, the versions, and the source. Its file
appears whole and carries its own digest and this hash: one that is damaged, or stands under another's name, is named,
removed and computed again. Any number of processes may share the folder. Each combination of versions and source has a
folder of its own inside, so that results of different ones never mix and a newer version can say what it does not use.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from gladstorm.core.screen import shown
from gladstorm.jobs.files import load_json, make_folder, require_regular, save_json
from gladstorm.jobs.progress import log
from gladstorm.jobs.provenance import digest, source, versions

_FORMAT = "gladstorm store 1"
_MADE_WITH = "made-with.json"
_OPENED: set[Path] = set()  # folders of which this process has said what else they hold


class Keepable(Protocol):
    """What can be kept."""

    def save(self, path: Path, /, *, key: str) -> None:
        """Write it, whole or not at all, with its key and a digest."""

    @classmethod
    def load(cls, path: Path, /, *, key: str) -> Self:
        """Read what `save` wrote; a ValueError says when it is damaged or has another key."""


K = TypeVar("K", bound=Keepable)


class Store(Generic[K]):
    """A folder of results of one kind; their files end in a suffix."""

    def __init__(self, folder: str | os.PathLike[str], kind: type[K], suffix: str) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise ValueError(f"store: must be the path of a folder, or None to keep nothing; got {shown(folder)}.")
        folder = Path(folder)
        self._kind, self._suffix, self._full = kind, suffix, False
        made_with = versions() | {"source": source()}
        self._folder = folder / _key(made_with)
        try:
            make_folder(self._folder)
            if not os.path.lexists(self._folder / _MADE_WITH):
                save_json(self._folder / _MADE_WITH, _FORMAT, {"versions": made_with})
        except OSError as problem:
            raise ValueError(
                f"store: must be a folder that can be written to; got {str(folder)!r} ({problem.strerror})."
            ) from None
        self._from_before = folder not in _OPENED and any(self._folder.glob(f"*/*{suffix}"))
        for other in _others(folder, self._folder) if folder not in _OPENED else ():
            differs = ", ".join(f"{name} {number}" for name, number in other.items() if made_with.get(name) != number)
            log(f"store: {folder} also holds results made with {differs or 'other code'}; they are left as they are.")
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
            self._from_before = False  # this job has been here
            return None

    def log_that_none_fits(self) -> None:
        """Log, once, that all results found here are of other jobs: who meant to resume may have changed a number."""
        if self._from_before:
            log(
                f"store: {self._folder.parent} holds results of other jobs and none of this one, whose problem, "
                "methods, seeds or steps differ; everything is computed, and the other results are kept."
            )
        self._from_before = False

    def has(self, identity: Any) -> bool:
        """Whether there is a file for this identity."""
        return self._path(identity).is_file()

    def keep(self, identity: Any, result: K) -> None:
        """Write the result. On a full disk the job goes on, and that nothing can be kept is logged once."""
        path = self._path(identity)
        try:
            make_folder(path.parent)
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
        """Its file, in one of 256 folders: a folder of 10⁵ files is slow to work in."""
        key = _key(identity)
        path = self._folder / key[:2] / f"{key}{self._suffix}"
        require_regular("store", path)
        if path.is_symlink():
            raise ValueError(f"store: a result must not be a link; got {str(path)!r}: remove it.")
        return path

    def _key_of(self, path: Path) -> str:
        """What the file at a path says it is: by which versions and source, of which identity."""
        return f"{self._folder.name}/{path.stem}"


def _key(identity: Any) -> str:
    """The name of what some JSON-ready data decides."""
    return digest(json.dumps(identity, sort_keys=True).encode())


def _others(folder: Path, this: Path) -> list[dict[str, str]]:
    """The versions of the other results in a folder."""
    others = []
    for path in sorted(folder.glob(f"*/{_MADE_WITH}")):
        with contextlib.suppress(ValueError, OSError, KeyError):
            made_with = load_json("store", path, _FORMAT)["versions"]
            if path.parent != this and _key(made_with) == path.parent.name:
                others.append(made_with)
    return others
