"""Numbers to figures. The only module that imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gladstorm.record import write_whole

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError as missing:
    raise ValueError("figures: matplotlib must be installed; pip install 'gladstorm[report]'.") from missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gladstorm.theory import Plan

FORMATS = (".png", ".pdf", ".svg")
# Okabe and Ito's palette: told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def bounds(plans: Sequence[Plan], crossing: int | None = None) -> Figure:
    """Bound against T, log-log: one panel per plan with its terms, and with two plans a last one with both bounds."""
    panels = len(plans) + (len(plans) > 1)
    figure = Figure(figsize=(5.2 * panels, 5.4), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, sharey=True)[0]
    longest = max(100 * max(plan.horizon for plan in plans), 10 * (crossing or 1))
    horizons = np.unique(np.rint(np.geomspace(1, longest, 300))).tolist()
    for ax, plan in zip(axes, plans, strict=False):
        _terms(ax, plan, horizons)
    if len(plans) > 1:
        for plan, colour in zip(plans, COLOURS, strict=False):
            values = [plan.statement.bound(int(T)) for T in horizons]
            axes[-1].loglog(horizons, values, color=colour, label=plan.statement.method.upper())
        if crossing is not None and crossing > 1:
            axes[-1].axvline(crossing, color="#555555", linestyle=":", label=f"crossing, T = {crossing:.3g}")
        axes[-1].set(title="both bounds", xlabel="T, iterates")
        _legend(axes[-1])
    axes[0].set_ylabel("bound on E‖∇f(x̂)‖")
    return figure


def _terms(ax: Axes, plan: Plan, horizons: list[float]) -> None:
    statement = plan.statement
    values = np.array([[term.value for term in statement.terms(int(T))] for T in horizons])
    total = values.sum(axis=1)
    order = np.argsort(-values[np.searchsorted(horizons, plan.horizon)])
    ax.loglog(horizons, total, color="black", linewidth=2.2, label="bound")
    for rank, index in enumerate(order):
        style = {"color": COLOURS[rank % len(COLOURS)], "linestyle": DASHES[rank % len(DASHES)]}
        ax.loglog(horizons, values[:, index], linewidth=1, label=statement.terms(1)[index].name, **style)
    ax.plot([plan.horizon], [statement.bound(plan.horizon)], "o", color="black", label=f"T = {plan.horizon:,}")
    ax.set_ylim(total.min() / 1e3, total.max() * 2)
    ax.set(
        title=f"{statement.method.upper()}, α = {statement.problem.alpha:g}, {statement.noise}", xlabel="T, iterates"
    )
    _legend(ax)


def _legend(ax: Axes) -> None:
    # Below the axes: with up to fifteen lines there is no empty corner inside.
    ax.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, in the format of its suffix."""
    if path.suffix.lower() not in FORMATS or not path.parent.is_dir():
        raise ValueError(
            f"figure: the file must end in {', '.join(FORMATS)}, in a folder that exists; got {str(path)!r}."
        )
    write_whole(path, lambda temporary: figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=200))
