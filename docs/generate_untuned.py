"""Make docs/untuned.md and its figures from what docs/run_untuned.py kept in docs/untuned/."""

from __future__ import annotations

import json
import runpy
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gladstorm.foundation.markdown import markdown_table

DOCS = Path(__file__).parent
OURS, ANYTIME = "steered landing", "without the decay (`steered`)"
BUDGETS = (10**3, 10**4, 10**5)
CONSTANT = ("SGD", "NSGDM", "NSTORM")
NOT_CONVEX = ("double well, d = 5, wrapper", "network on diabetes", "network on digits")
DRAWS = 2000
HELD_OUT = DEVELOPMENT = 8  # problems in each list

PAGE = """# If you do not want to tune

`steered_landing()` is a method with nothing to tune. You tell it how many steps the run has, and it finds the length of
its steps on the way.
{headline}

{division}

{figure}
Method, problems, rivals, seeds and the sentences below were [registered](untuned_registered.md): committed before any
held-out problem was run. Each problem was run once; the logistic posterior and one network were stopped before they had
a result, and begun again with oracles that give the same samples at less cost. Temporal differences at 10⁵ have samples
of the same law, drawn in a cheaper way. `docs/run_untuned.py` ran them and kept every seed in `docs/untuned/`;
`docs/generate_untuned.py` makes this page from that.

## What it does

x ← x − (1 − k/K) ℓ u. The direction u is the stochastic gradient divided by its usual size, and cut where it is much
larger than that. The length ℓ lies between r/(n + 1) and r/√(n + 1): r is the largest distance from x⁰ so far, and n
is twice the number of reversals, the steps whose gradient pointed against the mean of those before. Between these
limits ℓ grows while gradients agree and shrinks while they disagree. The factor 1 − k/K brings the steps to 0 at the
end of the run. The method reports an average of its iterates, in which late ones weigh more. `Steered` has the
equations.

## The registered sentences

A ratio is ‖∇f‖ of `steered_landing()` divided by that of the best tuned rival, each a mean over seeds.

{sentences}

## Held-out problems, one by one

Ratio, 95 % interval over seeds, and the best rival. Each rival was tuned on the very seeds that are reported: eleven
step sizes, each constant and with a linear decay; clipped SGD with twice as many settings, for two levels.

{held}

{profile}
Where inf f is known, the same ratio of f − inf f, with settings chosen by ‖∇f‖:

{excess}

## Without knowing the length of the run

`steered()` is the same method without the factor 1 − k/K: it can be stopped at any time. This is its price, on the same
held-out problems.

{anytime}

## Development problems

The method was chosen on prototypes of these problems, so this table says how well it was fitted and not how well it
does elsewhere. {finished}

{development}

## What each part is for

The same ratio on the development problems, as geometric mean and worst case, with one part left out at a time. A part
helps where its line has larger numbers than the first one; inf means that a seed diverged.

{ablation}

The same on the held-out problems. Nothing was chosen by this table; it says what to try next.

{ablation_held}

## Limits

- No rate is proved for it.
- f times a constant changes nothing. x times a constant does, through the first length, which is a tenth of 1 + ‖x⁰‖.
- No step is longer than r, the largest distance so far, but r may double at every step while gradients agree.
- One length serves all coordinates. Where their scales differ much, Adam has an advantage, which shows in f first:
  on least squares of condition 100, f − inf f is tens of times the best rival's up to 10⁴ gradients.
- A decay of the step size alone, without looking at the gradients, lasts better: at 10⁵ gradients ℓ = r/(n + 1)^¾ has
  the better mean on the held-out problems. It does not land in 10³ gradients with d = 100.
- Beside x it keeps x⁰, a mean of directions, and the average. In torch and Optax the average is kept on request
  only: it is worth little (the last lines of the tables above), and without it the state is two vectors.
"""

