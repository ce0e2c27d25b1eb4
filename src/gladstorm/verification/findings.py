"""What one part of a verification found, and how it is kept so that a killed one resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gladstorm.files import write_whole
from gladstorm.provenance import code_version, digest, versions
from gladstorm.verification.checks import Check
from gladstorm.verification.runs import Settings

# What only shows results, or is not run by a verification, cannot change them.
_ASIDE = ("cli", "figures", "optax", "progress", "publish", "report", "torch")
_PUT_IN = ("method", "wrapper", "instances")  # settings that are not numbers; a part's name says its instance


@dataclass(frozen=True)
class Findings:
    """Checks, and rows of tables by the table's name."""

    checks: list[Check] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def kept(folder: Path | None, part: str, settings: Settings, compute: Callable[[], Findings]) -> Findings:
    """The part's findings: read from the folder if these settings, code and versions left them there, else computed."""
    if folder is None:
        return compute()
    numbers = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name not in _PUT_IN}
    decides = [part, numbers, settings.method.__qualname__, settings.wrapper.__qualname__]
    identity = json.dumps([*decides, versions(), code_version(_ASIDE)], sort_keys=True)
    path = folder / f"{digest(identity.encode())}.json"
    if path.exists():
        data = json.loads(path.read_text("utf-8"))
        return Findings([Check.from_list(each) for each in data["checks"]], data["rows"])
    found = compute()
    text = json.dumps({"part": part, "checks": [check.as_list() for check in found.checks], "rows": found.rows})
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))
    return found
