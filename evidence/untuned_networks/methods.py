"""The optimizers: four that are tuned, each with as many settings as in the study of norms, and seven that are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

from torch import nn

from evidence.networks.methods import (
    DECAYS,
    LENGTHS,
    MUON_RATES,
    RADII,
    RATES,
    Contestant,
    Maker,
    Optimizers,
    RateAndDecay,
    muon_and_adamw,
    stays,
)
from evidence.networks.methods import (
    OPTIMIZERS as TUNED,
)
from gladstorm.core.equations import LAYER_LENGTH, SIGN_SCALE
from gladstorm.torch import NSGDM, Untuned, by_layer

SCHEDULE_FREE_RATE = 2.5e-3  # the default of its authors
ADAM_RATE = 1e-3  # the default of torch
DECAY = 0.1  # of `Untuned` by layer when it was registered; without is "one length"
HEAD_SCALE = 10.0  # of Scion's output layer, over its inputs


def scion(model: nn.Module, chosen: RateAndDecay, _: int) -> Optimizers:
    """Spectral steps for hidden weights and signs for all else, the output layer's at 10 over its inputs."""
    head, weight = [(name, p) for name, p in model.named_parameters() if p.ndim > 1][-1]
    rules = {head: {"norm": "sign", "scale": HEAD_SCALE / weight[0].numel()}}
    return [NSGDM(by_layer(model, rules), lr=chosen.rate)]


def muon_at_one_rate(model: nn.Module, chosen: RateAndDecay, _: int) -> Optimizers:
    """torch's Muon in its own scale for hidden weights, AdamW at a quarter of its rate for the rest, no decay."""
    muon = muon_and_adamw(model, RateAndDecay(SIGN_SCALE * chosen.rate), 1)
    for optimizer in muon[1:]:
        for group in optimizer.param_groups:
            group |= {"lr": chosen.rate, "initial_lr": chosen.rate, "adjust_lr_fn": "original"}
    return muon


def cosine(done: float) -> float:
    """A rate that falls to 0 along half a cosine."""
    return (1 + math.cos(math.pi * done)) / 2


OPTIMIZERS: dict[str, Maker] = {
    **{name: TUNED[name] for name in ("AdamW", "Muon", "Schedule-Free", "Prodigy", "Untuned")},
    "by layer": lambda model, chosen, _: [NSGDM(by_layer(model), lr=chosen.rate, weight_decay=chosen.decay)],
    "Scion": scion,
    "AdamW, cosine": TUNED["AdamW"],
    "Muon, one rate": muon_at_one_rate,
    "Untuned by layer": lambda model, _, steps: [Untuned(by_layer(model), horizon=steps, weight_decay=DECAY)],
}
SHARES: dict[str, Callable[[float], float]] = {
    "AdamW, cosine": cosine,
    **dict.fromkeys(("Schedule-Free", "Untuned", "Untuned by layer"), stays),
}
CONTESTANTS = {
    "AdamW": Contestant("AdamW", [RateAndDecay(*each) for each in product(RATES, DECAYS)]),
    "Muon": Contestant("Muon", [RateAndDecay(*each) for each in product(MUON_RATES, DECAYS)]),
    "Scion": Contestant("Scion", [RateAndDecay(each) for each in LENGTHS]),
    "NSGDM by layer": Contestant("by layer", [RateAndDecay(*each) for each in product(LENGTHS, RADII)]),
    "Untuned by layer": Contestant("Untuned by layer", [RateAndDecay(1.0)]),
    "one length": Contestant("by layer", [RateAndDecay(LAYER_LENGTH)]),
    "Muon, one rate": Contestant("Muon, one rate", [RateAndDecay(LAYER_LENGTH)]),
    "Schedule-Free": Contestant("Schedule-Free", [RateAndDecay(SCHEDULE_FREE_RATE)]),
    "Prodigy": Contestant("Prodigy", [RateAndDecay(1.0, 0.01)]),
    "AdamW, cosine": Contestant("AdamW, cosine", [RateAndDecay(ADAM_RATE, 0.01)]),
    "Untuned": Contestant("Untuned", [RateAndDecay(1.0)]),
}
