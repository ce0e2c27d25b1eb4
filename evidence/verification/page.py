"""The page of the verification, from verify.json or, where that is not, from what was published of it.

Every verdict of its study of hard problems is from the report.
"""

import json
import math
from pathlib import Path
from typing import Any

import typer
from scipy.special import ndtri, stdtrit

from evidence.page import Row, distinct, grouped, of, read, rendered
from evidence.verification import figures, hardness
from gladstorm.cli.output import say
from gladstorm.jobs.files import write_text
from gladstorm.theory import REGIMES

KEPT = "published.json"  # the report without what the page does not need, in a tenth of the bytes
ABOUT = {"the oracle": "oracle", "the problem of the lower bound": "hard problem"}  # mistakes that affect no regime
POWER = 0.95  # with which an error of the stated size is found
LOWER_BOUNDS = {"zero-chain": 4, "gated runway": 6}  # Ω(ε^−…), of hard_instances.py


def render(report: Row) -> str:
    """The page; a report of some regimes, or without studies, has a part of it."""
    studies, cases, checks = report["studies"], report["cases"], report["checks"]
    regimes, T = distinct(cases, "regime"), report["settings"]["horizons"][-1]
    ratios = [
        max(results[-1] for kind, results in case["tightness"].items() if kind != "estimator error") for case in cases
    ]
    identities = [check for check in checks if "error identity" in check["check"]]
    level = report["confidence"]["level"]
    values: dict[str, Any] = {
        "whole": len(regimes) == len(REGIMES),
        "full": measures_studies(report),
        "regimes": regimes,
        "all_regimes": len(REGIMES),
        "failed": of(checks, holds=False),
        "own": [case["instance"] for case in of(cases, regime="nstorm/smooth/bg0")][2:],
        "loosest": min(case["tightness"]["bound"][-1] for case in cases),
        "ratios": ratios,
        "violated": sum(ratio > 1 for ratio in ratios),
        "descent": sorted(case["gap"] / (case["gamma0"] * T ** case["rate"]) / case["measured"][-1] for case in cases),
        "missed": [row["broken"] for row in report["broken"] if row["found_in"] < row["affects"]],
        "on_plane": [detectable(check, level) for check in identities if "plane" in check["instance"]],
        "elsewhere": [detectable(check, level) for check in identities if "plane" not in check["instance"]],
    }
    if "noise" in studies:
        slopes = _with_rows(report, "noise exponent", "noise")
        values["slopes"] = slopes
        values["exact"] = sum(check["low"] <= -row["exponent"] <= check["high"] for check, row in slopes)
    if "wider" in studies:
        values["wider_growths"] = [name for name in studies["wider"][0] if name.startswith("a = ")]
        values["wider_checks"] = of(checks, check="wider bound")
        shares = [row[name] for row in studies["wider"] for name in values["wider_growths"]]
        values["wider_shares"] = [share for share in shares if share is not None]
    if measures_studies(report):
        values["hard"] = hard(studies["hard instances"])
    return rendered(__file__, globals() | dict(report) | values)


def measures_studies(report: Row) -> bool:
    """Whether a report is one of `--full`."""
    return "hard instances" in report["studies"]


def detectable(check: Row, level: float) -> float:
    """The error that is found with probability `POWER`; one of half the interval's length is found every other time."""
    half: float = (check["high"] - check["low"]) / 2
    return half * float(1 + ndtri(POWER) / stdtrit(check["seeds"] - 1, (1 + level) / 2))


def found_in(row: Row) -> str:
    """Places where a mistake was found: in regimes, or in a problem if it affects none."""
    kinds = row["failures"]
    about = (what for what, word in ABOUT.items() if kinds and all(word in kind for kind in kinds))
    return next(about, f"{row['found_in']} of {row['affects']}")


