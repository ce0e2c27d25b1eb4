"""Learning rates, an equal budget, a loop in PyTorch, and figures, which the studies of networks share."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LambdaLR

PER_DECADE = 2


def learning_rates(largest: float, count: int, digits: int) -> list[float]:
    """Return so many learning rates, √10 apart, from small to large.

    >>> learning_rates(3.0, 3, digits=2)
    [0.3, 0.95, 3.0]
    """
    return [float(f"{10 ** (math.log10(largest) - i / PER_DECADE):.{digits}g}") for i in reversed(range(count))]


def steps_within(evaluations: int, method: str) -> int:
    """How many steps so many gradients pay for: NSTORM takes every mini-batch to two points."""
    return evaluations // (2 if method == "NSTORM" else 1)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    losses: Iterable[Callable[[], Tensor]],
    factor: Callable[[int], float],
    *,
    clip: float | None = None,
) -> Iterator[int]:
    """A step on each loss, a function of no arguments; after each, how many gradients were computed so far.

    Every optimizer is called in the same way; NSTORM calls the closure twice. `factor` is that of the learning rate.
    """
    evaluated, schedule = 0, LambdaLR(optimizer, factor)

    def closure(loss_of: Callable[[], Tensor]) -> float:
        nonlocal evaluated
        evaluated += 1
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        if clip is not None:
            clip_grad_norm_(model.parameters(), clip)
        return loss.item()

    for loss_of in losses:
        optimizer.step(partial(closure, loss_of))
        schedule.step()
        yield evaluated


def legend_with_ring(figure: Figure, ax: Axes, name: str, **options: Any) -> None:
    """The legend above a figure: the lines of a panel, and the ring around learning rates that were picked."""
    handles, labels = ax.get_legend_handles_labels()
    ring = Line2D([], [], linestyle="", marker="o", markersize=10, markerfacecolor="none", color="black")
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": len(labels) + 1, "frameon": False}
    figure.legend([*handles, ring], [*labels, name], **place, **options)


def light_grid(ax: Axes) -> None:
    """Lines behind the curves."""
    ax.grid(color="#dddddd", linewidth=0.5)
    ax.set_axisbelow(True)
