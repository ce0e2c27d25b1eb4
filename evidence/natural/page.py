"""The page about noise along a run, and its figure, from noise.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evidence.page import read, rendered
from gladstorm.plotting import figures
from gladstorm.plotting.styles import COLOURS


def load(folder: Path) -> dict[str, Any]:
    """Read noise.json."""
    return read(folder / "noise.json")


def draw(folder: Path) -> None:
    """The noise from two points of view."""
    views = noise_views(load(folder), "SGD on streaming least squares, d = 20")
    figures.save(views, folder / "noise-along-a-run.png")


def render(path: dict[str, Any]) -> str:
    """Return the page, in Markdown."""
    return rendered(__file__, path)


def noise_views(path: Mapping[str, Any], title: str = "") -> Figure:
    """Measured variance against the distance from x⁰ and against that from the anchor, with what BG-0 allows.

    From the anchor the noise grows with distance. From x⁰ it may fall: the run moves towards the anchor, and constants
    around x⁰ are true without describing it.
    """
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    views = {
        "distance from the start x⁰": (path["from_start"], path["allowed_from_start"]),
        f"distance from {path['anchor']}": (path["from_anchor"], path["allowed_from_anchor"]),
    }
    for ax, (label, (distance, allowed)) in zip(figure.subplots(1, 2, sharey=True), views.items(), strict=True):
        ax.plot(distance, path["variance"], "-o", color=COLOURS[0], markersize=3, linewidth=0.8, label="measured")
        ax.plot(distance, allowed, "--", color=COLOURS[1], linewidth=0.8, label="allowed by BG-0")
        at = {"xytext": (0, 5), "textcoords": "offset points", "ha": "left" if distance[0] == 0 else "right"}
        ax.annotate("start", (distance[0], path["variance"][0]), fontsize=7, **at)
        ax.set(yscale="log", xlabel=label)
        ax.legend(fontsize=7, frameon=False)
    figure.axes[0].set_ylabel("variance of one stochastic gradient")
    figure.suptitle(title, fontsize=8)
    return figure
