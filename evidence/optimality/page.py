"""The page of the study: every number is from the results."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence.optimality.figures import ACCURACY, LETTERS, SCHEDULES, batches, costs, instance, schedules
from evidence.optimality.measuring import FORMAT, HARD, METHODS, PLANNED, SEEDS, TUNING_SEEDS, counted, exponents
from evidence.page import log_slope_weights, of, rendered
from gladstorm.jobs.files import load_json
from gladstorm.plotting import figures
from gladstorm.theory import Problem, trade_off

TRADED = Problem(alpha=0, L0=1.0, B=1.0, G=0.0, gap=1.0)


def load(folder: Path) -> dict[str, Any]:
    """Read the results of the study."""
    return load_json("optimality", folder / "optimality.json", FORMAT)


def draw(folder: Path) -> None:
    """Draw the four figures of the study."""
    result = load(folder)
    drawn = {"schedules": schedules(result), "batches": batches(), "instance": instance(), "costs": costs(result)}
    for name, figure in drawn.items():
        figures.save(figure, folder / f"{name}.png")


def render(result: Mapping[str, Any]) -> str:
    """Render the page."""
    ran, alpha = result["measured"], PLANNED["alpha"]
    powers = [
        {"constant": name, "needed": needed} | {schedule: _power(result, name, schedule) for schedule in SCHEDULES}
        for name, needed in {"L0": 0.0, "L1": 1.0, "B": 1 + alpha, "G": 0.0, "gap": 2 + alpha}.items()
    ]
    values = {
        "planned": PLANNED,
        "growth_of_batch": trade_off(TRADED, ACCURACY, "sigma2").samples / trade_off(TRADED, ACCURACY, "sigma").samples,
        "letters": LETTERS,
        "methods": METHODS,
        "powers": powers,
        "schedules": list(SCHEDULES),
        "ratios": [row["paper's best"] / row["S9"] for row in result["plans"]],
        "steepest": [of(result["plans"], varied="alpha")[i] for i in (0, -1)],
        "constants": ", ".join(f"{LETTERS.get(name, name)} = {value:g}" for name, value in HARD.items()),
        "exponents": exponents(result),
        "seeds": SEEDS,
        "tuning_seeds": TUNING_SEEDS,
        "missing": [name for name in METHODS if len(of(ran, method=name)) < len(result["needed"])],
        "runs": sum(len(row["per_seed"]) for row in ran),
        "below": sum(each < row["needed"] for row in ran for each in counted(row)),
        "edges": sum(row["edge"] for row in ran),
    }
    return rendered(__file__, {**result, **values})


def _power(result: Mapping[str, Any], constant: str, schedule: str) -> float:
    """The power with which T grows with a constant, fitted over its range."""
    own = of(result["plans"], varied=constant)
    weights = log_slope_weights([row["value"] for row in own])
    return float(sum(w * math.log(row[schedule]) for w, row in zip(weights, own, strict=True)))
