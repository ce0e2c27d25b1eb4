"""Figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gladstorm.simulation.record import Record


def plot(record: Record) -> Figure:
    """Draw ‖∇f(x^k)‖ of a record against stochastic gradients, as `record.plot()` does.

    Args:
        record: What `run` or `sweep` returned.

    Returns:
        A matplotlib figure with a curve for each configuration, mean ± standard deviation over seeds.

    Raises:
        ValueError: If matplotlib is not installed.
    """
    from gladstorm.plotting.figures import gradient_norms  # matplotlib takes a second, and may be missing

    return gradient_norms(record)
