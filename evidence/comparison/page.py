"""The page of the comparison and its figure, from the JSON of `gladstorm compare` on three problems."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr

from gladstorm.comparison.intervals import CONFIDENCE, ratio
from gladstorm.core.markdown import markdown_table
from gladstorm.core.statistics import holm, mean_of
from gladstorm.plotting.styles import in_symbols

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
    "anchored NSTORM": "anchored_nstorm(eta=[0.1,0.5],weight=[0.00001,0.0001])",
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
SHARED = "--seeds 30 --tuning-seeds 3"

OPENING = """# Twelve methods at an equal budget

Which methods reach a smaller gradient norm than NSTORM if all may compute the same number of stochastic gradients? We
compared every method of the paper's Table 1, and four new combinations of their parts, on three problems. Growing noise
is noise whose variance grows with the distance from the start, the paper's BG-0 ([notation](../../notation.md)).
{answers}

![Gradient norm divided by NSTORM's, with intervals, on three problems](ratios.png)

*Final gradient norm of each method divided by NSTORM's, with its interval. Left of the line is better than NSTORM. A
black triangle marks a clear difference, a grey dot none.*

## How it was compared

The four combinations are the estimators of PAGE and SVRG with a normalized step, NSTORM pulled towards an anchor, and
NSTORM with a batch that grows with the distance from the start.

- **Tuning.** Every method has 28 settings: seven step sizes times four other choices. The best setting on three seeds
  is reported on thirty others. Every seed has its own random start.
- **Score.** ‖∇f‖ when the budget is spent; smaller is better. *Divided by NSTORM's* is the geometric mean over seeds of
  a method's score divided by NSTORM's, on the same noise from the same start; below 1 is better.
- **Intervals.** All {comparisons} intervals are valid at the same time, with 95 % confidence (Bonferroni). Verdicts
  use Holm's correction, which is as safe and decides a little more. So a verdict can be "better" or "worse" although
  the interval just reaches 1.
- **Edges.** A * marks a number that tuning left at the edge of its grid; a wider grid may do better.

This comparison has limits.

- Step sizes are constant. [The suite](../suite/index.md) also has decaying ones, which help every tuned method there.
- We moved the grids of η, c, q and p once, after we had seen a first run on |x|³. We cut the budgets to 3,000 (phase
  retrieval) and 2,000 (robust regression) before any result at larger budgets was known.
- An equal number of settings is not equal coverage. The relatives of NSTORM spend some settings on other numbers, and
  try two values of η where NSTORM tries four.
- On the robust regression the noise is largest at the start and falls on the way, so B and G do not describe it. There
  they only set how fast a growing batch grows.

`python -m evidence comparison --out docs/evidence/comparison` runs these three comparisons and makes this page.
"""

NOTES = """\
If a combination wins where SPIDER or NSGDM wins too, the win is not due to the combination. With q = 2 the estimators
of SPIDER and SVRG are the same, and in one dimension ‖EF21-SGDM‖ is the same as NSGDM, so their rows agree.
{pasta}
The budgets are small: {undecided} of the {comparisons} ratios do not differ clearly from 1. Without the correction for
many comparisons, at 5 % each, {alone} of these would; {few} are expected by chance if no method differs.
"""

PASTA = """
On these problems tuning chose the weight 0 for PASTA, which switches its anchor off: {problems}. What is reported there
is SGD with a dynamic batch. It says nothing about PASTA's anchor.
"""


def command_of(name: str) -> list[str]:
    """The command that compares the methods on a problem."""
    _, options, numbers = PROBLEMS[name]
    methods = [word for text in METHODS.values() for word in ("--method", text.format(**numbers))]
    return ["gladstorm", "compare", *options.split(), *SHARED.split(), *methods]


def render(results: Mapping[str, Any]) -> str:
    """The page."""
    rows = _rows(results)
    sections = [_problem(name, result, rows[name]) for name, result in results.items()]
    opening = OPENING.format(comparisons=_count(rows), answers="\n".join(_answers(rows)))
    return "\n".join([opening, _short(rows), *sections])


def _rows(results: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """By problem every method's score, and its ratio to NSTORM's with a verdict."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for problem, result in results.items():
        named = dict(zip(METHODS, result["methods"].values(), strict=True))
        per_seed = {name: np.array(row["grad_norm"]["per_seed"], float) for name, row in named.items()}
        comparisons = len(results) * (len(METHODS) - 1)
        found[problem] = {
            name: row
            | {"relative": ratio(per_seed[name], per_seed["NSTORM"], comparisons)}
            | {"p": _p_value(per_seed[name], per_seed["NSTORM"])}
            for name, row in named.items()
        }
    p_values = {(problem, name): row["p"] for problem, named in found.items() for name, row in named.items()}
    told_apart = holm({key: p for key, p in p_values.items() if key[1] != "NSTORM"}, 1 - CONFIDENCE)
    for problem, name in p_values:
        row = found[problem][name]
        row["verdict"] = "" if name == "NSTORM" else _verdict(row["relative"], (problem, name) in told_apart)
    return found


def _p_value(scores: np.ndarray, reference: np.ndarray) -> float:
    """Student's, two-sided, of the paired logarithms; 1 where one is not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(scores) - np.log(reference)
    if not np.isfinite(logs).all() or not logs.any():
        return 1.0
    mean = mean_of(logs)
    return float(2 * stdtr(logs.size - 1, -abs(mean.value) * np.sqrt(logs.size) / mean.deviation))


def _verdict(relative: Mapping[str, Any], told_apart: bool) -> str:
    if relative["mean"] is None:
        return "diverges"
    if not told_apart:
        return "no clear difference"
    return "better" if relative["mean"] < 1 else "worse"


def _count(rows: Mapping[str, Any]) -> int:
    return len(rows) * (len(METHODS) - 1)


def _answers(rows: Mapping[str, dict[str, dict[str, Any]]]) -> list[str]:
    lines = []
    for name, named in rows.items():
        of = {v: [m for m, row in named.items() if row["verdict"] == v] for v in ("better", "worse", "diverges")}
        words = {"better": "better than NSTORM", "worse": "Worse than NSTORM", "diverges": "On some seed diverge"}
        listed = [f"{words[verdict]}: {'; '.join(methods)}" for verdict, methods in of.items() if methods]
        lines.append(f"- **{PROBLEMS[name][0]}**: {'. '.join(listed) or 'no method differs clearly from NSTORM'}.")
    return ["", *lines]


def switched_off(row: Mapping[str, Any]) -> bool:
    """Whether tuning chose PASTA without its anchor."""
    return "weight=0," in row["label"]


def _short(rows: Mapping[str, dict[str, dict[str, Any]]]) -> str:
    cells = [
        [method, *(f"{named[method]['verdict']}, {_g(named[method]['relative'])}" for named in rows.values())]
        for method in NEW
    ]
    undecided = [row for named in rows.values() for row in named.values() if row["verdict"] == "no clear difference"]
    alone = sum(row["p"] <= 1 - CONFIDENCE for row in undecided)
    off = [_short_title(name) for name, named in rows.items() if switched_off(named[ANCHORED])]
    notes = NOTES.format(
        comparisons=_count(rows),
        undecided=len(undecided),
        alone=alone,
        few=f"{(1 - CONFIDENCE) * len(undecided):.1f}",
        pasta=PASTA.format(problems=", ".join(off)) if off else "",
    )
    told = "Each cell has the verdict and ‖∇f‖ divided by NSTORM's, with its interval; below 1 is better.\n"
    return "\n".join(
        [
            "## The four combinations\n",
            told,
            markdown_table(["combination", *map(_short_title, rows)], cells),
            "",
            notes,
        ]
    )


def _short_title(problem: str) -> str:
    return PROBLEMS[problem][0].split(",")[0]


def _problem(name: str, result: Mapping[str, Any], rows: Mapping[str, dict[str, Any]]) -> str:
    known = all(row["gap"] is not None for row in rows.values())
    head = ["method", "as tuned", "‖∇f‖", "f − inf f" if known else "f", "‖∇f‖ divided by NSTORM's", "verdict"]
    lines = []
    for method, row in rows.items():
        setting = row["label"].removeprefix(list(result["methods"])[list(rows).index(method)]).strip(" ()")
        edge = " *" if row["at_edge"] else ""
        relative = "1" if method == "NSTORM" else _g(row["relative"])
        f = _g(row["gap"] if known else row["value"])
        shown = f"{method}, weight 0: SGD, dynamic batch" if switched_off(row) else method
        lines.append([shown, f"{in_symbols(setting)}{edge}", _g(row["grad_norm"]), f, relative, row["verdict"]])
    return f"""## {PROBLEMS[name][0]}

![Gradient norm, distance from the start and batch size against stochastic gradients]({name}.png)

<details><summary>Every method in numbers: as tuned, with 95 % intervals</summary>

{markdown_table(head, lines)}

</details>

<details><summary>The command</summary>

```bash
{shlex.join(command_of(name))}
```

</details>
"""


def _g(found: Mapping[str, Any]) -> str:
    if found["mean"] is None:
        return "not finite"
    return f"{found['mean']:.3g} ({found['low']:.3g} to {found['high']:.3g})"


def draw(folder: Path) -> None:
    """Every ratio with its interval, a panel for each problem; black where a method differs clearly from NSTORM."""
    results = load(folder)
    from matplotlib.figure import Figure

    rows = _rows(results)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for ax, (name, named) in zip(figure.subplots(1, len(rows), sharey=True), rows.items(), strict=True):
        for line, row in enumerate(list(named.values())[1:]):
            relative = row["relative"]
            if relative["mean"] is None:
                ax.text(1.1, line, "diverges", fontsize=7, va="center")
                continue
            colour = "#AAAAAA" if row["verdict"] == "no clear difference" else "black"
            ax.plot([relative["low"], relative["high"]], [line] * 2, color=colour, linewidth=1)
            ax.plot(relative["mean"], line, {"better": "<", "worse": ">"}.get(row["verdict"], "o"), color=colour)
        ax.axvline(1, color="black", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yticks(range(len(named) - 1), list(named)[1:], fontsize=8)
        ax.set_ylim(len(named) - 1.5, -0.5)
        ax.set_title(_short_title(name), fontsize=9)
        ax.tick_params(axis="x", labelsize=7)
    figure.supxlabel("final ‖∇f‖ divided by NSTORM's (left of the line: better than NSTORM)", fontsize=8)
    figure.savefig(folder / "ratios.png", dpi=120)


def load(folder: Path) -> dict[str, Any]:
    """The results by problem."""
    paths = {name: folder / f"{name}.json" for name in PROBLEMS}
    found = {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.exists()}
    if not found:
        raise ValueError(f"comparison: the folder must hold PROBLEM.json of a problem; got {str(folder)!r}.")
    return found
