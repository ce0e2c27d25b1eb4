"""The page of the untuned method and its figures, from one file for each problem and budget."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evidence.untuned import figures
from gladstorm.core.markdown import markdown_table

OURS, ANYTIME = "steered landing", "without the decay (`steered`)"
BUDGETS = (10**3, 10**4, 10**5)
CONSTANT = ("SGD", "NSGDM", "NSTORM")
NOT_CONVEX = ("double well, d = 5, added noise", "network on diabetes", "network on digits")
DRAWS = 2000
HELD_OUT = DEVELOPMENT = 8  # problems in each list

PAGE = """# If you do not want to tune

`steered_landing()` is a method with nothing to tune. You tell it how many steps the run has, and it finds the length of
its steps on the way.

{division}

{figure}
{headline}

## What it does

Step k of K is x ← x − (1 − k/K) ℓ u.

- The direction u is the stochastic gradient divided by its usual size. It is cut where it is much larger than that.
- The length ℓ lies between r/(n + 1) and r/√(n + 1). Here r is the largest distance from the start x⁰ so far, and n is
  twice the number of reversals: steps whose gradient pointed against the mean of the gradients before. Between these
  limits ℓ grows while gradients agree, and shrinks while they disagree.
- The factor 1 − k/K brings the steps to 0 at the end of the run.
- The method reports an average of its iterates, in which late ones have more weight.

[`Steered`](../../api/steps.md) has the equations.

## How it was tested

We wrote down the method, the problems, the rivals, the seeds and eight sentences, and committed them before any
held-out problem was run: they are [registered](registered.md). Each problem was run once, with two exceptions.
The logistic posterior and one network were stopped before they had a result, and begun again with oracles that give
the same samples at less cost. Temporal differences at 10⁵ gradients have samples of the same law, drawn in a cheaper
way. `python -m evidence untuned` ran the problems, kept every seed in a file beside this page, and made the page.

In all tables a *ratio* is ‖∇f‖ of `steered_landing()` divided by that of the best tuned rival, each a mean over seeds.
Below 1 the untuned method is better. Budgets are numbers of stochastic gradients.

## The registered sentences

{sentences}

## Held-out problems, one by one

The ratio, its 95 % interval over seeds, and the best rival. Each rival was tuned on the very seeds that are reported:
eleven step sizes, each constant and with a linear decay; clipped SGD has twice as many settings, for two levels.

{held}

{profile}
The next table has the same ratio for f − inf f in place of ‖∇f‖, where inf f is known. Settings are still chosen by
‖∇f‖.

{excess}

## Without knowing the length of the run

`steered()` is the same method without the factor 1 − k/K, so you can stop it at any time. The table shows what this
costs on the same held-out problems; smaller is better.

{anytime}

## Development problems

The method was chosen on prototypes of these problems. So the table shows how well the method was fitted, and not how
well it does elsewhere. {finished}

<details><summary>Every development problem</summary>

{development}

</details>

## What each part is for

We left out one part at a time and measured the same ratio, as the geometric mean and the worst case over problems. A
part helps where its line has larger numbers than the first line; inf means that a seed diverged.

<details><summary>Each part left out, on the development problems</summary>

{ablation}

</details>

<details><summary>Each part left out, on the held-out problems</summary>

Nothing was chosen by this table; it says what to try next.

{ablation_held}

</details>

## Limits

- No rate is proved for it.
- Multiplying f by a constant changes nothing. Multiplying x by a constant does, because the first length is a tenth of
  1 + ‖x⁰‖.
- No step is longer than r, the largest distance so far, but r may double at every step while gradients agree.
- All coordinates have the same length of step. Where their scales differ much, Adam has an advantage, which shows in f
  first: on least squares of condition 100, f − inf f is tens of times the best rival's up to 10⁴ gradients.
- A decay of the step size alone, without looking at the gradients, is better in long runs: at 10⁵ gradients
  ℓ = r/(n + 1)^¾ has the better mean on the held-out problems. It does not arrive in 10³ gradients with d = 100.
- Beside x the method keeps x⁰, a mean of directions, and the average. In torch and Optax the average is kept on request
  only: it is worth little (the last lines of the tables above), and without it the state is two vectors.
