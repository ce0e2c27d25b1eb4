"""A diagnosis to look at: what its charts show, as a figure and as a page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gladstorm.core.statistics import finite, significant
from gladstorm.diagnosis import Probes, Report
from gladstorm.diagnosis.growth import curve
from gladstorm.diagnosis.probes import DIRECTIONS
from gladstorm.diagnosis.report import HEADINGS
from gladstorm.diagnosis.resampling import Strata

if TYPE_CHECKING:
    from gladstorm.plotting.figures import Figure

LABELS = {
    "start": "at the start",
    "along": "towards the checkpoint",
    "against": "away from it",
    "random": "random directions",
    "path": "along the training run",
}
FIT, SAMPLE, MEAN = "G² + B² r²", "one sample, ℓ", "their mean, L"
CURVED = 30.0  # a ratio of noises from which on their axis is logarithmic


class Series(NamedTuple):
    """Data that is drawn in one colour: rows x, y, low, high; as dots, as a line, or as both."""

    rows: np.ndarray
    dots: bool
    line: bool


class Chart(NamedTuple):
    """A chart against the distance from the start."""

    title: str
    series: Mapping[str, Series]
    log: bool = False


def charts(report: Report) -> dict[str, Chart]:
    """Noise with its fit, gradient norm, smoothness of a sample and of the mean; each by distance."""
    probes = report.probes
    noise: dict[str, Series] = {}
    gradient: dict[str, Series] = {}
    for direction in DIRECTIONS:
        chosen = probes.direction == direction
        if chosen.any():
            dots = np.stack([probes.distance, probes.noise], axis=1)[chosen]
            noise[LABELS[direction]] = Series(dots[np.argsort(dots[:, 0])], dots=True, line=False)
            gradient[LABELS[direction]] = Series(_roots(probes, probes.gradient2, chosen), dots=True, line=True)
    grid = np.linspace(0, probes.radius, 50)
    if len(fitted := curve(probes, grid, np.random.default_rng(0))):
        noise[FIT] = Series(np.column_stack([grid, np.maximum(fitted, 0.0)]), dots=False, line=True)
    pairs = np.isfinite(probes.ell2) & np.isfinite(probes.L2)
    squares = {SAMPLE: probes.ell2, MEAN: probes.L2} if pairs.any() else {}
    smooth = {name: Series(_roots(probes, each, pairs), dots=True, line=True) for name, each in squares.items()}
    spread = bool(probes.noise.min() > 0 and probes.noise.max() > CURVED * probes.noise.min())
    return {
        "noise": Chart("variance of one sample's gradient", noise, log=spread),
        "gradient": Chart("‖∇f‖, root of means of ‖∇f‖²", gradient),
        "smooth": Chart("smoothness, by distance", smooth),
    }


def _roots(probes: Probes, squares: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Mean distances and roots of mean squares, over strata of the chosen probes."""
    strata = Strata(probes.distance[chosen])
    at, mean = np.stack([probes.distance, squares])[:, chosen] @ strata.indicator / strata.sizes
    return np.stack([at, np.sqrt(np.maximum(mean, 0))], axis=1)


def diagnosis_figure(report: Report) -> Figure:
    """Noise against distance with its fit; gradient norm; smoothness of a sample and of the mean."""
    from gladstorm.plotting.figures import Figure
    from gladstorm.plotting.styles import COLOURS

    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    for ax, chart in zip(figure.subplots(1, 3), charts(report).values(), strict=True):
        for colour, (name, series) in zip(COLOURS, chart.series.items(), strict=False):
            ink, dots = "black" if name == FIT else colour, "o" if series.line else "."
            form = {"marker": dots if series.dots else "", "linestyle": "-" if series.line else "", "markersize": 3.5}
            ax.plot(*series.rows.T[:2], color=ink, linewidth=0.9, label=name, **form)
            if name == FIT:
                ax.fill_between(series.rows[:, 0], *series.rows.T[2:], color=ink, alpha=0.12, linewidth=0)
        ax.set(ylabel=chart.title, xlabel="distance from the start")
        ax.set_yscale("log") if chart.log else ax.set_ylim(0, None)
        ax.tick_params(which="both", labelsize=7)
        if chart.series:
            ax.legend(fontsize=7, frameon=False)
    return figure


def diagnosis_page(report: Report, title: str, **questions: Any) -> str:
    """One self-contained page: the verdicts, what to do and why, and the charts."""
    from gladstorm.plotting.explore import blank, page

    shown = {key: chart for key, chart in charts(report).items() if chart.series}
    names = list(dict.fromkeys(name for chart in shown.values() for name in chart.series))
    content = blank(title, names)
    for key, chart in shown.items():
        drawn = [
            {"method": names.index(name), "rows": _short(rows), "wide": 1.8 * line, "dot": 30 * dots}
            for name, (rows, dots, line) in chart.series.items()
        ]
        form = {"id": key, "title": chart.title, "across": "distance from the start", "logs": {"y": chart.log}}
        content["charts"].append({**form, "points": True, "series": drawn})
    content["tables"] = [{"title": "Findings", "open": True, "rows": list(map(list, [HEADINGS, *report.rows]))}]
    content["sentences"] = [*report.sentences(), *report.recommend(**questions).text.splitlines()]
    content["about"] = f"{len(report.probes)} probes up to {report.probes.radius:.3g} from the start."
    return page(content)


def _short(rows: np.ndarray) -> list[list[float | None]]:
    return [[finite(significant(value, 4)) for value in row] for row in rows]
