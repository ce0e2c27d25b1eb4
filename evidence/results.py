"""Results of studies, which go on where they were interrupted: parts kept one by one, or one file that grows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TypeVar

from gladstorm.cli.job import keep_in
from gladstorm.core.results import from_json, to_json
from gladstorm.jobs.files import load_json, save_json, write_text
from gladstorm.jobs.progress import Progress, annotate
from gladstorm.jobs.tasks import Executor, K, Store, Task
from gladstorm.jobs.tasks import results as results_of

Kind = TypeVar("Kind")

PART_FORMAT = "gladstorm evidence part 1"


def begin(study: str, path: Path, settings: dict[str, Any], runs: str) -> dict[str, Any]:
    """The results so far, if they were made with the same settings; new ones if there are none; else an error."""
    keep_in(path)
    settings = json.loads(json.dumps(settings))  # tuples become lists, as they will when read back
    if not path.exists():
        return {"settings": settings, runs: {}}
    try:
        results: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as problem:
        raise ValueError(f"{study}: {path} is damaged ({problem}); choose another --out or remove it.") from problem
    if results.get("settings") != settings:
        raise ValueError(
            f"{study}: {path} was made with other settings or versions; choose another --out or remove it."
        )
    return results


def save(path: Path, results: Any) -> None:
    """Write the results, whole or not at all; a number that JSON cannot hold is refused by the name of its field."""
    write_text(path, json.dumps(to_json(results), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load(kind: type[Kind], path: Path) -> Kind:
    """Read what `save` wrote, or results that have fewer fields; a ValueError names a field that is missing."""
    return from_json(kind, json.loads(path.read_text("utf-8")), path.name)


def load_some(kind: type[Kind], study: str, folder: Path, files: Mapping[str, str]) -> dict[str, Kind]:
    """Read the results of which there are files, by name; a ValueError if there are none."""
    results = {name: load(kind, folder / file) for name, file in files.items() if (folder / file).exists()}
    if not results:
        raise ValueError(f"{study}: the folder must hold {' or '.join(files.values())}; got {str(folder)!r}.")
    return results


def versions_of(*packages: str) -> dict[str, str]:
    """Installed versions by package."""
    return {package: version(package) for package in packages}


@dataclass(frozen=True)
class Part:
    """The result of one task, JSON-ready."""

    content: dict[str, Any]

    def save(self, path: Path, *, key: str = "") -> None:
        """Write the result with its key in a store and a digest; whole or not at all."""
        save_json(path, PART_FORMAT, {"content": self.content}, key)

    @classmethod
    def load(cls, path: Path, *, key: str = "") -> Self:
        """Read what `save` wrote; a ValueError says when a file is damaged or another one."""
        return cls(load_json("Part.load", path, PART_FORMAT, key)["content"])


def gathered(
    doing: str, tasks: list[Task[K]], store: Store[K] | None, executor: Executor, *, notes: bool = True
) -> list[K]:
    """Return the results of all tasks, in their order. Progress is shown, with a note of what was finished last."""
    finished: dict[int, K] = {}
    with Progress(doing, len(tasks)) as shown:
        shown(0)
        for number, result in results_of(tasks, store, executor):
            finished[number] = result
            annotate(tasks[number].name if notes else "")
            shown(len(finished))
    return [finished[number] for number in range(len(tasks))]