"""

RATIOS = """![Gradient norm divided by that of the best tuned rival, problem by problem](ratios.svg)

*‖∇f‖ of the untuned method at the end of the run, divided by that of the best of five methods that were tuned for each
problem and budget. Left of the dotted line the untuned method is better. Bars are 95 % intervals over seeds.*
"""
PROFILE = """![Share of cases within a factor of the best](profile.svg)

*The share of problems and budgets in which a method ends within a given factor of the best of all six; higher is
better. The five rivals are tuned.*
"""


@dataclass(frozen=True)
class Case:
    """One problem at one budget."""

    found: dict[str, Any]

    @property
    def problem(self) -> str:
        """Its name, in a reader's words: a wrapper adds the paper's noise to exact gradients."""
        name: str = self.found["problem"]
        return name.replace("wrapper", "added noise")

    @property
    def budget(self) -> int:
        """Stochastic gradients."""
        return int(self.found["budget"])

    @property
    def diverged(self) -> int:
        """Seeds of ours that diverged."""
        return int(self.found["ours"][OURS]["diverged"])

    def rivals(self, which: str = "best", names: Iterable[str] | None = None) -> dict[str, float]:
        """‖∇f‖ of each rival at its best setting, ∞ where every setting lost a seed."""
        chosen = self.found["rivals"] if names is None else {name: self.found["rivals"][name] for name in names}
        return {name: _mean(each[which]["norm"]) for name, each in chosen.items()}

    @property
    def winner(self) -> str:
        """The best rival."""
        means = self.rivals()
        return min(means, key=lambda name: means[name])

    def norm(self, variant: str = OURS) -> float:
        """‖∇f‖ of ours, whole or with a part left out."""
        return _mean(self.found["ours"][variant]["norm"])

    def ratio(self, variant: str = OURS) -> float:
        """To the best rival."""
        return self.norm(variant) / min(self.rivals().values())

    @property
    def to_constant(self) -> float:
        """To the best of the paper's methods and SGD, with a constant step size."""
        return self.norm() / min(self.rivals("constant", CONSTANT).values())

    @property
    def excess(self) -> float | None:
        """The ratio of f − inf f, where that is known."""
        ours, theirs = self.found["ours"][OURS]["excess"], self.found["rivals"][self.winner]["best"]["excess"]
        return None if ours is None else _mean(ours) / _mean(theirs)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 % of the ratio over seeds drawn again, ours and the best rival's together."""
        ours, theirs = self.found["ours"][OURS]["norm"], self.found["rivals"][self.winner]["best"]["norm"]
        drawn = np.random.default_rng(0).integers(len(ours), size=(DRAWS, len(ours)))
        ratios = np.array(ours)[drawn].mean(axis=1) / np.array(theirs)[drawn].mean(axis=1)
        low, high = np.quantile(ratios, [0.025, 0.975])
        return float(low), float(high)


def load(folder: Path) -> dict[str, list[Case]]:
    """What was found on held-out and on development problems."""
    cases = [Case(json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))]
    if not cases:
        raise ValueError(
            f"untuned: the folder must hold results of a problem, as NAME-BUDGET.json; got {str(folder)!r}."
        )
    return {
        kind: sorted((each for each in cases if each.found["kind"] == kind), key=_order)
        for kind in ("held-out", "development")
    }


def draw(folder: Path) -> None:
    """The figures of the held-out problems."""
    if held := load(folder)["held-out"]:
        figures.draw_ratios(folder / "ratios.svg", held)
        figures.draw_profile(folder / "profile.svg", held)


def render(cases: dict[str, list[Case]]) -> str:
    """The page."""
    held, development = cases["held-out"], cases["development"]
    return PAGE.format(
        headline=headline(held),
        division=division(held),
        figure=RATIOS if held else "",
        sentences=sentences(held),
        held=table(held) if held else "None was finished.",
        profile=PROFILE if held else "",
        excess=excesses(held),
        anytime=anytime(held),
        finished=missing(development, DEVELOPMENT, BUDGETS[:2]),
        development=table(development),
        ablation=ablation(development),
        ablation_held=ablation(held) if held else "None yet.",
    )


