"""One training of the transformer."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from evidence.training import steps_within
from evidence.training import train as train_network
from gladstorm.torch import NSGDM, NSTORM, Untuned

from .setting import BATCH, CONTEXT, MOMENTUM, TextArm, Transformer, held_out, loss_of, text, windows

OPTIMIZERS: dict[str, Callable[[nn.Module, float, int], torch.optim.Optimizer]] = {
    "AdamW": lambda model, lr, _: torch.optim.AdamW(model.parameters(), lr, (MOMENTUM, 0.999)),
    "SGD": lambda model, lr, _: torch.optim.SGD(model.parameters(), lr, MOMENTUM),
    "NSGDM": lambda model, lr, _: NSGDM(model.parameters(), lr, MOMENTUM),
    "NSTORM": lambda model, lr, _: NSTORM(model.parameters(), lr, MOMENTUM),
    "Untuned": lambda model, lr, steps: Untuned(model.parameters(), lr, horizon=steps),
}


class TextOutcome(NamedTuple):
    """Measurements of one run."""

    validation: float  # loss at the end, in nats
    curve: list[tuple[int, float]]  # gradients computed so far, and the loss on the test text
    last_iterate: float  # that of the last iterate, also where an average is reported
    distance: float  # ‖x − x⁰‖ at the end


def train(arm: TextArm, lr: float, seed: int, evaluations: int, measurements: int) -> TextOutcome:
    """One run; the loss on the test text is measured so many times, evenly, the last time at the end."""
    torch.manual_seed(seed)
    model = Transformer()
    start = parameters_to_vector(model.parameters()).detach()
    steps = steps_within(evaluations, arm.method)
    optimizer = OPTIMIZERS[arm.method](model, lr, steps)
    places = torch.Generator().manual_seed(seed)
    at_work = text().train
    starts = (torch.randint(len(at_work) - CONTEXT, (BATCH,), generator=places) for _ in range(steps))
    losses = (partial(loss_of, model, windows(at_work, some)) for some in starts)
    decayed, curve = arm.schedule == "decayed", []
    for k, evaluated in enumerate(train_network(model, optimizer, losses, lambda k: 1 - decayed * k / steps)):
        if (k + 1) * measurements // steps > k * measurements // steps:
            curve.append((evaluated, reported(model, optimizer, text().test)))
    with torch.no_grad():
        last_iterate = loss_of(model, held_out(text().test)).item()
        distance = float((parameters_to_vector(model.parameters()) - start).norm())
    return TextOutcome(reported(model, optimizer, text().validation), curve, last_iterate, distance)


@torch.no_grad()
def reported(model: nn.Module, optimizer: torch.optim.Optimizer, characters: Tensor) -> float:
    """The loss at what the method reports: the average for one that keeps one, else the last iterate."""
    with optimizer.averaged() if isinstance(optimizer, Untuned) else nullcontext():
        return loss_of(model, held_out(characters)).item()
