"""The page of the untuned method and its figures, from one file for each problem and budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evidence import results as files
from evidence.page import Sentence, markdown_table, rendered
from evidence.study import PUBLISHED
from evidence.untuned import ablation, figures
from evidence.untuned.judging import BUDGETS, FOLDER
from evidence.untuned.results import JudgedCase
from evidence.untuned.rivals import COSINE, LAST, OURS, TUNED, UNTUNED

VOID = "factor analysis, d = 12, added noise"  # registered, but rounding makes f very negative where some rivals went
PROBLEMS = 7  # registered and not void


def load(folder: Path) -> list[JudgedCase]:
    """The results of the judgement, by problem and budget."""
    paths = sorted((folder / FOLDER).glob("*.json"))
    results = [files.load(JudgedCase, path) for path in paths]
    results = [result for result in results if result.problem != VOID]
    if not results:
        raise FileNotFoundError(2, "no results", str(folder / FOLDER / "*.json"))
    lowest: dict[str, float] = {}  # f* is the lowest value known, of whatever run
    for result in results:
        lowest[result.problem] = min(_lowest(result), lowest.get(result.problem, np.inf))
    results = [replace(result, f_inf=lowest[result.problem]) for result in results]
    return sorted(results, key=lambda result: (result.family, result.problem, result.budget))


def _lowest(result: JudgedCase) -> float:
    losses = [value for scores in result.scores.values() for value in scores.loss if value is not None]
    return float(min(result.f_inf, *losses))


def draw(folder: Path) -> None:
    """Ratios, and the profile."""
    results = load(folder)
    figures.draw_ratios(folder / "ratios.svg", results)
    figures.draw_profile(folder / "profile.svg", results)


def shown(ratio: float) -> str:
    """A ratio for people; a huge one by its order."""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0e}"


def geometric(values: Iterable[float]) -> float:
    """Geometric mean of positive values."""
    with np.errstate(divide="ignore"):  # of a method with a diverged run: 0, or infinite
        return float(np.exp(np.mean(np.log(list(values)))))


def by_budget(results: list[JudgedCase]) -> dict[int, list[JudgedCase]]:
    """The results of each budget that has any."""
    present = {budget: [result for result in results if result.budget == budget] for budget in BUDGETS}
    return {budget: some for budget, some in present.items() if some}


def sentences(results: list[JudgedCase]) -> list[Sentence]:
    """The registered sentences, in the order of registered.md; none before all cases were run."""
    at = by_budget(results)
    verdicts: list[Sentence] = []
    if len(results) < PROBLEMS * len(BUDGETS):
        return verdicts

    def judge(words: str, measured: str, holds: bool) -> None:
        verdicts.append(Sentence(words, measured, holds))

    def at_most(words: str, values: Mapping[str, float], most: float) -> None:
        measured = ", ".join(f"{name} {shown(value)}".strip() for name, value in values.items())
        judge(words, measured, all(value <= most for value in values.values()))

    for budget, most in ((10**4, 1.0), (10**5, 1.0), (10**3, 1.1)):
        words = f"At {budget:,} gradients the geometric mean of the ratios of ‖∇f‖ is at most {most:g}."
        at_most(words, {"": geometric(result.ratio() for result in at[budget])}, most)
    losses = {f"{budget:,}:": geometric(result.ratio("loss") for result in some) for budget, some in at.items()}
    at_most("The geometric mean of the ratios of f is at most 1.1 at each budget.", losses, 1.1)
    families = {
        f"{family}, {budget:,}:": geometric(result.ratio() for result in some if result.family == family)
        for budget, some in at.items()
        for family in {result.family for result in some}
    }
    at_most("No family is worse than 1.5 in the geometric mean of ‖∇f‖.", _largest(families), 1.5)
    problems = {
        f"{result.problem}, {result.budget:,}:": max(result.ratio("norm"), result.ratio("loss")) for result in results
    }
    at_most("No problem is worse than 2 in ‖∇f‖ or in f.", _largest(problems), 2.0)
    diverged = sum(result.diverged for result in results)
    judge("No run of ours diverged.", str(diverged), diverged == 0)
    rivals = {
        f"{name}, {budget:,}:": geometric(result.ratio("loss", to=name) for result in some)
        for budget, some in at.items()
        for name in UNTUNED
    }
    words = "In the geometric mean of f − f* it is better than every untuned rival at each budget."
    at_most(words, _largest(rivals), 1.0)
    wins = sum(result.ratio("loss", to=COSINE) < 1 for result in results)
    words = f"It is better than {COSINE} in at least 80 % of the cases."
    judge(words, f"{wins} of {len(results)}", wins >= 0.8 * len(results))
    return verdicts


def _largest(values: Mapping[str, float]) -> dict[str, float]:
    name = max(values, key=values.__getitem__)
    return {name: values[name]}


def crossed(results: list[JudgedCase], cell: Callable[[JudgedCase], str], score: str) -> str:
    """A row for each problem and a column for each budget, with the geometric mean of the ratios below."""
    at = by_budget(results)
    rows = []
    for problem in dict.fromkeys(result.problem for result in results):
        cells = {result.budget: cell(result) for result in results if result.problem == problem}
        rows.append([problem, *(cells.get(budget, "–") for budget in at)])
    means = [shown(geometric(result.ratio(score) for result in some)) for some in at.values()]
    return markdown_table(["problem", *(f"{budget:,}" for budget in at)], [*rows, ["**geometric mean**", *means]])


def with_intervals(results: list[JudgedCase], score: str) -> str:
    """Return a table of ratios, each with its interval and the best rival."""

    def cell(result: JudgedCase) -> str:
        estimate = result.interval(score)
        ratio, low, high = (
            shown(np.nan if end is None else end) for end in (estimate.value, estimate.low, estimate.high)
        )
        return f"{ratio} ({low}–{high}), {result.best}"

    return crossed(results, cell, score)


def untuned_rivals(results: list[JudgedCase]) -> str:
    """The geometric mean of each untuned method's ratio of f − f*, and on how many cases ours is better."""
    at = by_budget(results)
    rows = []
    for name in (OURS, LAST, *UNTUNED):
        means = [shown(geometric(result.ratio("loss", ours=name) for result in some)) for some in at.values()]
        wins = sum(result.ratio("loss", to=name) < 1 for result in results)
        rows.append([name, *means, "" if name == OURS else f"{wins} of {len(results)}"])
    return markdown_table(["method", *(f"{budget:,}" for budget in at), "untuned is better in"], rows)