def headline(held: list[Case]) -> str:
    """What came of it, in a few sentences."""
    if not held:
        return "No held-out problem has been run yet."
    found = []
    for budget, some in _by_budget(held).items():
        ratios = [each.ratio() for each in some]
        found.append(f"- {budget:,} gradients: {_geometric(ratios):.2f} (at worst {max(ratios):.2f})")
    lost, ends = sum(each.diverged for each in held), [each.interval for each in held]
    rivals = (
        "The rivals are SGD, clipped SGD, Adam, NSGDM and NSTORM, each with the best of 22 or 44 settings for every "
        "problem and budget. The problems had no part in the design of the method (two are new instances of families "
        "that had). The geometric mean over problems of the ratio is:"
    )
    counted = (
        f"Of {len(held)} cases the 95 % interval of the ratio lies below 1 in {sum(high < 1 for _, high in ends)} and "
        f"above 1 in {sum(low > 1 for low, _ in ends)}. {f'{lost} runs' if lost else 'None of its runs'} diverged."
    )
    return "\n\n".join([textwrap.fill(rivals, 120), "\n".join(found), textwrap.fill(counted, 120)])


def division(held: list[Case]) -> str:
    """For whom it is: short runs, and long ones by whether the problem is convex."""
    short = _geometric([each.ratio() for each in held if each.budget == BUDGETS[0]])
    long = [each for each in held if each.budget > BUDGETS[0]]
    ranges = []
    for some in ([each for each in long if (each.problem in NOT_CONVEX) == yes] for yes in (False, True)):
        ratios = [each.ratio() for each in some]
        ranges.append(f"{min(ratios, default=np.nan):.2f} to {max(ratios, default=np.nan):.2f}")
    words = (
        "**Use it for short runs.** With 1,000 stochastic gradients its gradient norm is, on average over problems, "
        f"{short:.2f} times that of the best of five tuned methods. In runs of 10⁴ gradients and more it depends on "
        "the problem. On the three problems that are not convex, the double well and both networks, the ratio is "
        f"{ranges[1]}: there, tune a step size. On the others it is {ranges[0]}. We divided the problems in this way "
        "after we had seen the results."
    )
    return textwrap.fill(words, 120)


def missing(cases: list[Case], problems: int, budgets: Iterable[int]) -> str:
    """Which problems and budgets were not finished."""
    counts = {budget: sum(each.budget == budget for each in cases) for budget in budgets}
    if all(count == problems for count in counts.values()):
        return f"All {problems} were finished at every budget."
    shown = ", ".join(f"{count} of {problems} at {budget:,}" for budget, count in counts.items())
    return f"Finished in the time there was: {shown} gradients."


def excesses(held: list[Case]) -> str:
    """The ratio of f − inf f, where that is known."""
    known = [each for each in held if each.excess is not None]
    return _crossed(known, lambda case: f"{case.excess:.2f}", lambda case: case.excess) if known else "None yet."


def anytime(held: list[Case]) -> str:
    """Ratios of the anytime form, to the best tuned rival and to the form that knows the length of the run."""
    if not held:
        return "None yet."
    rows = []
    for budget, some in _by_budget(held).items():
        to_rivals = [each.ratio(ANYTIME) for each in some]
        to_landing = [each.norm(ANYTIME) / each.norm() for each in some]
        cells = [f"{number:.2f}" for each in (to_rivals, to_landing) for number in (_geometric(each), max(each))]
        rows.append((f"{budget:,}", *cells))
    heads = ("gradients", "to the best tuned rival: mean", "worst", "to `steered_landing()`: mean", "worst")
    return markdown_table(heads, rows)


