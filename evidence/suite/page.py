"""The page of the suite and its figures, from suite.json."""

from collections.abc import Sequence
from pathlib import Path

from evidence.page import rendered
from gladstorm.plotting import figures
from gladstorm.suite import SuiteResult, tables
from gladstorm.suite import figures as suite_figures
from gladstorm.suite.result import Answer
from gladstorm.suite.running import SAMPLES


def load(folder: Path) -> SuiteResult:
    """Read suite.json."""
    return SuiteResult.load(folder / "suite.json")


def render(result: SuiteResult) -> str:
    """Return the page, in Markdown."""
    config = result.config
    lows_highs = {problem.step_sizes for problem in result.problems.values()}
    values = {
        "budgets": " and ".join(f"{budget:,}" for budget in config.budgets),
        "step": max((high / low) ** (1 / (config.step_sizes - 1)) for low, high in lows_highs),
        "texts": {row.method: row.text for row in result.methods.values()},
    }
    values |= {"result": result, "config": config, "tables": tables, "samples": SAMPLES}
    return rendered(__file__, globals() | values)


def in_short(answers: Sequence[Answer]) -> str:
    """One sentence for all questions; each answer's own sentence has the rows that support it."""
    parts = []
    for answer in answers:
        deed = answer.deed
        if answer.clearest_for is not None:
            parts.append(f"{deed} only where a trial of your own shows that it helps")
        else:
            parts.append(f"do not {deed}" if answer.clearest_against else f"try for yourself whether to {deed}")
    *first, last = parts
    return f"If you tune the step size, {', '.join(first)}{', and ' * bool(first)}{last}."


def draw(folder: Path) -> None:
    """The two figures; without answers, as after --quick, one."""
    result = load(folder)
    if result.answers:
        figures.save(suite_figures.answers(result), folder / "answers.png")
    figures.save(suite_figures.profiles(result), folder / "profiles.png")