def ablated() -> dict[str, Any]:
    """A row for each change: mean and worst ratio to the whole method, at each budget; nothing before it was run."""
    path = PUBLISHED / "untuned" / ablation.FILE
    if not path.exists():
        return {"changes": ""}
    norms_of: dict[str, dict[str, dict[str, float]]] = json.loads(path.read_text("utf-8"))
    budgets = list(next(iter(norms_of.values())))
    rows, idle = [], []
    for variant in next(iter(norms_of.values()))[budgets[0]]:
        ratios = [
            [scores[budget][variant] / scores[budget][ablation.WHOLE] for scores in norms_of.values()]
            for budget in budgets
        ]
        rows.append([variant, *(f"{geometric(some):.2f}, {max(some):.2f}" for some in ratios)])
        if variant != ablation.WHOLE and all(round(geometric(some), 2) <= 1 for some in ratios):
            idle.append(variant)
    table = markdown_table(["changed", *(f"{int(budget):,} gradients" for budget in budgets)], rows)
    return {"changes": table, "development": len(norms_of), "idle": idle}


def near_the_best(results: list[JudgedCase], factor: float) -> dict[str, int]:
    """In how many cases the f − f* of each method of the profile is within a factor of the best of them."""
    methods = (OURS, *TUNED, COSINE)
    scores = [{name: result.mean(name, "loss") for name in methods} for result in results]
    return {name: sum(means[name] <= factor * min(means.values()) for means in scores) for name in methods}


def apart(results: list[JudgedCase]) -> dict[str, Any]:
    """Count the runs that end above, and below, all runs of the best tuned rival in the case whose f is worst."""
    worst = max(results, key=lambda result: result.ratio("loss"))
    ours, rival = worst.by_seed(OURS, "loss"), worst.by_seed(worst.best, "loss")
    return {
        "case": f"{worst.problem}, at {worst.budget:,} gradients",
        "runs": ours.size,
        "above": int(np.sum(ours > rival.max())),
        "below": int(np.sum(ours < rival.min())),
    }


def summary(results: list[JudgedCase]) -> dict[str, Any]:
    """Return the numbers that the page and the paper show."""
    at, intervals = by_budget(results), [result.interval() for result in results]
    return {
        "cases": len(results),
        "registered": PROBLEMS * len(BUDGETS),
        "means": {budget: geometric(result.ratio() for result in some) for budget, some in at.items()},
        "worst": {budget: max(result.ratio() for result in some) for budget, some in at.items()},
        "losses": {budget: geometric(result.ratio("loss") for result in some) for budget, some in at.items()},
        "better": sum(each.high is not None and each.high < 1 for each in intervals),
        "worse": sum(each.low is not None and each.low > 1 for each in intervals),
        "median": float(np.median([result.ratio() for result in results])),
        "sentences": sentences(results),
    }


def render(results: list[JudgedCase]) -> str:
    """Return the page, in Markdown."""
    values = {
        "shown": shown,
        "problems": PROBLEMS,
        "norms_table": with_intervals(results, "norm"),
        "losses_table": with_intervals(results, "loss"),
        "near": near_the_best(results, 1.5),
        "apart": apart(results),
        "rivals": untuned_rivals(results),
        "void": VOID,
    }
    return rendered(__file__, summary(results) | values | ablated())
