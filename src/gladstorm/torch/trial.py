"""A short training with NSGDM, to see whether it trains at all at a learning rate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis.design import HELD, usable_batches
from gladstorm.torch.batch_gradients import LossOf
from gladstorm.torch.nsgdm import NSGDM
from gladstorm.torch.random_state import save_random_state


def trial(
    loss_of: LossOf, model: torch.nn.Module, loader: Iterable[Any], steps: int = 100
) -> Callable[[float], tuple[float, float]]:
    """Make a short training with NSGDM into a function of its learning rate, to be given to `report.recommend`.

    Called with a learning rate, it trains a copy of the model and returns the mean loss over the first eight
    mini-batches before and after. The model and global random states stay as they are.

    Args:
        loss_of: The mean loss over the samples of a mini-batch, `loss_of(model, batch)`.
        model: The model, with the parameters to begin with.
        loader: Mini-batches; gone through again if they end before the steps.
        steps: How many steps to make.

    >>> data = torch.randn(50, 16, 3, generator=torch.Generator().manual_seed(0))
    >>> before, after = trial(lambda model, x: model(x).square().mean(), torch.nn.Linear(3, 1), data)(0.01)
    >>> after < before
    True
    """
    steps = COUNT.whole("trial", "steps", steps)

    def train(lr: float) -> tuple[float, float]:
        restore = save_random_state([model], {p.device for p in model.parameters()})
        try:
            trained = copy.deepcopy(model)
            batches = list(usable_batches(loader, steps, lambda _: True, "samples", "trial"))

            def loss() -> float:
                with torch.no_grad():
                    losses = [loss_of(trained, batch) for batch in batches[:HELD]]
                return float(torch.stack(losses).mean())

            before, optimizer = loss(), NSGDM((p for p in trained.parameters() if p.requires_grad), lr=lr)
            for batch in batches:
                optimizer.zero_grad()
                loss_of(trained, batch).backward()
                optimizer.step()
            return before, loss()
        finally:
            restore()

    return train
