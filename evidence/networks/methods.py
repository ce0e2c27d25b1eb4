"""The optimizers, each with as many settings as it is tuned over, and one training with one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import update_bn

from gladstorm.torch import NIGT, NMARS, NSGDM, NSTORM, Untuned, by_layer

from .trainings import TRAININGS, NetworkTask, Rows

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


def layers(model: nn.Module) -> list[dict[str, Any]]:
    """Groups as `by_layer` made them when the first runs began: a matrix for each gate of a GRU, ¼ for all signs."""
    weights = [name for name, p in model.named_parameters() if name.startswith("gru.weight")]
    groups = by_layer(model, {name: {"stack": 3} for name in weights})
    return [group | {"scale": 0.25} if group["norm"] == "sign" else group for group in groups]


OPTIMIZERS: dict[str, Maker] = {
    "AdamW": lambda model, chosen, _: [torch.optim.AdamW(model.parameters(), chosen.rate, weight_decay=chosen.decay)],
    "Muon": muon_and_adamw,
    "by layer": lambda model, chosen, _: [NSGDM(layers(model), lr=chosen.rate, weight_decay=chosen.decay)],
    "one norm": lambda model, chosen, _: [NSGDM(model.parameters(), lr=chosen.rate)],
    "Schedule-Free": schedule_free,
    "Prodigy": prodigy,
    "Untuned": lambda model, _, steps: [Untuned(model.parameters(), horizon=steps)],
    "NSTORM by layer": lambda model, chosen, _: [NSTORM(layers(model), lr=chosen.rate, model=model)],
    "NMARS by layer": lambda model, chosen, _: [NMARS(layers(model), lr=chosen.rate)],
    "NIGT by layer": lambda model, chosen, _: [NIGT(layers(model), lr=chosen.rate)],
}
RELATIVES = ("NSTORM by layer", "NMARS by layer", "NIGT by layer")  # of NSGDM, which correct its estimate
GRADIENTS = {"NSTORM by layer": 2}  # of a mini-batch in a step, where it is not one; steps are as many times fewer
CONTESTANTS = {
    "AdamW": Contestant("AdamW", [RateAndDecay(*each) for each in product(RATES, DECAYS)]),
    "Muon": Contestant("Muon", [RateAndDecay(*each) for each in product(MUON_RATES, DECAYS)]),
    "NSGDM by layer": Contestant("by layer", [RateAndDecay(*each) for each in product(LENGTHS, RADII)]),
    "NSGDM by layer, .02": Contestant("by layer", [RateAndDecay(FIXED_LENGTH)]),
    "NSGDM, one norm": Contestant("one norm", [RateAndDecay(each) for each in EUCLIDEAN_LENGTHS]),
    "Schedule-Free": Contestant("Schedule-Free", [RateAndDecay(each) for each in RATES]),
    "Prodigy": Contestant("Prodigy", [RateAndDecay(1.0, 0.01)]),
    "Untuned": Contestant("Untuned", [RateAndDecay(1.0)]),
    "NSGDM by layer, no decay": Contestant("by layer", [RateAndDecay(each) for each in LENGTHS]),
    **{name: Contestant(name, [RateAndDecay(each) for each in LENGTHS]) for name in RELATIVES},
}
SHORTEN_THEMSELVES = ("Schedule-Free", "Untuned")  # with these the rate stays; for all others it falls linearly to 0


def train(training: str, optimizer: str, chosen: RateAndDecay, seed: int, gradients: int) -> float | None:
    """Return the held-out loss of one of the trainings after so many gradients of mini-batches."""
    share, steps = stays if optimizer in SHORTEN_THEMSELVES else falls, gradients // GRADIENTS.get(optimizer, 1)
    return course(TRAININGS[training], OPTIMIZERS[optimizer], chosen, seed, steps, share)


def stays(_: float) -> float:
    """A rate that stays."""
    return 1.0


def falls(done: float) -> float:
    """A rate that falls linearly to 0."""
    return 1 - done


def course(
    task: Callable[[], NetworkTask],
    maker: Maker,
    chosen: RateAndDecay,
    seed: int,
    steps: int,
    share: Callable[[float], float],
) -> float | None:
    """Return the held-out loss of a training after so many steps; None if it is not finite.

    The seed decides data, first weights and mini-batches, which are the same for all optimizers. `share` is what a rate
    is multiplied with when a share of the steps is done.
    """
    torch.manual_seed(seed)
    model, loss, rows, held_out, batch = task()
    optimizers = maker(model, chosen, steps)
    schedules = [LambdaLR(each, lambda k: share(k / steps)) for each in optimizers]
    places = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        at = torch.randint(len(rows[0]), (batch,), generator=places)
        evaluate = partial(evaluated, model, loss, tuple(column[at] for column in rows))
        if isinstance(optimizers[0], NSTORM):
            optimizers[0].step(evaluate)
        else:
            evaluate()
            for each in optimizers:
                each.step()
        for schedule in schedules:
            schedule.step()
    with torch.no_grad(), reported(optimizers):
        update_bn([rows[0]], model)  # at the point that is evaluated; without BatchNorm nothing
        model.eval()
        value = loss(model, held_out).item()
    return value if math.isfinite(value) else None


def evaluated(model: nn.Module, loss: Callable[[nn.Module, Rows], Tensor], rows: Rows) -> float:
    """The loss on these rows, whose gradients are the model's then."""
    model.zero_grad()
    value = loss(model, rows)
    value.backward()
    return value.item()


def reported(optimizers: Iterable[torch.optim.Optimizer]) -> AbstractContextManager[None]:
    """Inside, parameters are what the method reports: the average where it keeps one, else the last iterate."""
    (optimizer, *_) = optimizers
    if isinstance(optimizer, Untuned):
        return optimizer.averaged()
    if isinstance(optimizer, NIGT):  # whose gradients are taken ahead of it
        return optimizer.at_iterate()
    if hasattr(optimizer, "eval"):  # Schedule-Free, for which this is the end
        optimizer.eval()
    return nullcontext()
