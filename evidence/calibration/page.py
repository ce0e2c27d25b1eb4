"""The page of the calibration, from its two files of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evidence.calibration.networks import chart as network_chart
from gladstorm.core.markdown import markdown_table
from gladstorm.plotting import figures

TEMPLATE = Path(__file__).with_suffix(".md")


def load(folder: Path) -> dict[str, Any]:
    """The rows of the calibration, and what the networks showed."""
    files = {"coverage": folder / "calibration.json", "networks": folder / "networks.json"}
    missing = [path.name for path in files.values() if not path.exists()]
    if missing:
        raise ValueError(f"calibration: the folder must hold {missing[0]}; got {str(folder)!r}.")
    return {name: json.loads(path.read_text("utf-8")) for name, path in files.items()}


def draw(folder: Path) -> None:
    """The noise of the networks."""
    figures.save(network_chart(load(folder)["networks"]), folder / "networks.png")


def render(results: dict[str, Any]) -> str:
    """The page with its tables."""
    rows, trained = results["coverage"]["rows"], results["networks"]
    tables = {"coverage": coverage(rows), "verdicts": verdicts(rows), "networks": networks(trained)}
    return TEMPLATE.read_text("utf-8").format(**tables)


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
