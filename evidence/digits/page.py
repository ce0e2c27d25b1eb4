"""The page of the study and its figure, from results.json. Nothing is trained here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from evidence.results import load as read_results
from gladstorm.core.markdown import markdown_table
from gladstorm.plotting import figures

from . import figure
from .figure import LABELS, SETTINGS, TITLES
from .findings import (
    BASELINES,
    CLOSE,
    LEVEL,
    OURS,
    PAIRS,
    PLACES,
    Difference,
    Results,
    Span,
    accuracies,
    differences,
    found_for,
    interval,
    span,
)
from .setting import FRAMEWORKS, METHODS, NETWORKS, NOISES

PERCENT = f"{100 * LEVEL:g} %"


def render(results: Results) -> str:
    """The page."""
    s = results["settings"]
    grids = ", ".join(f"{method} {grid[0]:g} to {grid[-1]:g}" for method, grid in s["grids"].items())
    versions = ", ".join(f"{name} {number}" for name, number in s["versions"].items())
    runs = len(PLACES) * len(METHODS) * (s["rates"] * len(s["tuning_seeds"]) + len(s["seeds"]))
    return f"""# Five optimizers on digits

How well do NSGDM and NSTORM train a small network, compared with SGD, SGD with clipping and Adam? We trained two
networks on scikit-learn's 1797 handwritten digits, in PyTorch and in JAX, once with ordinary gradients and once with
added noise that grows with the distance from the start (*growing noise*). {_answer(differences(results))}

The study shows whether the optimizers train real networks with dropout and BatchNorm, how they compare here, and how
much the learning rate matters. It says nothing about large networks or long runs.

![Validation accuracy against the learning rate, and test accuracy at the picked one](figure.png)

*Accuracy; higher is better. Rows 1 and 2: mean over {len(s["tuning_seeds"])} tuning seeds, on an axis stretched towards
100 %; circles mark the learning rates that were picked. Row 3: every reported seed, their mean and its {PERCENT}
interval. Each panel of row 3 has its own axis.*

{_in_short(results)}

## What we see

{_compared(differences(results))}

{_sensitivity(results)}

{_frameworks(results)}

## Every setting

<details><summary>Test accuracy and learning rates in every setting</summary>

Test accuracy in % (higher is better), the picked learning rate ("lr"), and the range of learning rates around it in
which mean validation accuracy is within {CLOSE:g} points of the best. "≤" and "≥" mean that the grid ends there.

{_table(results)}

</details>

## What was run

`python -m evidence digits --out docs/evidence/digits` makes this page in about 15 minutes of one core. Every number
comes from [the results](results.json) of its {runs:,} runs. With `--quick` it runs every method once in about a minute.

- **Networks.** *MLP* is a perceptron, 64 → 64 → 10, with BatchNorm and dropout {s["dropout"]:g}. *conv* has two 3 × 3
  convolutions of 8 and 16 channels with max pooling, and a linear layer. First weights are as torch draws them, in both
  frameworks.
- **Noise.** Growing noise ("BG") adds B ρ (x − x⁰) + G u to every mini-batch gradient, with ρ = ±1, u ~ N(0, I/d),
  B = {s["B"]:g} and G = {s["G"]:g}. Its variance is B²‖x − x⁰‖² + G², where x is all parameters together. It is written
  into the loss, as ½ B ρ ‖x − x⁰‖² + G u·x. So NSTORM's two evaluations of a mini-batch have the same ρ and u, and the
  same dropout mask.
- **Equal budget.** A run may compute {s["evaluations"]} gradients of mini-batches of {s["batch"]}, whatever the method.
  An NSTORM step evaluates its mini-batch at two points and is charged for both, so NSTORM makes half as many steps and
  sees half as many images as the others. Counted in the runs: {_counted(results)}. In PyTorch NSTORM's first call only
  forms v⁰, from one evaluation; in JAX, under `jit`, it costs two like every other. Nothing was run at equal steps.
- **Equal tuning.** Each method has {s["rates"]} learning rates, √10 apart: {grids}. Each is run on seeds
  {_listed(s["tuning_seeds"])}. The one with the best mean accuracy on {s["validation"]} validation images is picked,
  the smallest of equals. {_ends(results)}
