"""The page of the untuned method and its figures, from one file for each problem and budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence.page import markdown_table, rendered
from evidence.study import PUBLISHED
from evidence.untuned import ablation, figures
from evidence.untuned.judging import BUDGETS, JUDGEMENTS, LAST, OURS
from evidence.untuned.rivals import COSINE, TUNED, UNTUNED

DRAWS = 2000  # of the bootstrap
VOID = "factor analysis, d = 12, added noise"  # registered, but rounding makes f very negative where some rivals went
PROBLEMS = {"first": 16, "second": 7}  # registered and not void


class Result(dict[str, Any]):
    """A problem at one budget."""

    @property
    def problem(self) -> str:
        """Name of the problem."""
        return str(self["problem"])

    @property
    def family(self) -> str:
        """The family it belongs to."""
        return str(self["family"])

    @property
    def budget(self) -> int:
        """Stochastic gradients of a run."""
        return int(self["budget"])

    def _chosen_by(self, score: str) -> str:
        """The score that rivals are tuned and chosen by: in the second judgement always the loss."""
        return score if f"{next(iter(TUNED))}, by {score}" in self["scores"] else "loss"

    def seeds(self, name: str, score: str = "norm", *, by: str | None = None) -> np.ndarray:
        """The scores of a method, a tuned one with the setting that was chosen; infinite if diverged."""
        key = f"{name}, by {by or self._chosen_by(score)}" if name in TUNED else name
        values = np.array(self["scores"][key][score], float)
        return np.where(np.isfinite(values), values, np.inf) - (self["f_inf"] if score == "loss" else 0.0)

    def mean(self, name: str, score: str = "norm", *, by: str | None = None) -> float:
        """The mean over seeds."""
        return float(self.seeds(name, score, by=by).mean())

    def best(self, score: str = "norm") -> str:
        """The tuned family that did best."""
        return min(TUNED, key=lambda name: self.mean(name, self._chosen_by(score)))

    def ratio(self, score: str = "norm", *, ours: str = OURS, to: str | None = None) -> float:
        """Ours divided by the best tuned rival's, or by another method's."""
        return self.mean(ours, score) / self.mean(to or self.best(score), score)

    def interval(self, score: str = "norm") -> tuple[float, float]:
        """A 95 % bootstrap interval of the ratio, over seeds that both methods share."""
        ours, rival = self.seeds(OURS, score), self.seeds(self.best(score), score)
        drawn = np.random.default_rng(0).integers(ours.size, size=(DRAWS, ours.size))
        low, high = np.quantile(ours[drawn].mean(axis=1) / rival[drawn].mean(axis=1), [0.025, 0.975])
        return float(low), float(high)

    @property
    def is_trap(self) -> bool:
        """Whether the loss of the rival with the smallest ‖∇f‖ is more than twice ours."""
        return self.mean(self.best(), "loss", by="norm") > 2 * self.mean(OURS, "loss")

    @property
    def diverged(self) -> int:
        """How many of our runs did."""
        return int((~np.isfinite(self.seeds(OURS))).sum())


def load(folder: Path) -> dict[str, list[Result]]:
    """The results of both judgements, by problem and budget."""
    judged = {name: _load(folder / judgement.folder) for name, judgement in JUDGEMENTS.items()}
    if not any(judged.values()):
        raise FileNotFoundError(2, "no results", str(folder / "*.json"))
    for result in judged["second"]:  # f* is the lowest value known, of whatever run
        result["f_inf"] = min(_lowest(each) for each in judged["second"] if each.problem == result.problem)
    return judged


def _load(folder: Path) -> list[Result]:
    paths = [path for path in sorted(folder.glob("*.json")) if path.name != ablation.FILE]
    results = [Result(json.loads(path.read_text("utf-8"))) for path in paths]
    results = [result for result in results if result.problem != VOID]
    return sorted(results, key=lambda result: (result.family, result.problem, result.budget))


def _lowest(result: Result) -> float:
    losses = [value for scores in result["scores"].values() for value in scores["loss"] if value is not None]
    return float(min(result["f_inf"], *losses))


def draw(folder: Path) -> None:
    """Ratios, and the profile, of the second judgement."""
    results = load(folder)["second"]
    if results:
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
    outcome: str
    verdict: str


def sentences(results: list[Result], judgement: str = "second") -> list[Sentence]:
    """The registered sentences, in the order of registered.md."""
    at = by_budget(results)
    verdicts: list[Sentence] = []
    whole = [budget for budget, some in at.items() if len(some) == PROBLEMS[judgement]]
    is_first = judgement == "first"
    score, by_score = ("norm", "") if is_first else ("loss", " of f − f*")

    def judge(
        words: str, measured: str, holds: bool, budgets: Iterable[int] = BUDGETS, *, for_all: bool = False
    ) -> None:
        """Until all cases were run a sentence is undecided; one about every case is false with the first that fails."""
        finished = all(budget in whole for budget in budgets)
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
    at_most(
        f"The geometric mean of the ratios of {'the loss' if is_first else 'f'} is at most 1.1 at each budget.",
        losses,
        1.1,
        for_all=any(losses[f"{budget:,}:"] > 1.1 for budget in whole),
    )
    families = {
        f"{family}, {budget:,}:": geometric(result.ratio() for result in some if result.family == family)
        for budget, some in at.items()
        for family in {result.family for result in some}
    }
    at_most("No family is worse than 1.5 in the geometric mean of ‖∇f‖.", _largest(families), 1.5, for_all=True)
    counted = ("norm",) if is_first else ("norm", "loss")
    problems = {
        f"{result.problem}, {result.budget:,}:": max(result.ratio(each) for each in counted) for result in results
    }
    words = f"No problem is worse than 2{'' if is_first else ' in ‖∇f‖ or in f'}."
    at_most(words, _largest(problems), 2.0, for_all=True)
    diverged = sum(result.diverged for result in results)
    judge("No run of ours diverged.", str(diverged), diverged == 0, for_all=True)
    rivals = {
        f"{name}, {budget:,}:": geometric(result.ratio(score, to=name) for result in some)
        for budget, some in at.items()
        for name in UNTUNED
    }
    words = f"In the geometric mean{by_score} it is better than every untuned rival at each budget."
    lost = any(rivals[f"{name}, {budget:,}:"] > 1 for name in UNTUNED for budget in whole)
    at_most(words, _largest(rivals), 1.0, for_all=lost)
    wins = sum(result.ratio(score, to=COSINE) < 1 for result in results)
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


def with_intervals(results: list[Result], score: str) -> str:
    """Return a table of ratios, each with its interval and the best rival."""

    def cell(result: Result) -> str:
        low, high = map(shown, result.interval(score))
        return f"{shown(result.ratio(score))} ({low}–{high}), {result.best(score)}"

    return crossed(results, cell, score)


def untuned_rivals(results: list[Result]) -> str:
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


def summary(results: list[Result], judgement: str) -> dict[str, Any]:
    """Return the numbers of a judgement that the page shows; nothing if no case was run."""
    if not results:
        return {}
    at = by_budget(results)
    ratios = [result.ratio() for result in results]
    intervals = [result.interval() for result in results]
    return {
        "cases": len(results),
        "registered": PROBLEMS[judgement] * len(BUDGETS),
        "left": {budget: PROBLEMS[judgement] - len(at.get(budget, [])) for budget in BUDGETS},
        "means": {budget: geometric(result.ratio() for result in some) for budget, some in at.items()},
        "worst": {budget: max(result.ratio() for result in some) for budget, some in at.items()},
        "losses": {budget: geometric(result.ratio("loss") for result in some) for budget, some in at.items()},
        "median": float(np.median(ratios)),
        "better": sum(high < 1 for _, high in intervals),
        "worse": sum(low > 1 for low, _ in intervals),
        "sentences": sentences(results, judgement),
        "norms_table": with_intervals(results, "norm"),
        "losses_table": with_intervals(results, "loss"),
    }


def near_the_best(results: list[Result], factor: float) -> dict[str, int]:
    """In how many cases the f − f* of each method of the profile is within a factor of the best of them."""
    methods = (OURS, *TUNED, COSINE)
    scores = [{name: result.mean(name, "loss") for name in methods} for result in results]
    return {name: sum(means[name] <= factor * min(means.values()) for means in scores) for name in methods}


def apart(results: list[Result]) -> dict[str, Any]:
    """Count the runs that end above, and below, all runs of the best tuned rival in the case whose f is worst."""
    worst = max(results, key=lambda result: result.ratio("loss"))
    ours, rival = worst.seeds(OURS, "loss"), worst.seeds(worst.best("loss"), "loss")
    return {
        "case": f"{worst.problem}, at {worst.budget:,} gradients",
        "runs": ours.size,
        "above": int(np.sum(ours > rival.max())),
        "below": int(np.sum(ours < rival.min())),
    }


def render(judged: Mapping[str, list[Result]]) -> str:
    """Return the page, in Markdown."""
    first = judged["first"]
    untrapped = by_budget([result for result in first if not result.is_trap])
    values = {
        "shown": shown,
        "problems": PROBLEMS,
        **{name: summary(results, name) for name, results in judged.items()},
        "near": near_the_best(judged["second"], 1.5),
        "apart": apart(judged["second"]) if judged["second"] else {},
        "rivals": untuned_rivals(judged["second"]) if judged["second"] else "",
        "void": VOID,
        "traps": sum(result.is_trap for result in first),
        "without_traps": {budget: geometric(result.ratio() for result in some) for budget, some in untrapped.items()},
    }
    return rendered(__file__, values | ablated())
