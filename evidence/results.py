"""Results that grow run by run in one JSON file: an interrupted study goes on from it."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gladstorm.cli.job import keep_in
from gladstorm.core.results import to_json
from gladstorm.jobs.files import write_text


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


def save(path: Path, results: dict[str, Any]) -> None:
    """Write the results, whole or not at all; a number that JSON cannot hold is refused by the name of its field."""
    write_text(path, json.dumps(to_json(results), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def versions_of(*packages: str) -> dict[str, str]:
    """Installed versions by package."""
    return {package: version(package) for package in packages}
