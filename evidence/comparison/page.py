"""The page of the comparison and its figure, from the JSON of `gladstorm compare` on three problems."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.special import stdtr

from evidence.page import markdown_table, rendered
from evidence.results import load_some
from gladstorm.comparison.scores import CONFIDENCE, ratio
from gladstorm.core.estimate import Estimate
from gladstorm.core.results import from_json
from gladstorm.core.statistics import mean_of
from gladstorm.plotting.styles import in_symbols

Key = TypeVar("Key")

RATIO = "{value:.3g} ({low:.3g} to {high:.3g})"

# Seven step sizes times four others: 28 settings each. {k}: entries EF21 sends; {B}, {G}: for batches that grow.
METHODS = {
    "NSTORM": "nstorm(eta=[0.01,0.1,0.3,0.9])",
    "NSGDM": "nsgdm(eta=[0.01,0.1,0.3,0.9])",
    "clipped SGD": "clipped_sgd(c=[1,10,100,1000])",
    "clipped SPIDER": "clipped_spider(q=5,large=10,c0=[1,10],c1=[10,100])",
    "β-normalized SGD": "beta_ngd(beta=[0.1,0.4,0.7,1])",
    "normalized SPIDER": "normalized_spider(q=[2,10],large=[5,20])",
    "‖EF21-SGDM‖": "ef21_sgdm(k={k},eta=[0.01,0.1,0.3,0.9])",
    "PASTA (reconstructed)": "pasta(B={B},G={G},sigma2=[{low},{high}],lam=[0,0.01])",
    "normalized PAGE": "normalized_page(p=[0.1,0.5],large=[5,20])",
    "normalized SVRG": "normalized_svrg(q=[2,10],large=[5,20])",
    "anchored NSTORM": "storm(eta=[0.1,0.5])+normalized+anchored(weight=[0.00001,0.0001])",
    "NSTORM, dynamic batch": "nstorm(eta=[0.1,0.5],batch=grow_with_distance(B={B},G={G},sigma2=[{low},{high}]))",
}
ANCHORED = "PASTA (reconstructed)"
NEW = ("normalized PAGE", "normalized SVRG", "anchored NSTORM", "NSTORM, dynamic batch")

PROBLEMS: dict[str, tuple[str, str, dict[str, float]]] = {
    "phase-retrieval": (
        "Phase retrieval, d = 100, m = 3000, growing noise",
        "--objective phase-retrieval --B 0.5 --G 1 --budget 3000 --grid 1e-3,1,7",
        {"k": 10, "B": 0.5, "G": 1, "low": 1, "high": 10},
    ),
    "cubic": (
        "|x|³, growing noise",
        "--objective power:3 --B 0.5 --G 0.5 --budget 10000 --grid 1e-4,0.1,7",
        {"k": 1, "B": 0.5, "G": 0.5, "low": 0.25, "high": 2.5},
    ),
    "dro": (
        "Distributionally robust regression, d = 10, 300 examples drawn with replacement",
        "--objective dro:300 --dim 10 --oracle finite-sum --budget 2000 --grid 1e-4,0.1,7",
        {"k": 2, "B": 1, "G": 1, "low": 0.2, "high": 1},
    ),
}
# In the place of the rule that is told B and G: those that measure. `low` is G², at which the paper's batches begin.
TOLD, MEASURED = "told B and G", ("grows with noise", "fastest")
RULES = {
    TOLD: "grow_with_distance(B={B},G={G},sigma2={low})",
    "grows with noise": "grow_with_noise(budget={budget})",
    "fastest": "fastest_batch",
}
BATCHES = {
    f"{name}, {rule}": text.replace("RULE", written)
    for name, text in {"SGD": "sgd(batch=RULE)", "STORM": "storm(eta=0.1,batch=RULE)"}.items()
    for rule, written in RULES.items()
}
WITH_RULES = {f"batches-{name}": name for name in ("phase-retrieval", "cubic")}
RUNS = (*PROBLEMS, *WITH_RULES)
SHARED = "--seeds 30 --tuning-seeds 3"


def command_of(name: str) -> list[str]:
    """The command that compares the methods, or the batch rules, on a problem."""
    _, options, numbers = PROBLEMS[WITH_RULES.get(name, name)]
    words = options.split()
    numbers = numbers | {"budget": int(words[words.index("--budget") + 1])}
    texts = BATCHES if name in WITH_RULES else METHODS
    methods = [word for text in texts.values() for word in ("--method", text.format(**numbers))]
    return ["gladstorm", "compare", *options.split(), *SHARED.split(), *methods]


@dataclass(frozen=True)
class FinalScore:
    """A number when the budget is spent: its mean over seeds with an interval, and the seeds'."""

    mean: float | None
    low: float | None
    high: float | None
    per_seed: list[float | None]

    def text(self) -> str:
        """The mean with its interval."""
        return Estimate(self.mean, self.low, self.high).text(RATIO)


