"""Finished parts of an experiment on disk, so that a killed run resumes.

A part is found by the hash of everything that decides its numbers: what is run, the versions, the simulator's code.
Its file's name ends in the hash of its own bytes, so one rename makes it appear whole and damage is always noticed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gladstorm.provenance import code_version, digest, versions
from gladstorm.record import Record

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
        text = json.dumps({**identity, "versions": versions(), "code": simulator_version()}, sort_keys=True)
        stem = f"{name}-{digest(text.encode())}"
        for path in self.folder.glob(f"{stem}-*.parquet"):
            try:
                if path.stem.rpartition("-")[2] == digest(path.read_bytes()):
                    return Record.load(path)
            except ValueError:
                pass
            sys.stderr.write(f"{path} is damaged: computing it again.\n")
            path.unlink()
        record = compute()
        written = self.folder / f".{stem}.parquet"
        record.save(written)
        written.replace(self.folder / f"{stem}-{digest(written.read_bytes())}.parquet")
        return record


def simulator_version() -> str:
    """A hash of the source that decides a simulation."""
    return code_version(_ABOVE)
