"""Renew the tables of docs/diagnosis.md from what is in docs/diagnosis/:

python docs/generate_diagnosis.py

With the word `calibrate` after it, the calibration is run again first, in some minutes. The networks are run by
docs/run_diagnosis.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gladstorm.jobs.files import write_text
from gladstorm.core.markdown import markdown_table

DOCS = Path(__file__).parent
CALIBRATION = DOCS / "diagnosis" / "calibration.json"
NETWORKS = DOCS / "diagnosis" / "networks.json"
SEED = 6000  # fixed before the first run with it; rules were chosen on other seeds
REPETITIONS, FEW, DEFAULT = 200, 48, 200
SETTINGS = [  # problem, radius in G/B, probes
    *(
        (name, reach, FEW)
        for reach in (3.0, 0.3)
        for name in ("wrapper", "streaming least squares", "variational Gaussian")
    ),
    ("wrapper, cubic", 3.0, FEW),
    *(("wrapper, B = 0", 3.0, probes) for probes in (FEW, DEFAULT)),
]
NOTE = "written by docs/generate_diagnosis.py; a test compares it with the results beside it"


def calibrate() -> None:
    """Run all settings and keep their results."""
    from evidence.calibration import coverage as calibration

    known = calibration.problems()
    rows = []
    for i, (name, reach, probes) in enumerate(SETTINGS):
        rows.append(calibration.calibrate(known[name], reach, probes, REPETITIONS, SEED + i))
        print(name, reach, probes, file=sys.stderr)  # noqa: T201 - a script's progress
    write_text(CALIBRATION, json.dumps({"seed": SEED, "rows": rows}, indent=1) + "\n")


def kept() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The results that are kept: of the calibration and of the networks."""
    calibration, trained = (json.loads(path.read_text(encoding="utf-8")) for path in (CALIBRATION, NETWORKS))
    return calibration["rows"], trained


def page(text: str, rows: list[dict[str, Any]], trained: list[dict[str, Any]]) -> str:
    """The page with its tables renewed."""
    tables = {"coverage": coverage(rows), "verdicts": verdicts(rows), "networks": networks(trained)}
    for name, table in tables.items():
        comment = f"<!-- {name}: {NOTE} -->\n"
        before, found, after = text.partition(comment)
        if not found:
            raise ValueError(f"diagnosis: the page must have the line {comment.strip()!r}; got none.")
        lines = after.splitlines(keepends=True)
        rest = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
        text = f"{before}{comment}{table}\n{''.join(lines[rest:])}"
    return text


def coverage(rows: list[dict[str, Any]]) -> str:
    """How many intervals hold the truth, and the median error of the estimates, where the radius is large enough."""
    shown = {"G": "G", "B": "B", "rho": "ρ", "ell": "ℓ", "L": "L", "power": "power", "anchor": "anchor", "alpha": "α"}
    shown |= {"L0": "L0", "L1": "L1"}
    lines = []
    for row in rows:
        if row["reach"] < 1 or "B = 0" in row["problem"]:
            continue
        cells = []
        for name in shown:
            found = row["quantities"].get(name)
            if found is None or not found["stated"]:
                cells.append("")
                continue
            error = "" if found["error"] is None else f", {found['error']:.0%}"
            cells.append(f"{found['covered'] / found['stated']:.1%}{error}")
        lines.append([_problem(row), *cells])
    return markdown_table(["problem", *shown.values()], lines)


def _problem(row: dict[str, Any]) -> str:
    """A problem in a reader's words: a wrapper adds the paper's noise to exact gradients."""
    name: str = row["problem"]
    return {"wrapper": "added noise, ½‖x‖²", "wrapper, cubic": "added noise, ‖x‖³"}.get(
        name, name.replace("wrapper", "added noise, ½‖x‖²")
    )


def verdicts(rows: list[dict[str, Any]]) -> str:
    """How often B was called estimated, not identifiable, or not growing."""
    names = ["estimated", "not identifiable", "no growth"]
    lines = []
    for row in rows:
        found = row["quantities"]["B"]["verdicts"]
        radius = f"{row['reach']:g} G" if "B = 0" in row["problem"] else f"{row['reach']:g} G/B"
        shares = [f"{found.get(name, 0) / row['repetitions']:.1%}" for name in names]
        lines.append([_problem(row), radius, str(row["probes"]), *shares])
    return markdown_table(["problem", "radius", "probes", *names], lines)


def networks(trained: list[dict[str, Any]]) -> str:
    """What the probes along the run and the designed ones say about each network."""
    headings = ["network, method", "distance travelled", "variance along the run", "variance, end/start"]
    headings += ["B, probes of the run", "B, designed probes"]
    lines = []
    for each in trained:
        run, designed = each["along the path"], each["designed"]["report"]
        noise = run["probes"]["noise"]
        means = _running(noise, max(1, len(noise) // 10))
        lines.append(
            [
                f"{each['network']}, {each['method']}",
                f"{run['probes']['distance'][-1]:.3g}",
                f"{means[0]:.3g} → {max(means):.3g} → {means[-1]:.3g}",
                _numbers(designed["path"]),
                _said(run["report"]["B"]),
                *(_said(designed[name]) for name in ("B", "power", "rho")),
            ]
        )
    return markdown_table([*headings, "power, designed probes", "ρ, designed probes"], lines)


def _running(values: list[float], width: int) -> list[float]:
    return [sum(values[i : i + width]) / width for i in range(len(values) - width + 1)]


def _said(finding: dict[str, Any]) -> str:
    return _numbers(finding) if finding["verdict"] == "estimated" else str(finding["verdict"])


def _numbers(interval: dict[str, float]) -> str:
    estimate, low, high = (
        f"{interval[name]:{'.0f' if interval[name] >= 10 else '.2g'}}" for name in ("estimate", "low", "high")
    )
    return f"{estimate} ({low} to {high})"


if __name__ == "__main__":
    if sys.argv[1:] == ["calibrate"]:
        calibrate()
    where = DOCS / "diagnosis.md"
    write_text(where, page(where.read_text(encoding="utf-8"), *kept()))
