"""The page of the study and its figure, from results.json. Nothing is trained here."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evidence.page import markdown_table, read
from gladstorm.plotting import figures
from gladstorm.plotting.styles import LOOKS

from .findings import NEAR, Finding, Results, found

METHODS = ("NSGDM", "NSTORM", "SGD", "Adam", "ClippedAdam")


def render(results: Results) -> str:
    """The page."""
    s = results["settings"]
    bests = ", ".join(f"{best:.2f} for {guide}".replace("-", "−") for guide, best in results["best"].items())
    starts = [gap for row in results["start"].values() for gap in row]
    versions = ", ".join(f"{name} {number}" for name, number in s["versions"].items())
    return f"""# Five optimizers on a posterior

How wide is the range of learning rates that work? We fitted the posterior of a logistic regression on scikit-learn's
breast cancer data (569 patients, 30 standardized features and a constant, a standard normal prior) with numpyro's
`AutoNormal` and `AutoMultivariateNormal` guides. The noise of the gradient comes from drawing the weights and grows
with the guide's scale; no noise is added. `python -m evidence posterior --out docs/evidence/posterior` makes this page
in about a minute on two cores; every number comes from [the results](results.json). Runs whose learning rate is far too
large are chaotic: on another processor they end elsewhere, and a count below may change by one.

- **Equal budget.** A run may compute {s["gradients"]} gradients, each of all the data with one draw from the guide. A
  step of NSTORM takes two, so it makes half as many steps.
- **Not tuned**, but swept: {len(s["rates"])} learning rates from {s["rates"][0]:g} to {s["rates"][-1]:g}, constant and
  with a linear decay to 0; {s["seeds"]} seeds, each with its own start. Everything else is the default of its package.
- **Measured**: how many nats the last ELBO (the lower bound on the log evidence that SVI maximizes) is below the best
  ELBO of its guide family, which is {bests}. Both are exact up
  to rounding: for this model the ELBO is one integral over a normal number for each patient, and it is concave. Runs
  start {min(starts):.0f} to {max(starts):.0f} nats below the best.
- A learning rate **arrives** if every seed ends within {NEAR:g} nat, and a run **diverges** if it ends further away
  than it started.

![Gap to the best ELBO against the learning rate](figure.png)

*Median over the seeds; smaller is better. Circles mark each optimizer's best learning rate. The grey line is
{NEAR:g} nat, below which a learning rate "arrives". Runs that diverge are drawn at the upper edge.*

{_table(results)}

## What we see

{_seen(results)}

This is one model, one data set, {s["seeds"]} seeds and one momentum. Ranges may differ elsewhere, and a factor of two
between two gaps means nothing here.

Versions: {versions}.
"""


def _places(results: Results) -> list[tuple[str, str, str]]:
    guides, optimizers = results["gaps"], next(iter(results["gaps"].values()))
    return list(product(guides, next(iter(optimizers.values())), optimizers))


def _findings(results: Results) -> dict[tuple[str, str, str], Finding]:
    return {
        (guide, schedule, name): found(results, guide, name, schedule) for guide, schedule, name in _places(results)
    }


def _table(results: Results) -> str:
    head = [
        "guide",
        "learning rate",
        "optimizer",
        "arrives at",
        f"of {len(results['settings']['rates'])}",
        "smallest median gap, nats",
        "at",
        "diverged",
    ]
    runs = results["settings"]["seeds"] * len(results["settings"]["rates"])
    rows = []
    for (guide, schedule, name), finding in _findings(results).items():
        gap, rate = finding.best
        arrived = f"{len(finding.arrived)}"
        total = f"{sum(finding.diverged)} of {runs}"
        rows.append([guide, schedule, name, finding.span, arrived, f"{gap:.2f}", f"{rate:g}", total])
    return markdown_table(head, rows)


def _seen(results: Results) -> str:
    findings = _findings(results)
    lines = []
    for guide, schedule in dict.fromkeys((guide, schedule) for guide, schedule, _ in findings):
        here = {name: each for (g, s, name), each in findings.items() if (g, s) == (guide, schedule)}
        counts = {name: len(each.arrived) for name, each in here.items()}
        order = ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
        lost = {
            name: next(rate for rate, number in zip(each.rates, each.diverged, strict=True) if number)
            for name, each in here.items()
            if any(each.diverged)
        }
        diverged = ", ".join(f"{name} from {rate:g} on" for name, rate in lost.items()) or "none"
        lines.append(
            f"- **{guide}, {schedule}.** Learning rates that arrive: {order}. First that diverges: {diverged}."
        )
    better = sum(
        findings[guide, schedule, "NSTORM"].best < findings[guide, schedule, "NSGDM"].best
        for guide, schedule in dict.fromkeys((guide, schedule) for guide, schedule, _ in findings)
    )
    lines.append(
        f"- **NSTORM against NSGDM** at equal gradients, each at its best rate: the smaller gap in {better} of "
        f"{len(lines)} settings. The second evaluation pays off only where it lowers the noise of the estimate by more "
        "than twice as many steps would."
    )
    return "\n".join(lines)


def chart(results: Results) -> Figure:
    """The gap against the learning rate, a row for each guide, a column for each schedule."""
    findings = _findings(results)
    guides = list(dict.fromkeys(guide for guide, *_ in findings))
    schedules = list(dict.fromkeys(schedule for _, schedule, _ in findings))
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    panels = figure.subplots(len(guides), len(schedules), sharex=True, sharey=True, squeeze=False)
    top = 2 * max(max(row) for row in results["start"].values())
    for (guide, schedule, name), finding in findings.items():
        ax = panels[guides.index(guide)][schedules.index(schedule)]
        colour, dash, marker = LOOKS[name]
        shown = np.minimum(finding.medians, top)
        ax.plot(finding.rates, shown, color=colour, linestyle=dash, marker=marker, markersize=5, label=name)
        ax.set(xscale="log", yscale="log", title=f"{guide}, {schedule}")
        gap, rate = finding.best
        ax.plot(rate, gap, "o", color=colour, markersize=12, markerfacecolor="none")
        ax.axhline(NEAR, color="#999999", linewidth=0.8)
        ax.grid(color="#dddddd", linewidth=0.5)
    figure.supylabel("best ELBO − last ELBO, nats (smaller is better)", fontsize="medium")
    for ax in panels[-1]:
        ax.set_xlabel("learning rate")
    handles: Any = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=5, frameon=False)
    return figure


def load(folder: Path) -> Results:
    """The results of the study."""
    return read(folder / "results.json")


def draw(folder: Path) -> None:
    """The figure."""
    figures.save(chart(load(folder)), folder / "figure.png")
