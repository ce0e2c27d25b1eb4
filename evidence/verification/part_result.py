"""What one part of a verification found, as it is kept so that a killed one resumes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence.verification.checks import Check
from gladstorm.jobs.files import load_json, save_json

FORMAT = "gladstorm verification part 1"


@dataclass(frozen=True)
class PartResult:
    """Checks, and rows of tables by the table's name."""

    checks: list[Check] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def save(self, path: Path, *, key: str = "") -> None:
        """Write them as JSON with their key in a store and a digest; whole or not at all."""
        save_json(path, FORMAT, {"checks": [check.as_list() for check in self.checks], "rows": self.rows}, key)

    @classmethod
    def load(cls, path: Path, *, key: str = "") -> PartResult:
        """Read what `save` wrote; a ValueError says when a file is damaged, no such part, or another one."""
        content = load_json("PartResult.load", path, FORMAT, key)
        return cls([Check.from_list(each) for each in content["checks"]], content["rows"])