RATIOS = """![ratio to the best tuned rival, problem by problem](untuned/ratios.svg)

*One method with one setting for everything, as a multiple of the best of five methods that were tuned for each problem
and budget: left of the dotted line it is better. Bars are 95 % intervals over seeds.*
"""
PROFILE = """![performance profile](untuned/profile.svg)

*In which share of problems and budgets a method ends within a factor of the best of all six. The five rivals are
tuned.*
"""


@dataclass(frozen=True)
class Case:
    """One problem at one budget."""

    found: dict[str, Any]

    @property
    def problem(self) -> str:
        """Its name."""
        name: str = self.found["problem"]
        return name

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


def main() -> None:
    """Write the page and its figures."""
    held, development = kept()
    if held:
        drawing = runpy.run_path(str(DOCS / "draw_untuned.py"))
        drawing["draw_ratios"](DOCS / "untuned" / "ratios.svg", held)
        drawing["draw_profile"](DOCS / "untuned" / "profile.svg", held)
    (DOCS / "untuned.md").write_text(page(held, development))


def kept() -> tuple[list[Case], list[Case]]:
    """What was found on held-out and on development problems."""
    cases = [Case(json.loads(path.read_text())) for path in sorted((DOCS / "untuned").glob("*.json"))]
    held = sorted((each for each in cases if each.found["kind"] == "held-out"), key=_order)
    return held, sorted((each for each in cases if each.found["kind"] == "development"), key=_order)


def page(held: list[Case], development: list[Case]) -> str:
    """The page."""
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
        found.append(f"{_geometric(ratios):.2f} at {budget:,} gradients (at worst {max(ratios):.2f})")
    lost, ends = sum(each.diverged for each in held), [each.interval for each in held]
    words = (
        "We compared it with SGD, clipped SGD, Adam, NSGDM and NSTORM, each with the best of 22 or 44 settings for "
        "every problem and budget, on problems that had no part in its design (two are new instances of families that "
        "had). Its gradient norm at the end of the run "
        f"was, in the geometric mean over problems, that of the best tuned rival times {', '.join(found)}. "
        f"Of {len(held)} cases the 95 % interval of that ratio lies below 1 in {sum(high < 1 for _, high in ends)} and "
        f"above 1 in {sum(low > 1 for low, _ in ends)}. {f'{lost} runs' if lost else 'None of its runs'} diverged."
    )
    return textwrap.fill(words, 120)


def division(held: list[Case]) -> str:
    """For whom it is: short runs, and long ones by whether the problem is convex."""
    long = [each for each in held if each.budget > BUDGETS[0]]
    ranges = []
    for some in ([each for each in long if (each.problem in NOT_CONVEX) == yes] for yes in (False, True)):
        ratios = [each.ratio() for each in some]
        ranges.append(f"{min(ratios, default=np.nan):.2f} to {max(ratios, default=np.nan):.2f}")
    words = (
        "So it is a choice for short runs. In runs of 10⁴ gradients and more the problems differ. The ratio is "
        f"{ranges[1]} on the three that are not convex, the double well and both networks: there a tuned step size is "
        f"worth its price. It is {ranges[0]} on the others. This division was made after the results were seen."
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
        of_means("geometric mean at 10⁴ ≤ 1", 1, "ratio", middle),
        of_means("geometric mean at 10⁵ ≤ 1", 1, "ratio", large),
        of_each("none above 1.5 at 10⁴, 10⁵", 1.5, "ratio", middle, large),
        of_means("geometric mean at 10³ ≤ 1.25", 1.25, "ratio", small),
        of_each("none above 3 at 10³", 3, "ratio", small),
        of_each("no seed diverged", 0, "diverged", *BUDGETS),
        of_means("≤ 0.7 against constant steps, each budget", 0.7, "to_constant", *BUDGETS),
        of_means("f − inf f: ≤ 1 at 10⁴ and 10⁵", 1, "excess", middle, large),
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


if __name__ == "__main__":
    main()
