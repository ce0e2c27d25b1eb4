"""The page of the study: every number is from the results."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence.optimality.figures import LETTERS, costs, instance, schedules
from evidence.optimality.measuring import FORMAT, HARD, METHODS, PLANNED, exponents
from evidence.page import log_slope_weights, of, rendered
from gladstorm.jobs.files import load_json
from gladstorm.plotting import figures


def load(folder: Path) -> dict[str, Any]:
    """The results."""
    return load_json("optimality", folder / "optimality.json", FORMAT)


def draw(folder: Path) -> None:
    """The three figures."""
    result = load(folder)
    for name, figure in {"schedules": schedules(result), "instance": instance(), "costs": costs(result)}.items():
        figures.save(figure, folder / f"{name}.png")


def render(result: Mapping[str, Any]) -> str:
    """The page."""
    ran, alpha = result["measured"], PLANNED["alpha"]
    powers = [
        {"constant": name, "needed": needed}
        | {schedule: _power(result, name, schedule) for schedule in ("printed", "S9")}
        for name, needed in {"L1": 1.0, "B": 1 + alpha, "gap": 2 + alpha}.items()
    ]
    values = {
        "planned": PLANNED,
        "letters": LETTERS,
        "methods": METHODS,
        "powers": powers,
        "ratios": [row["printed"] / row["S9"] for row in result["plans"]],
        "constants": ", ".join(f"{LETTERS.get(name, name)} = {value:g}" for name, value in HARD.items()),
        "exponents": exponents(dict(result)),
        "missing": [name for name in METHODS if len(of(ran, method=name)) < len(result["needed"])],
        "below": sum(None not in row["per_seed"] and min(row["per_seed"]) < row["needed"] for row in ran),
    }
    return rendered(__file__, {**result, **values})


def _power(result: Mapping[str, Any], constant: str, schedule: str) -> float:
    """With which T grows with a constant, fitted over its range."""
    own = of(result["plans"], varied=constant)
    weights = log_slope_weights([row["value"] for row in own])
    return float(sum(w * math.log(row[schedule]) for w, row in zip(weights, own, strict=True)))