def _with_rows(report: Row, kind: str, table: str) -> list[tuple[Row, Row]]:
    """The checks of a kind, each with the row of a table that is about the same problem."""
    rows = {(row.get("regime"), row["instance"]): row for row in report["studies"][table]}
    results = of(report["checks"], check=kind)
    return [(each, rows.get((each["regime"], each["instance"])) or rows[None, each["instance"]]) for each in results]


def print_tables(report: Row) -> None:
    """Print how much was checked, and what fails."""
    confidence, regimes = report["confidence"], {case["regime"] for case in report["cases"]}
    say(
        f"{confidence['checks']:,} checks of {confidence['numbers']:,} different numbers, in {len(regimes)} regimes "
        f"and beyond; {confidence['method']}: the probability that any interval is wrong is at most "
        f"{confidence['family']:g}. The page has all of them, and --json says what each proves."
    )
    for row in of(report["checks"], holds=False):
        typer.echo(
            f"FAILS {row['regime']}, {row['instance']}, {row['check']}, T = {row['horizon']:,}: measured "
            f"{row['measured']} [{row['low']}, {row['high']}], claimed {row['claim']}.",
            err=True,
        )


def hard(rows: list[Row]) -> dict[str, Any]:
    """Values about the cost of hard problems."""
    results = hardness.exponents(rows)

    def verdict(each: Row) -> str:
        low, high = each["interval"]
        if high < each["needed"]:
            return "more slowly, from a larger multiple of it:"
        return "faster:" if low > each["needed"] else "as fast, within the interval:"

    ends = [row for row in rows if _better_at_some_end(row["tried"])]
    return {
        "rows": rows,
        "runway": next(row for row in rows if row["B"]),
        "exponents": results,
        "verdicts": grouped(results, verdict, lambda each: f"{each['method']} on the {each['instance']}"),
        "ends": grouped(
            ends, lambda row: f"{row['method']} on the {row['instance']} at ε =", lambda row: f"{row['eps']:g}"
        ),
    }


def _better_at_some_end(medians: list[list[float | None]]) -> bool:
    """Whether the best of a grid of two numbers stands out at an end of either."""
    finite = [[math.inf if median is None else median for median in line] for line in medians]
    best = min(map(min, finite))
    row = next(line for line in finite if best in line)
    return any(map(_better_at_an_end, (row, [line[row.index(best)] for line in finite])))


def _better_at_an_end(medians: list[float]) -> bool:
    """Whether the best of a grid stands out at an end: on a plateau nothing is missed.

    >>> _better_at_an_end([100.0, 101.0, 200.0]), _better_at_an_end([100.0, 120.0, math.inf])
    (False, True)
    """
    ends = (medians[:2], medians[:-3:-1])
    return any(end == min(medians) and next_to_it > 1.05 * end for end, next_to_it in ends)


def packed(rows: list[Row]) -> Row:
    """Rows of one shape with their headings said once: a third of the bytes.

    >>> packed([{"a": 1}, {"a": 2}])
    {'columns': ['a'], 'rows': [[1], [2]]}
    """
    return {"columns": list(rows[0]), "rows": [list(row.values()) for row in rows]}


def unpacked(table: Row) -> list[Row]:
    """Undo `packed`."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def load(folder: Path) -> dict[str, Any]:
    """The report of a run, or what was published of one, and what broken methods were found, if they were tried."""
    whole, broken = folder / "verify.json", folder / "broken.json"
    report = read(whole if whole.exists() else folder / KEPT)
    if not whole.exists():
        report["checks"] = unpacked(report["checks"])
        report["studies"] = {name: unpacked(table) for name, table in report["studies"].items()}
    return {**report, "broken": json.loads(broken.read_text("utf-8")) if broken.exists() else []}


def draw(folder: Path) -> None:
    """The figures, and the report in the form that is published."""
    report = load(folder)
    del report["broken"]
    figures.draw(report, folder)
    report["checks"] = packed(report["checks"])
    report["studies"] = {name: packed(rows) for name, rows in report["studies"].items() if rows}
    write_text(folder / KEPT, json.dumps(report, ensure_ascii=False, separators=(",", ":")) + "\n")
