"""Make docs/untuned.md and its figures from what docs/run_untuned.py kept in docs/untuned/."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gladstorm.foundation.markdown import markdown_table

DOCS = Path(__file__).parent
OURS = "steered landing"
BUDGETS = (10**3, 10**4, 10**5)
CONSTANT = ("SGD", "NSGDM", "NSTORM")
DRAWS = 2000
HELD_OUT = DEVELOPMENT = 8  # problems in each list

PAGE = """# If you do not want to tune

`steered_landing()` has no number to choose for a problem; it is told the length of the run. This page says how it was
judged and what came of it: what is expected of it was [registered](untuned_registered.md) before any of the held-out
problems was run. Made by `docs/generate_untuned.py` from what `docs/run_untuned.py` kept in `docs/untuned/`.

## What it does

x ← x − (1 − k/K) ℓ u, u the stochastic gradient by its usual size, cut where it is much larger, and ℓ a length
between r/(n + 1) and r/√(n + 1): r is the largest distance from x⁰ so far and n counts, twice each, the steps whose
gradient turned against the mean of those before. Between these limits ℓ grows while gradients agree and shrinks while
they do not. `Steered` has the equations. Reported is an average of the iterates.

## The registered sentences

{sentences}

{figures}
## Held-out problems

‖∇f‖ untuned over that of the best tuned rival, which is named; 95 % intervals over seeds. Rivals had 22 settings,
clipped SGD 44, chosen on the very seeds that are reported.

{held}

## Development problems

Everything was chosen on these, on prototypes of them: they say how well it was fitted, not how well it does. Of {all}
problems {finished} were finished; this table and the next are of those.

{development}

## What each part is for

The same ratio on the development problems, as geometric mean and worst case, with each part left out.

{ablation}

## Limits

- Nothing is proved about it. It is what worked on these problems.
- It is told K. `steered()` is not: the line "without the decay" above is its price.
- f times a constant changes nothing; x times a constant does, through the first length, a tenth of 1 + ‖x⁰‖.
- No step is longer than r, so that a run cannot leave at once, but r may double at every step while gradients agree.
- One length serves all coordinates: where they differ much in scale, Adam's do not.
- It keeps x⁰ and a mean of directions beside x, and the average: three vectors.
"""

FIGURES = """![ratio to the best tuned rival, problem by problem](untuned/ratios.svg)

![performance profile](untuned/profile.svg)
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
        sentences=sentences(held),
        figures=FIGURES if held else "",
        held=table(held) if held else "None was finished.",
        all=DEVELOPMENT,
        finished=len({each.problem for each in development}),
        development=table(development),
        ablation=ablation(development),
    )


def sentences(held: list[Case]) -> str:
    """The registered sentences, each with its verdict and the number that decides it."""
    at = {budget: [each for each in held if each.budget == budget] for budget in BUDGETS}
    small, middle, large = BUDGETS

    def of_means(words: str, limit: float, of: str, *budgets: int) -> tuple[str, str, str]:
        means = [_geometric([_value(each, of) for each in at[budget]]) for budget in budgets]
        whole = all(len(at[budget]) == HELD_OUT for budget in budgets)
        verdict = ("true" if max(means) <= limit else "**false**") if whole else "undecided"
        return words, ", ".join(_shown(mean) for mean in means), verdict

    def of_each(words: str, limit: float, of: str, *budgets: int) -> tuple[str, str, str]:
        """One that is too large decides, whatever is missing."""
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
    counts = ", ".join(f"{len(at[budget])} of {HELD_OUT} at {budget:,}" for budget in BUDGETS)
    shown = markdown_table(("", "registered", "found", "verdict"), numbered)
    return f"{shown}\n\nHeld-out problems that were finished: {counts} gradients."


def table(cases: list[Case]) -> str:
    """The ratio of every problem at every budget, with its interval and the best rival."""
    problems = list(dict.fromkeys(each.problem for each in cases))
    budgets = sorted({each.budget for each in cases})
    found = {(each.problem, each.budget): each for each in cases}
    rows = [(problem, *(_cell(found.get((problem, budget))) for budget in budgets)) for problem in problems]
    means = [_geometric(each.ratio() for each in cases if each.budget == budget) for budget in budgets]
    rows.append(("geometric mean", *(f"{mean:.3f}" for mean in means)))
    return markdown_table(("problem", *(f"{budget:,}" for budget in budgets)), rows)


def ablation(cases: list[Case]) -> str:
    """Geometric mean and worst ratio of our method with each part left out."""
    budgets = sorted({each.budget for each in cases})
    variants = cases[0].found["ours"]
    rows = []
    for variant in variants:
        cells = []
        for budget in budgets:
            ratios = [each.ratio(variant) for each in cases if each.budget == budget]
            cells += [f"{_geometric(ratios):.2f}", f"{max(ratios):.3g}"]
        rows.append((variant, *cells))
    heads = [head for budget in budgets for head in (f"mean, {budget:,}", f"worst, {budget:,}")]
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


def _cell(case: Case | None) -> str:
    if case is None:
        return "missing"
    low, high = case.interval
    return f"{case.ratio():.2f} ({low:.2f}–{high:.2f}), {case.winner}"


def _order(case: Case) -> tuple[str, int]:
    return case.problem, case.budget


def _mean(values: list[float | None]) -> float:
    return float(np.inf) if None in values else float(np.mean(np.array(values, float)))


if __name__ == "__main__":
    main()
