"""The page of the untuned method and its figures, from one file for each problem and budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence.page import markdown_table, rendered
from evidence.study import PUBLISHED
from evidence.untuned import ablation, figures
from evidence.untuned.judging import BUDGETS, LAST, OURS
from evidence.untuned.rivals import COSINE, TUNED, UNTUNED

DRAWS = 2000  # of the bootstrap
PROBLEMS = 16  # registered


@dataclass(frozen=True)
class Result:
    """A problem at one budget."""

    kept: dict[str, Any]

    @property
    def problem(self) -> str:
        """Its name."""
        return str(self.kept["problem"])

    @property
    def family(self) -> str:
        """The family it belongs to."""
        return str(self.kept["family"])

    @property
    def budget(self) -> int:
        """Stochastic gradients of a run."""
        return int(self.kept["budget"])

    def seeds(self, name: str, score: str = "norm") -> np.ndarray:
        """The scores of a method, a tuned one with the setting that was best by that score; infinite if diverged."""
        key = f"{name}, by {score}" if name in TUNED else name
        values = np.array(self.kept["scores"][key][score], float)
        return np.where(np.isfinite(values), values, np.inf) - (self.kept["f_inf"] if score == "loss" else 0.0)

    def mean(self, name: str, score: str = "norm") -> float:
        """The mean over seeds."""
        return float(self.seeds(name, score).mean())

    def best(self, score: str = "norm") -> str:
        """The tuned family that did best."""
        return min(TUNED, key=lambda name: self.mean(name, score))

    def ratio(self, score: str = "norm", *, ours: str = OURS, to: str | None = None) -> float:
        """Ours divided by the best tuned rival's, or by another method's."""
        return self.mean(ours, score) / self.mean(to or self.best(score), score)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """A 95 % bootstrap interval of the ratio, over seeds that both methods share."""
        ours, rival = self.seeds(OURS), self.seeds(self.best())
        drawn = np.random.default_rng(0).integers(ours.size, size=(DRAWS, ours.size))
        low, high = np.quantile(ours[drawn].mean(axis=1) / rival[drawn].mean(axis=1), [0.025, 0.975])
        return float(low), float(high)

    @property
    def loss_of_best(self) -> float:
        """The loss of the rival with the smallest ‖∇f‖."""
        losses = np.array(self.kept["scores"][f"{self.best()}, by norm"]["loss"], float)
        return float(np.mean(losses)) - float(self.kept["f_inf"])

    @property
    def is_trap(self) -> bool:
        """Whether that is more than twice ours."""
        return self.loss_of_best > 2 * self.mean(OURS, "loss")

    @property
    def diverged(self) -> int:
        """How many of our runs did."""
        return int((~np.isfinite(self.seeds(OURS))).sum())


def load(folder: Path) -> list[Result]:
    """All results, by problem and budget."""
    paths = [path for path in sorted(folder.glob("*.json")) if path.name != ablation.FILE]
    if not paths:
        raise FileNotFoundError(2, "no results", str(folder / "*.json"))
    results = [Result(json.loads(path.read_text("utf-8"))) for path in paths]
    return sorted(results, key=lambda result: (result.family, result.problem, result.budget))


def draw(folder: Path) -> None:
    """Ratios, and the profile."""
    results = load(folder)
    figures.draw_ratios(folder / "ratios.svg", results)
    figures.draw_profile(folder / "profile.svg", results)


def shown(ratio: float) -> str:
    """A ratio for people; a huge one by its order."""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0e}"


def geometric(values: Iterable[float]) -> float:
    """The geometric mean."""
    with np.errstate(divide="ignore"):  # of a method with a diverged run: 0, or infinite
        return float(np.exp(np.mean(np.log(list(values)))))


def by_budget(results: list[Result]) -> dict[int, list[Result]]:
    """The results of each budget that has any."""
    present = {budget: [result for result in results if result.budget == budget] for budget in BUDGETS}
    return {budget: some for budget, some in present.items() if some}


class Sentence(NamedTuple):
    """A registered sentence: what it says, what was found in the cases that were run, and the verdict."""

    words: str
    found: str
    verdict: str


def sentences(results: list[Result]) -> list[Sentence]:
    """The registered sentences, in the order of registered.md."""
    at = by_budget(results)
    verdicts: list[Sentence] = []

    def judge(
        words: str, measured: str, holds: bool, budgets: Iterable[int] = BUDGETS, *, for_all: bool = False
    ) -> None:
        """Until all cases were run a sentence is undecided; one about every case is false with the first that fails."""
        finished = all(len(at.get(budget, [])) == PROBLEMS for budget in budgets)
        is_false = not holds and (finished or for_all)
        verdicts.append(
            Sentence(words, measured or "–", "**false**" if is_false else "true" if finished else "undecided")
        )

    def at_most(words: str, values: Mapping[str, float], most: float, *budgets: int, for_all: bool = False) -> None:
        measured = ", ".join(f"{name} {shown(value)}".strip() for name, value in values.items())
        judge(words, measured, all(value <= most for value in values.values()), budgets or BUDGETS, for_all=for_all)

    for budget, most in ((10**4, 1.0), (10**5, 1.0), (10**3, 1.1)):
        mean = {"": geometric(result.ratio() for result in at[budget])} if budget in at else {}
        words = f"At {budget:,} gradients the geometric mean of the ratios of ‖∇f‖ is at most {most:g}."
        at_most(words, mean, most, budget)
    losses = {f"{budget:,}:": geometric(result.ratio("loss") for result in some) for budget, some in at.items()}
    at_most("The geometric mean of the ratios of the loss is at most 1.1 at each budget.", losses, 1.1)
    families = {
        f"{family}, {budget:,}:": geometric(result.ratio() for result in some if result.family == family)
        for budget, some in at.items()
        for family in {result.family for result in some}
    }
    at_most("No family is worse than 1.5 in the geometric mean.", _largest(families), 1.5, for_all=True)
    problems = {f"{result.problem}, {result.budget:,}:": result.ratio() for result in results}
    at_most("No problem is worse than 2.", _largest(problems), 2.0, for_all=True)
    diverged = sum(result.diverged for result in results)
    judge("No run of ours diverged.", str(diverged), diverged == 0, for_all=True)
    rivals = {
        f"{name}, {budget:,}:": geometric(result.ratio(to=name) for result in some)
        for budget, some in at.items()
        for name in UNTUNED
    }
    at_most("In the geometric mean it is better than every untuned rival at each budget.", _largest(rivals), 1.0)
    wins = sum(result.ratio(to=COSINE) < 1 for result in results)
    words = f"It is better than {COSINE} in at least 80 % of the cases."
    judge(words, f"{wins} of {len(results)}", wins >= 0.8 * len(results))
    return verdicts


def _largest(values: Mapping[str, float]) -> dict[str, float]:
    name = max(values, key=values.__getitem__)
    return {name: values[name]}


def crossed(results: list[Result], cell: Callable[[Result], str], score: str) -> str:
    """A row for each problem and a column for each budget, with the geometric mean of the ratios below."""
    at = by_budget(results)
    rows = []
    for problem in dict.fromkeys(result.problem for result in results):
        cells = {result.budget: cell(result) for result in results if result.problem == problem}
        rows.append([problem, *(cells.get(budget, "–") for budget in at)])
    means = [shown(geometric(result.ratio(score) for result in some)) for some in at.values()]
    return markdown_table(["problem", *(f"{budget:,}" for budget in at)], [*rows, ["**geometric mean**", *means]])


def untuned_rivals(results: list[Result]) -> str:
    """The geometric mean of each untuned method's ratio to the best tuned, and on how many cases ours is better."""
    rows = []
    for name in (OURS, LAST, *UNTUNED):
        means = [shown(geometric(result.ratio(ours=name) for result in some)) for some in by_budget(results).values()]
        wins = sum(result.ratio(to=name) < 1 for result in results)
        rows.append([name, *means, "" if name == OURS else f"{wins} of {len(results)}"])
    return markdown_table(["method", *(f"{budget:,}" for budget in by_budget(results)), "untuned is better in"], rows)