@dataclass(frozen=True)
class TunedMethod:
    """A method of `gladstorm compare` at its best setting: what the page needs of its JSON."""

    text: str
    label: str
    grad_norm: FinalScore
    value: FinalScore
    gap: FinalScore | None
    at_edge: list[str]
    max_batch: int


@dataclass(frozen=True)
class MethodVerdict:
    """A tuned method beside NSTORM: the ratio of their scores, its p-value, and the verdict."""

    tuned: TunedMethod
    setting: str
    relative: Estimate
    p: float
    verdict: str

    @property
    def switched_off(self) -> bool:
        """Whether tuning chose PASTA without its anchor."""
        return "weight=0," in self.tuned.label


ComparisonResults = Mapping[str, Mapping[str, TunedMethod]]  # by problem and method
Verdicts = Mapping[str, MethodVerdict]  # by method


def load(folder: Path) -> ComparisonResults:
    """The results by problem, and with the batch rules in the place of the methods."""
    files = load_some(dict[str, Any], "comparison", folder, {name: f"{name}.json" for name in RUNS})
    needed = [field.name for field in fields(TunedMethod) if field.name != "text"]
    return {
        problem: {
            name: from_json(TunedMethod, {"text": text} | {field: row[field] for field in needed}, f"{problem}.{name}")
            for name, (text, row) in zip(
                BATCHES if problem in WITH_RULES else METHODS, content["methods"].items(), strict=True
            )
        }
        for problem, content in files.items()
    }


def render(results: ComparisonResults) -> str:
    """Return the page, in Markdown."""
    rows = _judged(_of_methods(results))
    undecided = [row for named in rows.values() for row in named.values() if row.verdict == "no clear difference"]
    combinations = [
        [name, *(f"{named[name].verdict}, {named[name].relative.text(RATIO)}" for named in rows.values())]
        for name in NEW
    ]
    values = {
        "rows": rows,
        "comparisons": len(rows) * (len(METHODS) - 1),
        "combinations": markdown_table(["combination", *map(_short_title, rows)], combinations),
        "undecided": undecided,
        "alone": sum(row.p <= 1 - CONFIDENCE for row in undecided),
        "few": (1 - CONFIDENCE) * len(undecided),
        "off": [_short_title(name) for name, named in rows.items() if named[ANCHORED].switched_off],
        "command": lambda name: shlex.join(command_of(name)),
        "of_rules": of_rules(results),
        "told": [name for name in BATCHES if TOLD in name],
    }
    return rendered(__file__, globals() | values)


def _of_methods(results: ComparisonResults) -> ComparisonResults:
    return {problem: methods for problem, methods in results.items() if problem in PROBLEMS}


def of_rules(results: ComparisonResults) -> list[tuple[str, str, Estimate, int]]:
    """Problem, method with its rule, ‖∇f‖ by that with the rule that is told B and G, and its largest batch."""
    comparisons, rows = len(WITH_RULES) * len(MEASURED) * len(BATCHES) // len(RULES), []
    for problem in (name for name in WITH_RULES if name in results):
        for name, tuned in results[problem].items():
            method, rule = name.split(", ")
            score, told = (
                np.array(results[problem][f"{method}, {of}"].grad_norm.per_seed, float) for of in (rule, TOLD)
            )
            relative = Estimate(1.0, 1.0, 1.0) if rule == TOLD else ratio(score, told, comparisons)
            rows.append((problem, name, relative, tuned.max_batch))
    return rows


