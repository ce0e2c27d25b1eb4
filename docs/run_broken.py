"""Put broken methods and oracles in the place of the right ones; write docs/evidence/broken.json, what `verify` finds:

python docs/run_broken.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gladstorm import devices
from gladstorm.simulation import programs
from gladstorm.studies.verification import QUICK, verify
from gladstorm.studies.verification.broken import BROKEN, Broken

DATA = Path(__file__).parent / "evidence" / "broken.json"


def found(broken: Broken) -> dict[str, Any]:
    """Which checks of `gladstorm verify --quick` fail, and in how many of the regimes that it affects."""
    report = verify(broken.settings(QUICK))
    failed: dict[str, list[str]] = {}
    for verdict in report.failures:
        failed.setdefault(verdict.check.kind.split(",")[0], []).append(verdict.check.regime)
    seen = set().union(*failed.values()) & set(broken.regimes)
    return {
        "broken": broken.name,
        "affects": len(broken.regimes),
        "found_in": len(seen),
        "failures": {kind: len(regimes) for kind, regimes in failed.items()},
        "numbers": report.as_dict()["confidence"]["numbers"],
    }


def main() -> None:
    """Every one of them, by the whole of QUICK."""
    devices.tune()
    programs.enable_program_cache()
    rows = [found(broken) for broken in BROKEN]
    DATA.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
