"""The page of the study and its figure, from results.json. Nothing is trained here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from evidence.results import load as read_results
from gladstorm.core.markdown import markdown_table
from gladstorm.plotting import figures

from . import figure
from .findings import (
    LEVEL,
    Interval,
    Results,
    difference,
    interval,
    losses,
    ranked,
    reported,
    size_of,
    tuning,
)
from .setting import ARMS, METHODS, SCHEDULES, Arm
from .study import picked

PERCENT = f"{100 * LEVEL:g} %"
OURS = Arm("Steered", "decayed")


def render(results: Results) -> str:
    """The page."""
    s = results["settings"]
    grids = ", ".join(f"{name} {grid[0]:g} to {grid[-1]:g}" for name, grid in s["grids"].items() if len(grid) > 1)
    versions = ", ".join(f"{name} {number}" for name, number in s["versions"].items())
    return f"""# Five optimizers on text

How do the optimizers train a small transformer? AdamW, SGD, NSGDM, NSTORM and `Steered`,
[the method without tuning](../untuned/index.md), train a transformer of {s["parameters"]:,} parameters that learns the
documentation of Python, character by character. All compute the same number of gradients. The study shows how they
compare on a small model early in its training. It says nothing about large models or long runs.

![Test loss against gradients computed, and validation loss against the learning rate](figure.png)

*Smaller losses are better. Above: test loss during training, the mean over seeds {_listed(s["seeds"])} and the range
from the lowest to the highest. Below: the tuning, on seed {s["tuning_seed"]}; circles mark the learning rates that were
picked. `Steered` is not tuned. Losses above 3.2 are cut off.*

## What was run

`python -m evidence text --out docs/evidence/text` made this page; every number comes from [the results](results.json)
of its {len(results["runs"])} runs.

- **Model.** {s["layers"]} layers of width {s["width"]} with {s["heads"]} heads, a context of {s["context"]} characters,
  no dropout; the {s["characters"]} characters of ASCII.
- **Text.** Python's help topics (`pydoc_data.topics`), in their own order: {s["text"]["train"]:,} characters to
  train on, {s["text"]["validation"]:,} to tune on and {s["text"]["test"]:,} to report. Losses are means over
  {s["windows"]} windows spread evenly over the text, the same for all, in nats per character.
- **Equal budget.** A run computes {s["evaluations"]:,} gradients of mini-batches of {s["batch"]} windows, drawn anew in
  every step. NSTORM evaluates each mini-batch at two points, so it makes half as many steps and sees half as much text.
- **Equal tuning.** {s["rates"]} learning rates, √10 apart, for each method with each schedule: {grids}. The one with
  the lowest validation loss on seed {s["tuning_seed"]} is taken. {_ends(results)}
- **Schedules.** Constant, and falling linearly to 0. For `Steered` the first is its form without a horizon and the
  second the method itself; neither is tuned, and its loss is that of the average it reports.
- **Not tuned.** Momentum is {s["momentum"]:g} (AdamW: β₁; β₂ is 0.999 and the weight decay torch's 0.01).
- **Report.** Seeds {_listed(s["seeds"])}; a seed sets first weights and mini-batches. Intervals are {PERCENT},
  Student's t, and with {len(s["seeds"])} seeds they are wide.

## Results

{_table(results)}

## What we see

{_ours(results)}

{_decay(results)}

{_average(results)}

Versions: {versions}.
"""


def _ends(results: Results) -> str:
    size = size_of(results)
    at_end = []
    for arm in ARMS:
        rates = [lr for lr, _ in tuning(results, arm)]
        if rates and (lr := picked(results, arm, size)) in (rates[0], rates[-1]):
            at_end.append(f"{arm.name} ({lr:g})")
    if not at_end:
        return "No pick is at an end of its grid."
    return f"Picks at an end of the grid, where a wider one may do better: {'; '.join(at_end)}."


def _table(results: Results) -> str:
    size = size_of(results)
    rows = []
    for arm in ranked(results):
        found = losses(results, arm)
        lr = "not tuned" if arm.method == "Steered" else f"{picked(results, arm, size):g}"
        distances = [run["distance"] for run in reported(results, arm)]
        distance = "–" if None in distances else f"{np.mean(distances):.1f}"
        against = "" if arm == OURS else _signed(difference(results, OURS, arm))
        row = [arm.method, arm.schedule, lr, str(interval(found))]
        rows.append([*row, f"{min(found):.3f} to {max(found):.3f}", distance, against])
    head = ["", "step size", "learning rate", "test loss", "seeds from, to", "‖x − x⁰‖", "Steered, decayed − this"]
    return markdown_table(head, rows)


def _ours(results: Results) -> str:
    """The untuned method beside the tuned ones, by the intervals of the differences."""
    sides: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for arm in ARMS:
        if arm.method != "Steered":
            sides[difference(results, OURS, arm).sign].append(arm.name)
    best = next(arm for arm in ranked(results) if arm.method != "Steered")
    gap = difference(results, OURS, best)
    words = {1: "higher than", -1: "lower than", 0: "not clearly different from"}
    told = "; ".join(f"{words[sign]} that of {_listed(names)}" for sign, names in sides.items() if names)
    return f"""**Without tuning.** Judged by the intervals of the differences, the test loss of `Steered` with its
horizon is {told}. The best tuned method is {best.name}; the loss of `Steered` minus its loss is {_signed(gap)} nats.
A tuned method needed {results["settings"]["rates"]} runs beforehand, `Steered` none."""


def _decay(results: Results) -> str:
    parts = []
    for method in METHODS:
        gain = difference(results, *(Arm(method, schedule) for schedule in reversed(SCHEDULES)))
        parts.append(f"{method} {_signed(gain)}")
    return f"**Decay.** Test loss with the decayed minus that with the constant step size: {'; '.join(parts)}."


def _average(results: Results) -> str:
    parts = []
    for schedule in SCHEDULES:
        runs = reported(results, Arm("Steered", schedule))
        gain = interval([run["curve"][-1][1] - run["last_iterate"] for run in runs])
        parts.append(f"{_signed(gain)} ({schedule})")
    return f"**The average.** Test loss of `Steered` at its average minus that at its last iterate: {', '.join(parts)}."


def _signed(found: Interval) -> str:
    return str(found).replace("-", "−") if found.mean < 0 else f"+{found}".replace("+diverged", "diverged")


def _listed(items: Iterable[object]) -> str:
    *first, last = map(str, items)
    between = "; " if "," in last else ", "
    return f"{between.join(first)} and {last}" if first else last


def load(folder: Path) -> Results:
    """The results of the study."""
    return read_results("text", folder)


def draw(folder: Path) -> None:
    """The figure."""
    figures.save(figure.draw(load(folder)), folder / "figure.png")
