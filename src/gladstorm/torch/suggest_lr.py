"""`suggest_lr`: a learning rate for NSGDM, which is a length, from a short run of the method with nothing to tune."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis.design import usable_batches
from gladstorm.torch.batch_gradients import LossOf, SampledLoss, size_of
from gladstorm.torch.norms import norm_of
from gladstorm.torch.random_state import save_random_state
from gladstorm.torch.untuned import Untuned

STEPS = 100  # of the short run
SPARE = 1.5  # a factor to either side within which the learning rate matters little


class SuggestedLR(NamedTuple):
    """A first step length for NSGDM with a linear decay to 0, and the range within which it matters little."""

    lr: float  #: 2 D T^(−3/4)
    low: float  #: two thirds of it
    high: float  #: one and a half times as much
    distance: float  #: D, how far the short run went


def suggest_lr(loss_of: LossOf, model: torch.nn.Module, loader: Iterable[Any], horizon: int) -> SuggestedLR:
    """Suggest lr = 2 D T^(−3/4) for NSGDM over T steps, with a linear decay to 0.

    The exponent is that of NSGDM's theorems. D is a distance: how far `Untuned` goes from x⁰ in 100 steps. Parameters,
    buffers, gradients and random states are afterwards what they were, to the bit.

    Args:
        loss_of: `loss_of(model, batch)` returns the mean loss over the samples of a mini-batch.
        model: The model at x⁰, in the mode you train in.
        loader: Gives mini-batches, over and over if it ends.
        horizon: T, the number of steps of the training.

    >>> data = torch.randn(64, 8, 3, generator=torch.Generator().manual_seed(0))
    >>> found = suggest_lr(lambda model, x: (model(x) - 5).square().mean(), torch.nn.Linear(3, 1), data, horizon=1000)
    >>> found.low < found.lr < found.high
    True
    """
    COUNT.require("suggest_lr", "horizon", horizon)
    params = [p for p in model.parameters() if p.requires_grad]
    if not params:
        raise ValueError("suggest_lr: some parameters of the model must require gradients; got a model with none.")
    start, gradients = [p.detach().clone() for p in params], [p.grad for p in params]
    restore = save_random_state([model], {p.device for p in params})
    measured = SampledLoss("suggest_lr", loss_of, model, params)
    optimizer = Untuned(params, horizon=STEPS)
    try:
        for batch in usable_batches(loader, STEPS, lambda batch: size_of(batch) > 0, "at least 1 sample"):
            for p, g in zip(params, measured.gradients(batch)[0], strict=True):
                p.grad = g
            optimizer.step()
        with optimizer.averaged():
            distance = norm_of([p.detach() - x for p, x in zip(params, start, strict=True)]).item()
    finally:
        with torch.no_grad():
            for p, x, before in zip(params, start, gradients, strict=True):
                p.copy_(x)
                p.grad = before
        restore()
    if not 0 < distance < math.inf:
        raise ValueError(f"suggest_lr: a short run must move the parameters; got a distance of {distance}.")
    lr = 2 * distance * horizon**-0.75
    return SuggestedLR(lr, lr / SPARE, lr * SPARE, distance)