def sentences(held: list[Case]) -> str:
    """The registered sentences, each with its verdict and the number that decides it."""
    at = {budget: [each for each in held if each.budget == budget] for budget in BUDGETS}
    small, middle, large = BUDGETS

    # One number that is too large decides, whatever else is missing.
    def of_means(words: str, limit: float, of: str, *budgets: int) -> tuple[str, str, str]:
        means = [_geometric([_value(each, of) for each in at[budget]]) for budget in budgets]
        whole = [len(at[budget]) == HELD_OUT for budget in budgets]
        too_large = any(mean > limit for mean, finished in zip(means, whole, strict=True) if finished)
        verdict = "**false**" if too_large else "true" if all(whole) else "undecided"
        return words, ", ".join(_shown(mean) for mean in means), verdict

    def of_each(words: str, limit: float, of: str, *budgets: int) -> tuple[str, str, str]:
        values = [_value(each, of) or 0.0 for budget in budgets for each in at[budget]]
        whole = len(values) == HELD_OUT * len(budgets)
        verdict = "**false**" if any(value > limit for value in values) else "true" if whole else "undecided"
        return words, _shown(max(values, default=np.nan)), verdict

    rows = [
        of_means("At 10⁴ gradients the geometric mean of the ratios is at most 1.", 1, "ratio", middle),
        of_means("At 10⁵ gradients it is at most 1.", 1, "ratio", large),
        of_each("At 10⁴ and 10⁵ gradients no ratio is above 1.5.", 1.5, "ratio", middle, large),
        of_means("At 10³ gradients the geometric mean is at most 1.25.", 1.25, "ratio", small),
        of_each("At 10³ gradients no ratio is above 3.", 3, "ratio", small),
        of_each("No seed diverged, at any budget.", 0, "diverged", *BUDGETS),
        of_means(
            "Against the best of SGD, NSGDM and NSTORM with a constant step the mean is at most 0.7 at each budget.",
            *(0.7, "to_constant", *BUDGETS),
        ),
        of_means("For f − inf f the mean is at most 1 at 10⁴ and at 10⁵ gradients.", 1, "excess", middle, large),
    ]
    numbered = [(str(number), *row) for number, row in enumerate(rows, 1)]
    shown = markdown_table(("", "registered", "found", "verdict"), numbered)
    return f"{shown}\n\n{missing(held, HELD_OUT, BUDGETS)}"


def table(cases: list[Case]) -> str:
    """The ratio of every problem at every budget, with its interval and the best rival."""
    return _crossed(cases, _cell, Case.ratio)


def ablation(cases: list[Case]) -> str:
    """Geometric mean and worst ratio of our method with each part left out."""
    at = _by_budget(cases)
    rows = []
    for variant in cases[0].found["ours"]:
        cells = []
        for some in at.values():
            ratios = [each.ratio(variant) for each in some]
            cells += [f"{_geometric(ratios):.3g}", f"{max(ratios):.3g}"]
        rows.append((variant, *cells))
    heads = [head for budget in at for head in (f"mean, {budget:,}", f"worst, {budget:,}")]
    return markdown_table(("", *heads), rows)


def _value(case: Case, of: str) -> float | None:
    value: float | None = case.ratio() if of == "ratio" else getattr(case, of)
    return value


def _shown(number: float) -> str:
    return "–" if np.isnan(number) else f"{number:.3g}"


def _geometric(values: Iterable[float | None]) -> float:
    """The geometric mean of those that are known."""
    known = [value for value in values if value is not None]
    return float(np.exp(np.mean(np.log(known)))) if known else float(np.nan)


def _by_budget(cases: list[Case]) -> dict[int, list[Case]]:
    budgets = sorted({each.budget for each in cases})
    return {budget: [each for each in cases if each.budget == budget] for budget in budgets}


def _crossed(cases: list[Case], cell: Callable[[Case], str], ratio: Callable[[Case], float | None]) -> str:
    """A table of problems × budgets, with geometric means below."""
    problems = list(dict.fromkeys(each.problem for each in cases))
    at = _by_budget(cases)
    found = {(each.problem, each.budget): cell(each) for each in cases}
    rows = [(problem, *(found.get((problem, budget), "missing") for budget in at)) for problem in problems]
    rows.append(("geometric mean", *(f"{_geometric(map(ratio, some)):.2f}" for some in at.values())))
    return markdown_table(("problem", *(f"{budget:,}" for budget in at)), rows)


def _cell(case: Case) -> str:
    low, high = case.interval
    return f"{case.ratio():.2f} ({low:.2f}–{high:.2f}), {case.winner}"


def _order(case: Case) -> tuple[str, int]:
    return case.problem.casefold(), case.budget


def _mean(values: list[float | None]) -> float:
    return float(np.inf) if None in values else float(np.mean(np.array(values, float)))
