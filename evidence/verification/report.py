"""All checks of all regimes as one report: what was run, what was claimed, at what confidence, and what it proves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.verification.checks import FAMILY, Verdict, level_of_each, numbers, random_numbers, rounded
from evidence.verification.meaning import MEANING
from evidence.verification.settings import VerificationSettings
from gladstorm.jobs.files import write_text
from gladstorm.jobs.provenance import versions


@dataclass(frozen=True)
class VerificationReport:
    """Every check, decided."""

    settings: VerificationSettings
    verdicts: list[Verdict]
    rows: dict[str, list[dict[str, Any]]]  # by table

    @property
    def holds(self) -> bool:
        """Whether every check does."""
        return not self.failures

    @property
    def failures(self) -> list[Verdict]:
        """The checks that do not hold."""
        return [verdict for verdict in self.verdicts if not verdict.holds]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data; the same bytes for the same settings, versions and machine."""
        settings, checks = self.settings, [verdict.check for verdict in self.verdicts]
        return {
            "holds": self.holds,
            "confidence": {
                "family": FAMILY,
                "checks": len(checks),
                "numbers": len(numbers(checks)),
                "random_numbers": len(random_numbers(checks)),
                "level": level_of_each(len(random_numbers(checks))),
                "method": "Student's two-sided interval over seeds, Bonferroni over all different random numbers",
            },
            "settings": {
                "horizons": list(settings.horizons),
                "fit_from": settings.fit_from,
                "seeds": settings.seeds,
                "identity_seeds": settings.seeds * settings.blocks,
                "noise_horizons": list(settings.noise_horizons),
                "noise_seeds": settings.seeds * settings.noise_blocks,
                "first_seed": settings.seed,
                "counterexample": settings.counterexample,
            },
            "versions": versions(),
            "meaning": MEANING,
            "cases": [self._judged(row) for row in self.rows.get("cases", [])],
            "studies": {table: rows for table, rows in self.rows.items() if table != "cases"},
            "checks": [verdict.as_dict() for verdict in self.verdicts],
        }

    def as_json(self) -> str:
        """`as_dict` as text."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False, indent=1)

    def save(self, path: Path) -> None:
        """Write verify.json, whole or not at all, and the folder it is in if there is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.as_json() + "\n")

    def _judged(self, row: dict[str, Any]) -> dict[str, Any]:
        """A case with its slope and its verdict."""
        own = [v for v in self.verdicts if (v.check.regime, v.check.instance) == (row["regime"], row["instance"])]
        fitted = [verdict for verdict in own if verdict.check.kind == "slope"]
        slope = [rounded(number) for each in fitted for number in (each.check.measured.value, each.low, each.high)]
        return {**row, "slope": slope, "checks": len(own), "holds": all(verdict.holds for verdict in own)}