def ablated() -> dict[str, Any]:
    """A row for each change: mean and worst ratio to the whole method, at each budget; nothing before it was run."""
    path = PUBLISHED / "untuned" / ablation.FILE
    if not path.exists():
        return {"changes": ""}
    kept: dict[str, dict[str, dict[str, float]]] = json.loads(path.read_text("utf-8"))
    budgets = list(next(iter(kept.values())))
    rows = []
    for variant in next(iter(kept.values()))[budgets[0]]:
        cells = []
        for budget in budgets:
            ratios = [scores[budget][variant] / scores[budget][ablation.WHOLE] for scores in kept.values()]
            cells.append(f"{geometric(ratios):.2f}, {max(ratios):.2f}")
        rows.append([variant, *cells])
    table = markdown_table(["changed", *(f"{int(budget):,} gradients" for budget in budgets)], rows)
    return {"changes": table, "development": len(kept)}


def render(results: list[Result]) -> str:
    """The page."""
    at = by_budget(results)

    def compared(result: Result) -> str:
        low, high = map(shown, result.interval)
        return f"{shown(result.ratio())} ({low}–{high}), {result.best()}"

    values = {
        "results": results,
        "at": at,
        "problems": PROBLEMS,
        "budgets": BUDGETS,
        "ours": OURS,
        "shown": shown,
        "means": {budget: geometric(result.ratio() for result in some) for budget, some in at.items()},
        "worst": {budget: max(result.ratio() for result in some) for budget, some in at.items()},
        "median": float(np.median([result.ratio() for result in results])),
        "better": sum(result.interval[1] < 1 for result in results),
        "worse": sum(result.interval[0] > 1 for result in results),
        "sentences": sentences(results),
        "ratios": crossed(results, compared, "norm"),
        "losses": crossed(results, lambda result: f"{shown(result.ratio('loss'))}, {result.best('loss')}", "loss"),
        "rivals": untuned_rivals(results),
        "traps": [result for result in results if result.is_trap],
        "without_traps": {
            budget: geometric(result.ratio() for result in some if not result.is_trap) for budget, some in at.items()
        },
    }
    return rendered(__file__, values | ablated())
