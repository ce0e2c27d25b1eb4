"""The page of the study and its figure, from results.json. Nothing is trained here."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evidence.page import LEVEL, MeanInterval, listed, reader, rendered
from evidence.training import legend_with_ring, light_grid
from gladstorm.plotting import figures
from gladstorm.plotting.styles import BLACK, LOOKS, Look

from .setting import ARMS, METHODS, SCHEDULES, TextArm
from .study import TextSize, name_of, picked

Results = dict[str, Any]
PLACES = 3  # of a loss that are shown

OURS = TextArm("Untuned", "constant")  # which shortens its steps itself
STYLES = {**LOOKS, "AdamW": LOOKS["Adam"], "Untuned": Look(BLACK, "-", "P")}
load = reader("results.json")


def render(results: Results) -> str:
    """Write the page from the results."""
    s, size = results["settings"], size_of(results)
    tuned = [arm for arm in ranked(results) if arm.method != "Untuned"]
    on_test, on_validation = (
        float(np.mean(of(results, OURS)) / np.mean(of(results, tuned[0]))) for of in (losses, validation)
    )
    values = {
        "s": s,
        "percent": f"{100 * LEVEL:g} %",
        "runs": len(results["runs"]),
        "grids": {name: grid for name, grid in s["grids"].items() if len(grid) > 1},
        "ends": [
            f"{arm.name} ({picked(results, arm, size):g})"
            for arm in ARMS
            if (rates := [lr for lr, _ in tuning(results, arm)]) and picked(results, arm, size) in (rates[0], rates[-1])
        ],
        "table": [_row(results, arm) for arm in ranked(results)],
        "compared": _compared(results),
        "best": tuned[0],
        "gap": difference(results, OURS, tuned[0]),
        "on_test": on_test,
        "on_validation": on_validation,
        "decay": [
            f"{method} {difference(results, *(TextArm(method, schedule) for schedule in reversed(SCHEDULES))).signed}"
            for method in METHODS
        ],
        "average": [f"{_gain_of_average(results, schedule).signed} ({schedule})" for schedule in SCHEDULES],
    }
    return rendered(__file__, values)


def _row(results: Results, arm: TextArm) -> dict[str, Any]:
    """An arm in numbers."""
    distances = [run["distance"] for run in reported(results, arm)]
    return {
        "arm": arm,
        "lr": "not tuned" if arm.method == "Untuned" else f"{picked(results, arm, size_of(results)):g}",
        "losses": losses(results, arm),
        "interval": MeanInterval.over(losses(results, arm), PLACES),
        "distance": "–" if None in distances else f"{np.mean(distances):.1f}",
        "against": "" if arm == OURS else difference(results, OURS, arm).signed,
    }


def _compared(results: Results) -> str:
    """The untuned method beside the tuned ones, by the intervals of the differences."""
    words = {1: "higher than", -1: "lower than", 0: "not clearly different from"}
    sides: dict[int, list[str]] = {sign: [] for sign in words}
    for arm in ARMS:
        if arm.method != "Untuned":
            sides[difference(results, OURS, arm).sign].append(arm.name)
    return "; ".join(f"{words[sign]} that of {listed(names)}" for sign, names in sides.items() if names)


def _gain_of_average(results: Results, schedule: str) -> MeanInterval:
    runs = reported(results, TextArm("Untuned", schedule))
    return MeanInterval.over([run["curve"][-1][1] - run["last_iterate"] for run in runs], PLACES)


def size_of(results: Results) -> TextSize:
    """How much was run."""
    s = results["settings"]
    return TextSize(s["evaluations"], s["rates"], s["measurements"], s["tuning_seed"], tuple(s["seeds"]))


def reported(results: Results, arm: TextArm) -> list[dict[str, Any]]:
    """The runs of an arm at its learning rate, seed by seed."""
    size = size_of(results)
    lr = picked(results, arm, size)
    return [results["runs"][name_of(arm, lr, seed)] for seed in size.seeds]


def losses(results: Results, arm: TextArm) -> list[float]:
    """On the test text at the end of each run; infinite where it diverged."""
    return [_number(run["curve"][-1][1]) for run in reported(results, arm)]


def validation(results: Results, arm: TextArm) -> list[float]:
    """Losses on the validation text at the end of each run; infinite where it diverged."""
    return [_number(run["validation"]) for run in reported(results, arm)]


def curves(results: Results, arm: TextArm) -> tuple[list[int], np.ndarray]:
    """Gradients computed, and the loss on the test text, a row for each seed."""
    runs = reported(results, arm)
    return [count for count, _ in runs[0]["curve"]], np.array([[_number(v) for _, v in run["curve"]] for run in runs])


def tuning(results: Results, arm: TextArm) -> list[tuple[float, float]]:
    """Learning rates that were tried, and the validation loss of each."""
    size = size_of(results)
    names = {lr: name_of(arm, lr, size.tuning_seed) for lr in size.grid(arm.method)}
    return [(lr, _number(results["runs"][name]["validation"])) for lr, name in names.items() if name in results["runs"]]


def difference(results: Results, this: TextArm, that: TextArm) -> MeanInterval:
    """Test loss of one arm minus that of another, seed by seed."""
    return MeanInterval.over([a - b for a, b in zip(losses(results, this), losses(results, that), strict=True)], PLACES)


def ranked(results: Results) -> list[TextArm]:
    """Arms from the lowest mean test loss on."""
    return sorted(ARMS, key=lambda arm: float(np.mean(losses(results, arm))))


def _number(value: float | None) -> float:
    return float("inf") if value is None else value


def chart(results: Results) -> Figure:
    """Test loss against gradients computed, and validation loss against the learning rate; a column for a schedule."""
    figure = Figure(figsize=(10, 8), layout="constrained")
    axes = figure.subplots(2, len(SCHEDULES), sharey="row")
    for column, schedule in enumerate(SCHEDULES):
        _curves(axes[0][column], results, schedule)
        _rates(axes[1][column], results, schedule)
    axes[0][0].set_ylabel("test loss, nats per character (smaller is better)")
    axes[1][0].set_ylabel("validation loss, nats per character")
    legend_with_ring(figure, axes[0][0], "picked learning rate")
    return figure


def _curves(ax: Axes, results: Results, schedule: str) -> None:
    for method in METHODS:
        colour, dash, marker = STYLES[method]
        counts, rows = curves(results, TextArm(method, schedule))
        ax.fill_between(counts, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        ax.plot(counts, rows.mean(axis=0), color=colour, linestyle=dash, marker=marker, markersize=3.5, label=method)
    ax.set_title(f"{schedule} step size")
    ax.set_xlabel("mini-batch gradients computed")
    _finish(ax)


def _rates(ax: Axes, results: Results, schedule: str) -> None:
    for method in METHODS:
        colour, dash, marker = STYLES[method]
        tried = tuning(results, TextArm(method, schedule))
        if tried:
            ax.plot(*zip(*tried, strict=True), color=colour, linestyle=dash, marker=marker, markersize=4)
            ax.plot(*min(tried, key=lambda trial: trial[1]), "o", color=colour, markersize=11, markerfacecolor="none")
    ax.set(xscale="log", xlabel="learning rate")
    _finish(ax)


def _finish(ax: Axes) -> None:
    ax.set_ylim(top=3.2)
    light_grid(ax)


def draw(folder: Path) -> None:
    """Draw the figure of the page."""
    figures.save(chart(load(folder)), folder / "figure.png")
