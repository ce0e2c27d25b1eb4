"""The optimizers, each with as many settings as it is tuned over, and one training with one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import update_bn

from gladstorm.torch import NSGDM, Untuned, by_layer

from .trainings import TRAININGS

RATES = (1e-3, 3e-3, 1e-2, 3e-2)  # of AdamW and Schedule-Free
MUON_RATES = (3e-3, 1e-2, 3e-2, 1e-1)
DECAYS = (0.01, 0.3)  # of AdamW and Muon
LENGTHS = (0.01, 0.02, 0.04, 0.08)  # of a step by layer
RADII = (0.0, 0.1)  # weight decays of it: 1/ρ, with ρ the norm that a layer cannot leave
EUCLIDEAN_LENGTHS = (0.03, 0.1, 0.3, 1.0)
FIXED_LENGTH = 0.02
WARMUP = 0.05  # share of the steps, of Schedule-Free, whose rate does not fall


class RateAndDecay(NamedTuple):
    """A setting: a learning rate or length of a step, and a weight decay."""

    rate: float
    decay: float = 0.0


Optimizers = list[torch.optim.Optimizer]
Maker = Callable[[nn.Module, RateAndDecay, int], Optimizers]


@dataclass(frozen=True)
class Contestant:
    """A row of the study: an optimizer and the settings that it may choose from."""

    optimizer: str
    settings: Sequence[RateAndDecay]


def muon_and_adamw(model: nn.Module, chosen: RateAndDecay, _: int) -> Optimizers:
    """torch's Muon for hidden matrices, AdamW for the rest at the same rate: Muon's update has the RMS of AdamW's.

    Muon takes matrices only: it is given the kernel of a convolution as the matrix (outputs, rest) in the same memory.
    """
    hidden, rest = by_kind(model)
    flat = [p if p.ndim == 2 else _as_matrix(p) for p in hidden]
    optimizers: Optimizers = [torch.optim.AdamW(rest, chosen.rate, weight_decay=chosen.decay)]
    if flat:
        optimizers.append(
            torch.optim.Muon(flat, chosen.rate, weight_decay=chosen.decay, adjust_lr_fn="match_rms_adamw")
        )
    return optimizers


def by_kind(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the weights of hidden linear, convolutional and recurrent layers, and all other parameters.

    Embeddings and the last layer, by the order of a model, are among the others.
    """
    layers = [each for each in model.modules() if isinstance(each, nn.Linear | nn.Conv2d | nn.GRU)]
    hidden = {id(p): p for layer in layers[:-1] for p in layer.parameters() if p.ndim > 1}
    return list(hidden.values()), [p for p in model.parameters() if id(p) not in hidden]


def _as_matrix(kernel: nn.Parameter) -> nn.Parameter:
    flat = nn.Parameter(kernel.detach().flatten(1))  # shares memory

    def share_gradient(p: Tensor) -> None:
        flat.grad = None if p.grad is None else p.grad.flatten(1)

    kernel.register_post_accumulate_grad_hook(share_gradient)
    return flat


def schedule_free(model: nn.Module, chosen: RateAndDecay, steps: int) -> Optimizers:
    """AdamW without a schedule, from the package of its authors."""
    from schedulefree import AdamWScheduleFree

    optimizer = AdamWScheduleFree(model.parameters(), chosen.rate, warmup_steps=round(WARMUP * steps))
    optimizer.train()
    return [optimizer]


def prodigy(model: nn.Module, chosen: RateAndDecay, _: int) -> Optimizers:
    """Adam that estimates its own rate, from the package of its authors."""
    from prodigyopt import Prodigy

    with redirect_stdout(None):  # it prints which decay it uses
        return [Prodigy(model.parameters(), chosen.rate, weight_decay=chosen.decay)]


OPTIMIZERS: dict[str, Maker] = {
    "AdamW": lambda model, chosen, _: [torch.optim.AdamW(model.parameters(), chosen.rate, weight_decay=chosen.decay)],
    "Muon": muon_and_adamw,
    "by layer": lambda model, chosen, _: [NSGDM(by_layer(model), lr=chosen.rate, weight_decay=chosen.decay)],
    "one norm": lambda model, chosen, _: [NSGDM(model.parameters(), lr=chosen.rate)],
    "Schedule-Free": schedule_free,
    "Prodigy": prodigy,
    "Untuned": lambda model, _, steps: [Untuned(model.parameters(), horizon=steps)],
}
CONTESTANTS = {
    "AdamW": Contestant("AdamW", [RateAndDecay(*each) for each in product(RATES, DECAYS)]),
    "Muon": Contestant("Muon", [RateAndDecay(*each) for each in product(MUON_RATES, DECAYS)]),
    "NSGDM by layer": Contestant("by layer", [RateAndDecay(*each) for each in product(LENGTHS, RADII)]),
    "NSGDM by layer, .02": Contestant("by layer", [RateAndDecay(FIXED_LENGTH)]),
    "NSGDM, one norm": Contestant("one norm", [RateAndDecay(each) for each in EUCLIDEAN_LENGTHS]),
    "Schedule-Free": Contestant("Schedule-Free", [RateAndDecay(each) for each in RATES]),
    "Prodigy": Contestant("Prodigy", [RateAndDecay(1.0, 0.01)]),
    "Untuned": Contestant("Untuned", [RateAndDecay(1.0)]),
}
SHORTEN_THEMSELVES = ("Schedule-Free", "Untuned")  # with these the rate stays; for all others it falls linearly to 0


def train(training: str, optimizer: str, chosen: RateAndDecay, seed: int, steps: int) -> float | None:
    """Return the held-out loss after so many steps; None if it is not finite.

    The seed decides data, first weights and mini-batches, which are the same for all optimizers.
    """
    torch.manual_seed(seed)
    model, loss, rows, held_out, batch = TRAININGS[training]()
    optimizers = OPTIMIZERS[optimizer](model, chosen, steps)
    stays = optimizer in SHORTEN_THEMSELVES
    schedules = [LambdaLR(each, lambda k: 1.0 if stays else 1 - k / steps) for each in optimizers]
    places = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        at = torch.randint(len(rows[0]), (batch,), generator=places)
        model.zero_grad()
        loss(model, tuple(column[at] for column in rows)).backward()
        for optimizing, schedule in zip(optimizers, schedules, strict=True):
            optimizing.step()
            schedule.step()
    with torch.no_grad(), reported(optimizers):
        update_bn([rows[0]], model)  # at the point that is evaluated; without BatchNorm nothing
        model.eval()
        value = loss(model, held_out).item()
    return value if math.isfinite(value) else None


def reported(optimizers: Iterable[torch.optim.Optimizer]) -> AbstractContextManager[None]:
    """Inside, parameters are what the method reports: the average where it keeps one, else the last iterate."""
    (optimizer, *_) = optimizers
    if isinstance(optimizer, Untuned):
        return optimizer.averaged()
    if hasattr(optimizer, "eval"):  # Schedule-Free, for which this is the end
        optimizer.eval()
    return nullcontext()
