"""Put broken methods and oracles in the place of the right ones, and see what the verification finds.

Of all checks these are those made for it: those on a plane, in every regime a mistake affects, and those of the oracle.
They have fewer seeds than `--quick` gives them and are decided as strictly as a full report, so that whatever is found
here `--quick` finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from evidence.verification import QUICK, Check, Verdict, VerificationSettings, on_a_plane, oracle_variance
from evidence.verification.broken import BROKEN, Broken
from evidence.verification.cases import cases
from evidence.verification.checks import level_of_each

WEAKER = replace(QUICK, horizons=(201, 1000), blocks=2)
ORACLE = ("nsgdm/smooth/bg0",)  # a regime on problems of one and of two dimensions


def checks(broken: Broken, settings: VerificationSettings) -> Iterator[Check]:
    """Those that are about what is broken."""
    if broken.affects is None:
        for law in oracle_variance.laws((case for case in cases(ORACLE) if case.instance.wrapped), settings).values():
            yield from oracle_variance.checks(law, settings)
    else:
        for regime in broken.regimes:
            yield from on_a_plane.checks(on_a_plane.statements()[regime], settings)


def found(broken: Broken, level: float) -> dict[str, Any]:
    """Which checks fail, and in how many of the regimes that it affects."""
    made = list(checks(broken, broken.settings(WEAKER)))
    failed = [check for check in made if not Verdict(check, *check.measured.interval(level)).holds]
    kinds = dict.fromkeys(check.kind.split(",")[0] for check in failed)
    return {
        "broken": broken.name,
        "affects": len(broken.regimes),
        "found_in": len({check.regime for check in failed} & set(broken.regimes)),
        "failures": {kind: sum(check.kind.split(",")[0] == kind for check in failed) for kind in kinds},
    }


def find_all(random_numbers: int) -> list[dict[str, Any]]:
    """What is found of every mistake, at the level of a report with so many different random numbers."""
    level = level_of_each(random_numbers)
    return [found(broken, level) for broken in BROKEN]
