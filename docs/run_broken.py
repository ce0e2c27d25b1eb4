"""Put broken methods and oracles in the place of the right ones; write docs/evidence/broken.json, what `verify` finds:

python docs/run_broken.py

Each is run in the regimes it affects, and its checks are decided as strictly as those of the report in verify.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gladstorm import devices
from gladstorm.simulation import programs
from gladstorm.studies.verification import QUICK, Verdict, verify
from gladstorm.studies.verification.broken import BROKEN, Broken
from gladstorm.studies.verification.checks import level_of_each

DATA = Path(__file__).parent / "evidence"
ORACLE = ("nsgdm/smooth/bg0",)  # a regime on problems of one and of two dimensions


def found(broken: Broken, level: float) -> dict[str, Any]:
    """Which checks of `gladstorm verify --quick` fail, and in how many of the regimes that it affects."""
    regimes = ORACLE if broken.affects is None else tuple(broken.regimes)
    checks = [verdict.check for verdict in verify(broken.settings(QUICK), regimes).verdicts]
    failed = [check for check in checks if not Verdict(check, *check.measured.interval(level)).holds]
    kinds = dict.fromkeys(check.kind.split(",")[0] for check in failed)
    return {
        "broken": broken.name,
        "affects": len(broken.regimes),
        "found_in": len({check.regime for check in failed} & set(broken.regimes)),
        "failures": {kind: sum(check.kind.split(",")[0] == kind for check in failed) for kind in kinds},
    }


def main() -> None:
    """Every one of them."""
    devices.tune()
    programs.enable_program_cache()
    report = json.loads((DATA / "verify.json").read_text("utf-8"))
    level = level_of_each(report["confidence"]["random_numbers"])
    rows = [found(broken, level) for broken in BROKEN]
    (DATA / "broken.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
