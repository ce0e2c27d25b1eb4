"""A diagnosis to look at: the figure, and one page that needs nothing beside it."""

from __future__ import annotations

import html
import io
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gladstorm.diagnosis import Probes, Report
from gladstorm.diagnosis.growth import curve
from gladstorm.diagnosis.probes import DIRECTIONS
from gladstorm.diagnosis.resampling import Strata
from gladstorm.plotting.styles import COLOURS

STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222 }
td, th { text-align: left; padding: 0.15em 1em 0.15em 0; vertical-align: top } svg { width: 100%; height: auto }
td:nth-child(-n+3), th { white-space: nowrap }"""
SYMBOLS = {"gamma": "γ", "eta": "η", "n_init": "N_init"}
LABELS = {
    "start": "at the start",
    "along": "towards the checkpoint",
    "against": "away from it",
    "random": "random directions",
    "path": "along the training run",
}


def diagnosis_figure(report: Report) -> Figure:
    """Noise against distance with its fit; gradient norm; smoothness of a sample and of the mean."""
    probes = report.probes
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    noise, gradient, smooth = figure.subplots(1, 3)
    for colour, direction in zip(COLOURS, DIRECTIONS, strict=False):
        chosen = probes.direction == direction
        if not chosen.any():
            continue
        noise.plot(
            probes.distance[chosen], probes.noise[chosen], ".", color=colour, markersize=4, label=LABELS[direction]
        )
        at, mean = _means(probes, probes.gradient2, chosen)
        gradient.plot(at, np.sqrt(np.maximum(mean, 0)), "o-", color=colour, markersize=3, linewidth=0.8)
    _draw_fit(noise, report)
    pairs = np.isfinite(probes.ell2) & np.isfinite(probes.L2)
    for colour, name, values in ((COLOURS[0], "one sample, ℓ", probes.ell2), (COLOURS[1], "their mean, L", probes.L2)):
        if pairs.any():
            at, mean = _means(probes, values, pairs)
            smooth.plot(at, np.sqrt(np.maximum(mean, 0)), "o-", color=colour, markersize=3, linewidth=0.8, label=name)
    noise.set(ylabel="variance of one sample's gradient", xlabel="distance from the start")
    gradient.set(ylabel="‖∇f‖, root of means of ‖∇f‖²", xlabel="distance from the start", ylim=(0, None))
    smooth.set(ylabel="smoothness, by distance", xlabel="distance from the start", ylim=(0, None))
    for ax in (noise, gradient, smooth):
        ax.tick_params(which="both", labelsize=7)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=7, frameon=False)
    return figure


def _draw_fit(ax: Axes, report: Report) -> None:
    grid = np.linspace(0, report.probes.radius, 50)
    fitted = np.array(curve(report.probes, grid, np.random.default_rng(0)))
    if fitted.size:
        estimate, low, high = np.maximum(fitted, 0.0).T
        ax.plot(grid, estimate, color="black", linewidth=1, label="G² + B² r²")
        ax.fill_between(grid, low, high, color="black", alpha=0.12, linewidth=0)
        if report.probes.noise.min() > 0 and report.probes.noise.max() > 30 * report.probes.noise.min():
            ax.set_yscale("log")


def _means(probes: Probes, values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Two rows: means of the distances and of the values, over strata of the chosen probes."""
    strata = Strata(probes.distance[chosen])
    return np.asarray(np.stack([probes.distance, values])[:, chosen] @ strata.indicator / strata.sizes)


def diagnosis_page(report: Report, title: str, **asked: Any) -> str:
    """One self-contained page: the verdicts, what to do and why, and the figure."""
    drawn = io.StringIO()
    diagnosis_figure(report).savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue().partition("<svg")
    numbers = {name: value for name, value in report.recommend(**asked).as_dict().items() if name != "why"}
    listed = ", ".join(f"{SYMBOLS.get(name, name)} {value}" for name, value in numbers.items() if value is not None)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{html.escape(title)}</h1>
{report._repr_html_()}
<p>{html.escape(listed)}</p>
{svg[1]}{svg[2]}
</body></html>
"""
