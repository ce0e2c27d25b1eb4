"""The page of the suite and its figures, from suite.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.page import reader, rendered
from gladstorm.plotting import figures
from gladstorm.suite import FORMAT, tables
from gladstorm.suite import figures as suite_figures
from gladstorm.suite.running import SAMPLES

load = reader("suite.json", FORMAT)


def render(result: Mapping[str, Any]) -> str:
    """The page."""
    config = result["config"]
    lows_highs = {tuple(problem["step sizes"]) for problem in result["problems"].values()}
    values = {
        "budgets": " and ".join(f"{budget:,}" for budget in config["budgets"]),
        "step": max((high / low) ** (1 / (config["step_sizes"] - 1)) for low, high in lows_highs),
        "texts": {row["method"]: row["text"] for row in result["methods"].values()},
    }
    values |= {"result": result, "config": config, "tables": tables, "samples": SAMPLES}
    return rendered(__file__, globals() | values)


def in_short(answers: Sequence[Mapping[str, Any]]) -> str:
    """One sentence for all questions; each answer's own sentence has the rows that support it."""
    parts = []
    for answer in answers:
        deed, where, clearest = answer["deed"], answer["where"], answer["clearest"]
        if where is not None:
            parts.append(f"{deed} where {where['words']}")
        elif clearest["better"] is not None:
            parts.append(f"{deed} only where a trial of your own shows that it helps")
        else:
            parts.append(f"do not {deed}" if clearest["worse"] is not None else f"try for yourself whether to {deed}")
    *first, last = parts
    return f"If you tune the step size, {', '.join(first)}{', and ' * bool(first)}{last}."


def draw(folder: Path) -> None:
    """The three figures; without answers, as after --quick, two."""
    result = load(folder)
    if result["answers"]:
        figures.save(suite_figures.answers(result), folder / "answers.png")
    figures.save(suite_figures.profiles(result), folder / "profiles.png")
    figures.save(suite_figures.problems(result), folder / "problems.png")
