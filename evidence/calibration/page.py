"""The page of the calibration, from its three files of results."""

from pathlib import Path
from typing import Any

from evidence.calibration.networks import chart as network_chart
from evidence.page import read, rendered
from gladstorm.diagnosis.finding import ESTIMATED
from gladstorm.diagnosis.growth import NARROW
from gladstorm.plotting import figures

QUANTITIES = {"G": "G", "B": "B", "rho": "ρ", "ell": "ℓ", "L": "L", "power": "power", "anchor": "anchor"}
QUANTITIES |= {"alpha": "α", "L0": "L0", "L1": "L1"}


def load(folder: Path) -> dict[str, Any]:
    """The rows of the calibration, and what the networks showed."""
    files = {"coverage": "calibration", **{name: name for name in ("networks", "watching", "growth", "followed")}}
    return {name: read(folder / f"{file}.json") for name, file in files.items()}


def draw(folder: Path) -> None:
    """The noise of the networks."""
    figures.save(network_chart(load(folder)["networks"]), folder / "networks.png")


def render(results: dict[str, Any]) -> str:
    """The page with its tables."""
    renamed = {"rows": results["coverage"]["rows"], "trained": results["networks"], "NARROW": NARROW}
    return rendered(__file__, globals() | results | renamed)


def problem(row: dict[str, Any]) -> str:
    """A problem in a reader's words: a wrapper adds the paper's noise to exact gradients."""
    name: str = row["problem"]
    return {"wrapper": "added noise, ½‖x‖²", "wrapper, cubic": "added noise, ‖x‖³"}.get(
        name, name.replace("wrapper", "added noise, ½‖x‖²")
    )


def shares(row: dict[str, Any]) -> list[str]:
    """How many intervals of each quantity hold the truth, and the median error of the estimates."""
    cells = []
    for name in QUANTITIES:
        judged = row["quantities"].get(name)
        if judged is None or not judged["stated"]:
            cells.append("")
            continue
        error = "" if judged["error"] is None else f", {judged['error']:.0%}"
        cells.append(f"{judged['covered'] / judged['stated']:.1%}{error}")
    return cells


def means(values: list[float]) -> list[float]:
    """Over every stretch of a tenth of the values."""
    width = max(1, len(values) // 10)
    return [sum(values[i : i + width]) / width for i in range(len(values) - width + 1)]


def found(finding: dict[str, Any]) -> str:
    """An estimate with its interval, or the verdict where there is none."""
    if finding.get("verdict", ESTIMATED) != ESTIMATED:
        return str(finding["verdict"])
    numbers = (finding[name] for name in ("estimate", "low", "high"))
    return "{} ({} to {})".format(*(f"{number:{'.0f' if number >= 10 else '.2g'}}" for number in numbers))


def power_in_words(findings: dict[str, Any]) -> str:
    """The power of growth with its interval, also where that is too wide to count."""
    power = findings["power"]
    if power["low"] is None:
        return "not told"
    wide = "" if power["verdict"] == ESTIMATED else ", too wide"
    return f"{power['estimate']:.2g} ({power['low']:.2g} to {power['high']:.2g}){wide}"


def powers(rows: list[dict[str, Any]], norm: str) -> dict[str, list[str]]:
    """Networks by what the interval of the power says, where that is estimated: about 2, above it, below it."""
    told: dict[str, list[str]] = {"about": [], "above": [], "below": []}
    for row in rows:
        power = row[norm]["power"]
        if power["verdict"] == ESTIMATED:
            where = "above" if power["low"] > 2 else "below" if power["high"] < 2 else "about"
            told[where].append(row["network"])
    return told


def batch_in_words(finding: dict[str, Any]) -> str:
    """The critical batch size with its interval, as far as it is known."""
    low, high = finding["low"], finding["high"]
    if high is None:
        return f"{low:.2g} or more" if low else "not known"
    return f"{finding['estimate']:.2g} ({low:.2g} to {high:.2g})"


def losses(row: dict[str, Any]) -> str:
    """The mean of the losses, and their range."""
    each = row["losses"]
    return f"{sum(each) / len(each):.3g} ({min(each):.3g} to {max(each):.3g})"


def ratios(rows: list[dict[str, Any]], method: str) -> list[float]:
    """The mean losses of the trainings on which a method was advised, divided by those of AdamW."""
    followed = [row for row in rows if row["followed"]["method"] == method]
    return [sum(row["followed"]["losses"]) / sum(row["adamw"]["losses"]) for row in followed]


def sentences(rows: list[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    """Return each sentence that was registered about the advice, with what was found and whether it is true."""
    adam, nsgdm = ratios(rows, "adam"), ratios(rows, "nsgdm")
    return [
        (
            "each is advised on at least three",
            f"Adam on {len(adam)}, NSGDM on {len(nsgdm)}",
            min(len(adam), len(nsgdm)) >= 3,
        ),
        (
            "where NSGDM is advised, at most AdamW's loss",
            f"at most {max(nsgdm, default=0):.2f} of it",
            max(nsgdm, default=0) <= 1,
        ),
        (
            "where Adam is advised, at most 1.15 times",
            f"at most {max(adam, default=0):.2f}",
            max(adam, default=0) <= 1.15,
        ),
    ]