- **Not tuned.** Momentum is {s["momentum"]:g} for all (Adam's β₁; its β₂ is 0.999), clipping is at norm {s["clip"]:g},
  and the learning rate falls linearly to 0. A run that diverges counts with the accuracy it ends with.
- **Choices, in order.** B and G were fixed before any run. Then came pilots of three learning rates per method, on seed
  100, at 600 and at 300 evaluations. Then {s["evaluations"]} evaluations were chosen for the time they take. Seed 100
  is also a tuning seed; no reported seed was in a pilot. Most of the JAX runs were made twice, because meanwhile the
  drawing of first weights moved from JAX to NumPy, so that the tests compile less. The second runs are reported.
- **Report.** Each method is trained with its picked learning rate on seeds {_listed(s["seeds"])}, on the same
  {s["train"]} images, and its accuracy on the {1797 - s["train"] - s["validation"]} test images is reported. A seed
  sets the first weights, the order of the images, dropout and noise.
- **Intervals** are {PERCENT}, Student's t over the {len(s["seeds"])} seeds. They do not include the luck of tuning, nor
  that of the split into training and test images, which for an accuracy of 97 % is another ±1.5 points, largely common
  to all methods. Where single seeds fail the intervals are rough.

Versions: {versions}.
"""


def _in_short(results: Results) -> str:
    """A row for each method: means over networks, frameworks and seeds."""
    s = results["settings"]
    rows = []
    for method in METHODS:
        accuracy, width = [], []
        for noise in NOISES:
            arms = [found_for(results, *place, method) for place in PLACES if place[-1] == noise]
            accuracy.append(str(interval(np.mean([accuracies(found) for found in arms], axis=0).tolist())))
            width.append(_from_to([span(found) for found in arms]))
        rows.append([method, *accuracy, *width])
    head = [
        *("method", "test accuracy, %, no added noise", "test accuracy, %, growing noise"),
        *("good learning rates, decades, no added noise", "good learning rates, decades, growing noise"),
    ]
    return f"""{markdown_table(head, rows)}

Accuracies are means over two networks, PyTorch and JAX, and {len(s["seeds"])} seeds, with {PERCENT} intervals over
seeds. Every run may compute {s["evaluations"]} mini-batch gradients; NSTORM computes two per step, so it makes half as
many steps. Each method was tuned over {s["rates"]} learning rates. *Good* learning rates end within {CLOSE:g} points of
the method's best. The columns show the width of their range in the narrowest and the widest of the four settings; a
wider range is easier to tune. "≥" means that the grid ends before the range does."""


def _from_to(spans: Sequence[Span]) -> str:
    """The narrowest and the widest range in decades, marked if the grid ends before it does."""
    ordered = sorted(spans, key=lambda each: (each.decades, each.open_below or each.open_above))
    return " to ".join(dict.fromkeys(_decades(each) for each in (ordered[0], ordered[-1])))


def _counted(results: Results) -> str:
    """Evaluations of a run, by framework, of NSTORM and of the others."""
    counts: dict[str, set[int]] = {}
    for (framework, *setting), method in product(PLACES, METHODS):
        who = f"{'NSTORM' if method == 'NSTORM' else 'the others'} in {LABELS[framework]}"
        counts.setdefault(who, set()).add(found_for(results, framework, *setting, method)["evaluations"])
    return ", ".join(f"{_listed(sorted(evaluations))} ({who})" for who, evaluations in counts.items())


def _ends(results: Results) -> str:
    at_end = []
    for place, method in product(PLACES, METHODS):
        found = found_for(results, *place, method)
        if found["picked"] in (found["grid"][0]["lr"], found["grid"][-1]["lr"]):
            at_end.append(f"{method} ({_place(place)}, {found['picked']:g})")
    if not at_end:
        return "No pick is at an end of its grid."
    return f"Picks at an end of the grid, where a wider grid may do better: {'; '.join(at_end)}."


def _table(results: Results) -> str:
    head = ["network", "noise", "method"]
    for framework in FRAMEWORKS:
        head += [f"{LABELS[framework]}: test", "lr", f"lr within {CLOSE:g} points"]
    rows = []
    for (network, noise), method in product(SETTINGS, METHODS):
        row = [network, TITLES[noise], method]
        for framework in FRAMEWORKS:
            found = found_for(results, framework, network, noise, method)
            row += [str(interval(accuracies(found))), f"{found['picked']:g}", str(span(found))]
        rows.append(row)
    return markdown_table(head, rows)


def _compared(found: dict[tuple[tuple[str, ...], tuple[str, str]], Difference]) -> str:
    rows = [[_place(place), *(str(found[place, pair]) for pair in PAIRS)] for place in PLACES]
    tallies = []
    for this, those in (*((ours, BASELINES) for ours in OURS), (OURS[1], OURS[:1])):
        row = [f"{this} against {_listed(those)}"]
        for noise in NOISES:
            places = [place for place in PLACES if place[-1] == noise]
            row.append(_tally([found[place, (this, that)] for place, that in product(places, those)]))
        tallies.append(row)
    return f"""**Test accuracy.** This table counts comparisons whose {PERCENT} interval excludes 0. In brackets are
those that stay after Holm's correction for all {len(found)} comparisons together, at {100 * (1 - LEVEL):.0f} %. Without
the correction {(1 - LEVEL) * len(found):.1f} would exclude 0 by chance if all methods were equal.

{markdown_table(["methods", *TITLES.values()], tallies)}

<details><summary>The {len(found)} differences in test accuracy</summary>

In points, seed by seed: mean and {PERCENT} interval. Above 0 the first method is better. Bold are those that stay after
the correction.

{markdown_table(["setting", *(f"{this} − {that}" for this, that in PAIRS)], rows)}

</details>"""


def _answer(found: Mapping[tuple[tuple[str, ...], tuple[str, str]], Difference]) -> str:
    """How often our methods end above and below the others, in one sentence."""
    parts = []
    for noise, words in zip(NOISES, ("Without added noise", "With growing noise"), strict=True):
        told = []
        for ours in OURS:
            signs = [
                found[place, (ours, that)].interval.sign
                for place, that in product(PLACES, BASELINES)
                if place[-1] == noise
            ]
            told.append(f"{ours} was better in {signs.count(1)} and worse in {signs.count(-1)}")
        parts.append(f"{words} {', and '.join(told)}")
    return f"""In each case there are {len(signs)}
comparisons with these three, each judged by its own {PERCENT} interval. {parts[0]}. {parts[1]}."""


def _tally(found: list[Difference]) -> str:
    sides = []
    for word, sign in (("above", 1), ("below", -1)):
        here = [difference for difference in found if difference.interval.sign == sign]
        sides.append(f"{word} in {len(here)} ({sum(difference.survives for difference in here)})")
    return f"{', '.join(sides)}, of {len(found)}"


def _sensitivity(results: Results) -> str:
    rows = [
        [
            method,
            *(
                " / ".join(_width(results, framework, network, noise, method) for framework in FRAMEWORKS)
                for network, noise in SETTINGS
            ),
        ]
        for method in METHODS
    ]
    head = ["method", *(f"{network}, {TITLES[noise]}" for network, noise in SETTINGS)]
    return f"""**Sensitivity to the learning rate.** The width of the range of learning rates within {CLOSE:g} points of
the method's own best, in decades, {" / ".join(LABELS.values())}; wider is easier to tune. The grid has half decades
only. "≥" means that the grid ends first.

{markdown_table(head, rows)}"""


def _width(results: Results, *arm: str) -> str:
    return _decades(span(found_for(results, *arm)))


def _decades(found: Span) -> str:
    return f"{'≥ ' * (found.open_below or found.open_above)}{found.decades:.1f}"


def _frameworks(results: Results) -> str:
    """The two frameworks draw different weights and masks, so they agree in the mean or something is wrong."""
    apart = []
    for setting in product(NETWORKS, NOISES, METHODS):
        arms = [found_for(results, framework, *setting) for framework in FRAMEWORKS]
        if arms[0]["picked"] == arms[1]["picked"]:
            a, b = (interval(accuracies(found)) for found in arms)
            apart.append(abs(a.mean - b.mean) > np.hypot(a.half_width, b.half_width))
    rows = len(SETTINGS) * len(METHODS)
    return f"""**PyTorch and JAX** picked the same learning rate in {len(apart)} of the {rows} rows. In {sum(apart)} of
these their mean test accuracies differ by more than the {PERCENT} interval of the difference; by chance it
would be one in twenty."""


def _place(place: tuple[str, ...]) -> str:
    framework, network, noise = place
    return f"{LABELS[framework]}, {network}, {TITLES[noise]}"


def _listed(items: Iterable[object]) -> str:
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


def load(folder: Path) -> Results:
    """The results of the study."""
    return read_results("digits", folder)


def draw(folder: Path) -> None:
    """The figure."""
    figures.save(figure.draw(load(folder)), folder / "figure.png")
