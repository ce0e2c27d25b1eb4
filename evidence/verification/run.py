"""Check every regime: everything there is to do in parts, each kept when it is finished, and their report."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evidence.results import gathered
from evidence.verification import (
    blocks,
    bounds,
    exact,
    growing_steps,
    hardness,
    identities,
    lower_bound,
    noise_exponents,
    oracle_variance,
    printed_bounds,
    wider,
)
from evidence.verification.cases import cases
from evidence.verification.checks import Check, PartResult, Verdict, confidence, decide, rounded
from evidence.verification.settings import VerificationSettings
from gladstorm.jobs.files import write_text
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.tasks import HERE, Executor, Store, Task

# What is checked: each module has `parts`, what there is to do for the cases selected, and `MEANING`, what each kind of
# its checks says and what it does not say. The second tuple takes long, or no theorem's bound is about it.
OF_REGIMES: Final = (
    printed_bounds,
    oracle_variance,
    identities,
    noise_exponents,
    bounds,
    growing_steps,
    wider,
    exact,
)
STUDIES: Final = (hardness, blocks, lower_bound)
MEANING: Final = {
    kind: words for module in (*OF_REGIMES, *STUDIES) for kind, words in getattr(module, "MEANING", {}).items()
}


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
            "confidence": confidence(checks),
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
        """The report of `as_dict` as a text."""
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


def verify(
    settings: VerificationSettings, regimes: tuple[str, ...] = (), folder: Path | None = None, executor: Executor = HERE
) -> VerificationReport:
    """Check the regimes whose names contain one of the words given, all if none is.

    With a folder, every finished part is kept there and a second call goes on where the first was killed.
    """
    selected = list(cases(regimes, settings.instances))
    modules = (*OF_REGIMES, *(STUDIES if settings.studies and not regimes else ()))
    work = dict(part for module in modules for part in module.parts(selected, settings))
    tasks = [Task(name, [name, *settings.identity], compute) for name, compute in work.items()]
    store = None if folder is None else Store(folder, PartResult, ".json")
    checks: list[Check] = []
    rows: dict[str, list[dict[str, Any]]] = {}
    for finished in gathered("verifying", tasks, store, executor, notes=False):
        checks += finished.checks
        for table, more in finished.rows.items():
            rows.setdefault(table, []).extend(more)
    return VerificationReport(settings, decide(checks), rows)
