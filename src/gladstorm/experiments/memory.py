"""Finished parts of an experiment on disk, so that a killed run resumes.

A part is found by the hash of everything that decides its numbers: what is run, the versions, the simulator's code.
Its file's name ends in the hash of its own bytes, so one rename makes it appear whole and damage is always noticed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gladstorm
from gladstorm.record import Record
from gladstorm.simulate import versions

_DIGITS = 16
# What stands on the simulator cannot change a simulation whose identity, every number included, is the same.
_ABOVE = (
    "analysis",
    "cli",
    "compare",
    "compositions",
    "experiments",
    "figures",
    "optax",
    "progress",
    "publish",
    "report",
    "theory",
    "torch",
    "verification",
)


class Memory:
    """The folder that holds the parts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".*"):  # of a process that was killed while writing
            unfinished.unlink()

    def recall(self, name: str, identity: dict[str, Any], compute: Callable[[], Record]) -> Record:
        """The record of this identity, computed and stored if it is not there whole."""
        text = json.dumps({**identity, "versions": versions(), "code": code_version()}, sort_keys=True)
        stem = f"{name}-{_digest(text.encode())}"
        for path in self.folder.glob(f"{stem}-*.parquet"):
            try:
                if path.stem.rpartition("-")[2] == _digest(path.read_bytes()):
                    return Record.load(path)
            except ValueError:
                pass
            sys.stderr.write(f"{path} is damaged: computing it again.\n")
            path.unlink()
        record = compute()
        written = self.folder / f".{stem}.parquet"
        record.save(written)
        written.replace(self.folder / f"{stem}-{_digest(written.read_bytes())}.parquet")
        return record


@cache
def code_version(aside: tuple[str, ...] = _ABOVE) -> str:
    """A hash of the source, comments, layout and some modules aside: results of other code are not these results."""
    root = Path(gladstorm.__file__).parent
    sources = sorted(
        path for path in root.rglob("*.py") if path.relative_to(root).parts[0].removesuffix(".py") not in aside
    )
    return _digest(
        b"".join(f"{path.relative_to(root)}{ast.dump(ast.parse(path.read_text('utf-8')))}".encode() for path in sources)
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
