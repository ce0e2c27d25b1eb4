"""The training loop. Every optimizer is called in the same way; NSTORM calls the closure twice."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector
from torch.optim.lr_scheduler import LambdaLR

from gladstorm.torch import NSGDM, NSTORM, Untuned

from .setting import BATCH, CONTEXT, MOMENTUM, Arm, Transformer, held_out, loss_of, text, windows

OPTIMIZERS: dict[str, Callable[[nn.Module, float, int], torch.optim.Optimizer]] = {
    "AdamW": lambda model, lr, _: torch.optim.AdamW(model.parameters(), lr, (MOMENTUM, 0.999)),
    "SGD": lambda model, lr, _: torch.optim.SGD(model.parameters(), lr, MOMENTUM),
    "NSGDM": lambda model, lr, _: NSGDM(model.parameters(), lr, MOMENTUM),
    "NSTORM": lambda model, lr, _: NSTORM(model.parameters(), lr, MOMENTUM),
    "Untuned": lambda model, lr, steps: Untuned(model.parameters(), lr, horizon=steps),
}


class Outcome(NamedTuple):
    """What a run came to."""

    validation: float  # loss at the end, in nats
    curve: list[tuple[int, float]]  # gradients computed so far, and the loss on the test text
    last_iterate: float  # that of the last iterate, also where an average is reported
    distance: float  # ‖x − x⁰‖ at the end


def train(arm: Arm, lr: float, seed: int, evaluations: int, measurements: int) -> Outcome:
    """One run; the loss on the test text is measured so many times, evenly, the last time at the end."""
    torch.manual_seed(seed)
    model = Transformer()
    start = parameters_to_vector(model.parameters()).detach()
    steps = evaluations // arm.evaluations_per_step
    optimizer = OPTIMIZERS[arm.method](model, lr, steps)
    schedule = LambdaLR(optimizer, lambda k: 1 - k / steps if arm.schedule == "decayed" else 1)
    places = torch.Generator().manual_seed(seed)
    at_work = text().train
    evaluated = 0

    def closure_of(batch: tuple[Tensor, Tensor]) -> Callable[[], float]:
        def closure() -> float:
            nonlocal evaluated
            evaluated += 1
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            return loss.item()

        return closure

    curve = []
    for k in range(steps):
        starts = torch.randint(len(at_work) - CONTEXT, (BATCH,), generator=places)
        optimizer.step(closure_of(windows(at_work, starts)))
        schedule.step()
        if (k + 1) * measurements // steps > k * measurements // steps:
            curve.append((evaluated, reported(model, optimizer, text().test)))
    with torch.no_grad():
        last_iterate = loss_of(model, held_out(text().test)).item()
        distance = float((parameters_to_vector(model.parameters()) - start).norm())
    return Outcome(reported(model, optimizer, text().validation), curve, last_iterate, distance)


@torch.no_grad()
def reported(model: nn.Module, optimizer: torch.optim.Optimizer, characters: Tensor) -> float:
    """The loss at what the method reports: the average for one that keeps one, else the last iterate."""
    with optimizer.averaged() if isinstance(optimizer, Untuned) else nullcontext():
        return loss_of(model, held_out(characters)).item()