def _judged(results: ComparisonResults) -> dict[str, dict[str, MethodVerdict]]:
    """Every method by problem, with its ratio to NSTORM and a verdict; Holm's procedure decides over all of them."""
    comparisons = len(results) * (len(METHODS) - 1)
    scores = {
        (problem, name): np.array(tuned.grad_norm.per_seed, float)
        for problem, methods in results.items()
        for name, tuned in methods.items()
    }
    p_values = {key: p_value(values, scores[key[0], "NSTORM"]) for key, values in scores.items()}
    told_apart = holm({key: p for key, p in p_values.items() if key[1] != "NSTORM"}, 1 - CONFIDENCE)

    def judged(problem: str, name: str, tuned: TunedMethod) -> MethodVerdict:
        relative = ratio(scores[problem, name], scores[problem, "NSTORM"], comparisons)
        verdict = "" if name == "NSTORM" else _verdict(relative, (problem, name) in told_apart)
        setting = in_symbols(tuned.label.removeprefix(tuned.text).strip(" ()"))
        return MethodVerdict(tuned, setting, relative, p_values[problem, name], verdict)

    return {
        problem: {name: judged(problem, name, tuned) for name, tuned in methods.items()}
        for problem, methods in results.items()
    }


def p_value(scores: np.ndarray, reference: np.ndarray) -> float:
    """Return the p-value of Student's two-sided test that the mean of log(score/reference) is 0; 1 if one diverges.

    >>> e = np.exp
    >>> p_value(e([0.0, 0.0]), e([0.0, 0.0])), p_value(e([1.0, 1.0]), e([0.0, 0.0]))
    (1.0, 0.0)
    >>> round(p_value(e([0.0, 1.0]), e([0.0, 0.0])), 12)
    0.5
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(scores) - np.log(reference)
    if not np.isfinite(logs).all():
        return 1.0
    mean = mean_of(logs)
    if mean.deviation == 0:
        return float(mean.value == 0)
    return float(2 * stdtr(mean.n - 1, -abs(mean.value) * np.sqrt(mean.n) / mean.deviation))


def holm(p_values: Mapping[Key, float], error: float = 0.05) -> set[Key]:
    """The hypotheses that Holm's procedure rejects together: from the smallest p on, while p ≤ error/how many are left.

    >>> sorted(holm({"c": 0.04, "a": 0.01, "d": 0.2, "b": 0.016}))  # 4 · 0.01, 3 · 0.016, 2 · 0.04
    ['a', 'b']
    >>> holm({"a": 0.026, "b": 0.026})
    set()
    """
    rejected: set[Key] = set()
    for key in sorted(p_values, key=p_values.__getitem__):
        if p_values[key] * (len(p_values) - len(rejected)) > error:
            break
        rejected.add(key)
    return rejected


def _verdict(relative: Estimate, told_apart: bool) -> str:
    if relative.value is None:
        return "diverges"
    if not told_apart:
        return "no clear difference"
    return "better" if relative.value < 1 else "worse"


def answer(named: Verdicts) -> str:
    """Return the methods that differ from NSTORM on a problem, in words."""
    words = {"better": "better than NSTORM", "worse": "Worse than NSTORM", "diverges": "On some seed diverge"}
    of = {verdict: [name for name, row in named.items() if row.verdict == verdict] for verdict in words}
    listed = [f"{words[verdict]}: {'; '.join(methods)}" for verdict, methods in of.items() if methods]
    return ". ".join(listed) or "no method differs clearly from NSTORM"


def _short_title(problem: str) -> str:
    return PROBLEMS[problem][0].split(",")[0]


def draw(folder: Path) -> None:
    """Every ratio with its interval, a panel for each problem; black where a method differs clearly from NSTORM."""
    from matplotlib.figure import Figure

    rows = _judged(_of_methods(load(folder)))
    if not rows:
        return
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for ax, (name, named) in zip(figure.subplots(1, len(rows), sharey=True), rows.items(), strict=True):
        for line, row in enumerate(list(named.values())[1:]):
            relative = row.relative
            if relative.value is None:
                ax.text(1.1, line, "diverges", fontsize=7, va="center")
                continue
            colour = "#AAAAAA" if row.verdict == "no clear difference" else "black"
            ax.plot([relative.low, relative.high], [line] * 2, color=colour, linewidth=1)
            ax.plot(relative.value, line, {"better": "<", "worse": ">"}.get(row.verdict, "o"), color=colour)
        ax.axvline(1, color="black", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yticks(range(len(named) - 1), list(named)[1:], fontsize=8)
        ax.set_ylim(len(named) - 1.5, -0.5)
        ax.set_title(_short_title(name), fontsize=9)
        ax.tick_params(axis="x", labelsize=7)
    figure.supxlabel("final ‖∇f‖ divided by NSTORM's (left of the line: better than NSTORM)", fontsize=8)
    figure.savefig(folder / "ratios.png", dpi=120)
