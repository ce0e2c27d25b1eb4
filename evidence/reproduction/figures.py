"""The figures of the reproduction, each of an experiment's summary and its runs."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evidence.reproduction.experiments import PAPER_SEEDS
from evidence.reproduction.results import MAIN, Results
from evidence.reproduction.summary import ExperimentSummary, MethodSummary, Spread
from gladstorm.comparison.scores import within
from gladstorm.plotting.figures import draw_band, label_panel, only_decades
from gladstorm.plotting.styles import styles
from gladstorm.simulation.record import Record

MARKS = ("o", "s", "^")
_CALLS = ("sfo", "stochastic gradients", "log")  # an axis: key, label and scale


def figure(summary: ExperimentSummary, results: Results) -> Figure:
    """The paper's layout: gradient norm against SFO calls, drift and batch size against iterations; mean ± std."""
    records = {method: results.runs(MAIN, method) for method in summary.methods}
    return _three_panels(summary, records, summary.methods, ("step", "iteration k", "linear"))


def budget(summary: ExperimentSummary, results: Results) -> Figure:
    """Draw the comparison at equal budget against SFO calls: a method with large batches makes few iterations there."""
    records = {method: results.at_budget(method) for method in summary.methods}
    return _three_panels(summary, records, summary.budget.methods, _CALLS, summary.budget.sfo)


def _three_panels(
    summary: ExperimentSummary,
    records: Mapping[str, Record],
    methods: Mapping[str, MethodSummary],
    along: tuple[str, str, str],
    sfo: int | None = None,
) -> Figure:
    """Gradient norm against SFO calls; drift and batch size along the axis given, up to a number of calls."""
    figure = Figure(figsize=(7.0, 2.9), layout="constrained")
    panels = (
        ("grad_norm", "gradient norm ‖∇f(xᵏ)‖ (smaller is better)", "log", _CALLS),
        ("drift2", "squared distance ‖xᵏ − x⁰‖²", "linear", along),
        ("batch", "batch size", "log", along),
    )
    for ax, (name, title, yscale, (key, xlabel, xscale)) in zip(figure.subplots(1, 3), panels, strict=True):
        ax.set(xscale=xscale, yscale=yscale)
        for method, record in records.items():
            end = record.steps.size if sfo is None else int(within(record, sfo)[0, :PAPER_SEEDS].min()) + 1
            x = record.steps[:end] if key == "step" else _over_seeds(record, "sfo", end)[0]
            mean, std = _over_seeds(record, name, end)
            label = f"{method} (γ = {methods[method].step_size:.3g})"
            draw_band(ax, np.asarray(x, float), mean, std, label, styles(summary.methods)[method], opacity=0.18)
        label_panel(ax, title, xlabel)
        ax.margins(x=0.02)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=7, frameon=False)
    _provenance(figure, summary)
    return figure


def _over_seeds(record: Record, name: str, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of a curve over the paper's seeds; not a number where one is not finite."""
    values = getattr(record, name)[0, :PAPER_SEEDS, :end].astype(float)
    with np.errstate(invalid="ignore", over="ignore"):
        mean, std = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else np.full(end, np.nan)
    return np.where(np.isfinite(mean), mean, np.nan), np.where(np.isfinite(std), std, np.nan)


def sensitivity(summary: ExperimentSummary) -> Figure:
    """‖∇f‖ over the last tenth of the run against the step size: the tuned methods' grids and multiples of γ0."""
    figure = Figure(figsize=(7.0, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    looks = styles(summary.methods)
    for (method, tuned), mark in zip(summary.tuning.items(), cycle(MARKS), strict=False):
        label = f"{method} (best: γ = {tuned.best:.3g})"
        norms = {tried.step_size: tried.last10_grad_norm for tried in tuned.grid}
        _points(left, norms, label, mark, looks[method])
        left.plot([tuned.best], [norms[tuned.best].mean], "*", color=looks[method]["color"], markersize=9)
    for (method, rows), mark in zip(summary.sensitivity.items(), cycle(MARKS), strict=False):
        schedule = summary.schedule[method]
        label = f"{method} (γ0 = {schedule.gamma0:.3g}, γ = {schedule.gamma:.3g})"
        norms = {scaled.gamma0 / schedule.gamma0: scaled.last10_grad_norm for scaled in rows}
        _points(right, norms, label, mark, looks[method])
    right.axvline(1, color="#888888", linewidth=0.8, linestyle=":")
    left.set_xlabel("step size γ (★: best), on the tuning seeds", fontsize=7)
    right.set_xlabel("γ0 divided by the paper's (dotted line: the paper's)", fontsize=7)
    left.set_ylabel("‖∇f‖, mean of the last tenth (smaller is better)", fontsize=7)
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        only_decades(ax)
        ax.legend(fontsize=6.5, frameon=False)
    _provenance(figure, summary)
    return figure


def _points(ax: Axes, norms: Mapping[float, Spread], label: str, mark: str, style: Mapping[str, Any]) -> None:
    shown = [(x, norm.mean, norm.std) for x, norm in norms.items() if norm.mean is not None]
    x, mean, std = (np.array(column, float) for column in zip(*shown, strict=True))
    low = np.minimum(std, 0.9 * mean)  # a log axis has no 0
    ax.errorbar(x, mean, yerr=[low, std], label=label, marker=mark, markersize=3, linewidth=1, capsize=2, **style)


def _provenance(figure: Figure, summary: ExperimentSummary) -> None:
    config, seeds = summary.config, summary.config.seeds.paper
    numbers = f"B = {config.B:g}, G = {config.G:g}, σ² = {config.sigma2:g}, T = {config.horizon:,}"
    made_by = f"gladstorm {config.versions['gladstorm']}, code {config.code}"
    text = f"{summary.title}: {numbers}, seeds {seeds[0]}–{seeds[-1]}, mean ± std.  {made_by}."
    figure.supxlabel(text, fontsize=5.5, color="#555555")
