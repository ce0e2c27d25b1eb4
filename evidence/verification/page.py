"""The page of the verification, from verify.json or, where that is not, from what was published of it.

Every verdict of its two studies, hard problems and inertia, is from the report.
"""

import json
import math
from pathlib import Path
from typing import Any

from scipy.special import ndtri, stdtrit

from evidence.page import Row, between, distinct, grouped, of, read, rendered, two_digits
from evidence.verification import figures, hardness
from gladstorm.comparison.scores import at_edge
from gladstorm.jobs.files import write_text
from gladstorm.theory import REGIMES

KEPT = "published.json"  # the report without what the page does not need, in a tenth of the bytes
ABOUT = {"the oracle": "oracle", "the problem of the lower bound": "hard problem"}  # mistakes that affect no regime
POWER = 0.95  # with which an error of the stated size is found
LOWER_BOUNDS = {"zero-chain": 4, "gated runway": 6}  # Ω(ε^−…), of hard_instances.py
QUESTIONS = {
    "scheduled": "NSTORM below NSGDM, scheduled η",
    "best_storm": "STORM below momentum, best of each",
    "best_inertia": "STORM with inertia below momentum, best of each",
    "gained": "STORM with inertia below STORM, best of each",
}


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
    if measures_studies(report):
        values["feedback"] = _with_rows(report, "feedback exponent", "feedback")
        values["hard"] = hard(studies["hard instances"])
        values["inertia"] = inertia(studies["inertia"])
    return rendered(__file__, globals() | dict(report) | values)


def measures_studies(report: Row) -> bool:
    """Whether it is a report of `--full`."""
    return "inertia" in report["studies"]


def detectable(check: Row, level: float) -> float:
    """The error that is found with probability `POWER`; one of half the interval's length is found every other time."""
    half: float = (check["high"] - check["low"]) / 2
    return half * float(1 + ndtri(POWER) / stdtrit(check["seeds"] - 1, (1 + level) / 2))


def found_in(row: Row) -> str:
    """Places where a mistake was found: in regimes, or in a problem if it affects none."""
    kinds = row["failures"]
    about = (what for what, word in ABOUT.items() if kinds and all(word in kind for kind in kinds))
    return next(about, f"{row['found_in']} of {row['affects']} regimes")


def _with_rows(report: Row, kind: str, table: str) -> list[tuple[Row, Row]]:
    """The checks of a kind, each with the row of a table that is about the same problem."""
    rows = {(row.get("regime"), row["instance"]): row for row in report["studies"][table]}
    results = of(report["checks"], check=kind)
    return [(each, rows.get((each["regime"], each["instance"])) or rows[None, each["instance"]]) for each in results]


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


def inertia(rows: list[Row]) -> dict[str, Any]:
    """Whether momentum wins by its inertia."""

    def having(question: str, words: str) -> list[Row]:
        return [row for row in rows if _decided(row["below"][question]) == words]

    def ratios(wanted: bool, method: str) -> str:
        return between(
            row["best"][method]["mean"] / row["best"]["momentum"]["mean"] for row in rows if _just_enough(row) == wanted
        )

    storms = ("STORM", "STORM with inertia")
    behind = having("best_storm", "less often than not")
    helped = [row for row in behind if row in having("gained", "more often than not")]
    return {
        "rows": rows,
        "behind": behind,
        "ahead": having("best_storm", "more often than not"),
        "helped": helped,
        "level": [row for row in helped if row not in having("best_inertia", "less often than not")],
        "near": {method: ratios(True, method) for method in storms},
        "other": {method: ratios(False, method) for method in storms},
        "far": "; ".join(
            f"{_setting(row)}: " + ", ".join(f"{name} {_away(row, name):.2g}" for name in row["best"])
            for row in rows
            if _just_enough(row)
        ),
        "ends": [f"{name} ({_setting(row)})" for row in rows for name in row["best"] if _at_an_end(row, name)],
        "shares": [_share(rows, question) for question in QUESTIONS],
    }


def _share(rows: list[Row], question: str) -> dict[str, Any]:
    told = [row for row in rows if _decided(row["below"][question]) != "undecided"]
    return {
        "question": QUESTIONS[question],
        "decided": grouped(
            told, lambda row: f"{_decided(row['below'][question])} for", lambda row: f"({_setting(row)})"
        ),
        "undecided": len(rows) - len(told),
    }


def _just_enough(row: Row) -> bool:
    """Whether steps are just long enough to arrive: the scheduled γ at the shorter horizon."""
    return (row["multiple"], row["T"]) == (1, 10_001)


def _setting(row: Row) -> str:
    noise = "added noise" if row["noise"] == "wrapper" else f"{row['noise']} noise"
    return f"{noise}, T = {row['T']:,}, {row['multiple']:g} × γ"


def _decided(share: list[float]) -> str:
    """Verdict of a share's interval about a fair coin."""
    _, low, high = share
    if low > 0.5:
        return "more often than not"
    return "less often than not" if high < 0.5 else "undecided"


def _at_an_end(row: Row, method: str) -> bool:
    """Say whether the number that is searched lies at an end: η of momentum and STORM, μ of STORM with inertia."""
    column = 0 if method == "STORM" else 1
    tried = [numbers[column] for numbers in row["grids"][method]]
    return at_edge(row["best"][method]["eta_mu"][column], tried)


def _away(row: Row, method: str) -> float:
    away: float = row["to_solution"][method][row["grids"][method].index(row["best"][method]["eta_mu"])]
    return away


def chosen(method: str, best: Row) -> str:
    """The numbers that tuning chose."""
    eta, mu = best["eta_mu"]
    return {"momentum": f"η = {mu:g}", "STORM": f"η = {eta:g}"}.get(method, f"η = {eta:g}, μ = {mu:g}")


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
