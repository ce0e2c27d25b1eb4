"""The runs: networks trained on equally many samples, in batches of several sizes, by three rules.

Results are one JSON file, rewritten after every run; an interrupted study goes on from it.
"""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import update_bn

from evidence.networks.trainings import TRAININGS
from evidence.results import begin, save, versions_of
from gladstorm.core.results import from_json
from gladstorm.core.statistics import significant
from gladstorm.torch import NSGDM, by_layer, scale_batch

FACTORS = (2, 4, 8, 16)
USUAL = (4, 16)  # factors at which the usual rules run too
SMALLEST = 4  # the batch of the networks study is divided by it: the batch whose course is to be kept
CHOSEN = ("character transformer", "GRU", "convolutions", "vision transformer", "autoencoder", "badly scaled table")
PACKAGES = ("gladstorm", "torch", "scikit-learn")

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), 0.03, momentum=0.9),
    "AdamW": lambda model: torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01),
    "NSGDM by layer": lambda model: NSGDM(by_layer(model), lr=0.01, momentum=0.95),
}


def multiply_rate(power: float) -> Callable[[torch.optim.Optimizer, float], None]:
    """Return a usual rule: learning rate × factor to this power, momenta as they are."""

    def rule(optimizer: torch.optim.Optimizer, factor: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] *= factor**power

    return rule


RULES: dict[str, Callable[[torch.optim.Optimizer, float], None]] = {
    "scale_batch": scale_batch,
    "square root": multiply_rate(0.5),
    "linear": multiply_rate(1.0),
}


@dataclass(frozen=True)
class BatchExtent:
    """Extent of the study: how much is run."""

    steps: int  # with the smallest batch
    seeds: tuple[int, ...]
    trainings: tuple[str, ...]


@dataclass(frozen=True)
class BatchResults:
    """Held-out loss of every run by its name, None where it is not finite."""

    settings: dict[str, Any]
    losses: dict[str, float | None]

    @property
    def extent(self) -> BatchExtent:
        """Extent of what was to be run."""
        return from_json(BatchExtent, self.settings["extent"])

    def loss(self, training: str, optimizer: str, rule: str, factor: int, seed: int) -> float:
        """The held-out loss of a run; infinite where it is not finite."""
        value = self.losses[name_of(training, optimizer, rule if factor > 1 else "", factor, seed)]
        return math.inf if value is None else value


FULL = BatchExtent(steps=1600, seeds=(0, 1), trainings=CHOSEN)
QUICK = BatchExtent(steps=32, seeds=(10_000, 10_001), trainings=CHOSEN[2:3])


def planned(extent: BatchExtent) -> Iterator[tuple[str, str, str, int, int]]:
    """Training, optimizer, rule, factor and seed of every run."""
    for seed in extent.seeds:
        for training in extent.trainings:
            for optimizer in OPTIMIZERS:
                yield training, optimizer, "", 1, seed
                for rule in RULES:
                    factors = FACTORS if rule == "scale_batch" else USUAL
                    yield from ((training, optimizer, rule, factor, seed) for factor in factors)


def name_of(training: str, optimizer: str, rule: str, factor: int, seed: int) -> str:
    """The key of a run in the results."""
    return ", ".join(filter(None, (training, optimizer, rule, f"factor {factor}, seed {seed}")))


def run(extent: BatchExtent, path: Path) -> None:
    """Add every run that the results lack, saving each; standard error has a line for each."""
    torch.set_num_threads(1)  # the networks are too small to share
    settings = {
        "extent": asdict(extent),
        "smallest": SMALLEST,
        "versions": {"Python": platform.python_version(), **versions_of(*PACKAGES)},
    }
    results = from_json(BatchResults, begin("batches", path, settings, "losses"))
    for each in planned(extent):
        name, since = name_of(*each), time.monotonic()
        if name not in results.losses:
            value = train(*each, extent.steps)
            results.losses[name] = None if value is None else significant(value, 6)
            save(path, results)
            sys.stderr.write(f"{name}: {value}, {time.monotonic() - since:.1f} s\n")


def train(training: str, optimizer_name: str, rule: str, factor: int, seed: int, steps: int) -> float | None:
    """Return the held-out loss after steps × smallest batch samples; None if it is not finite.

    The seed decides data, first weights and samples, in the same order for all batches; the rate falls linearly to 0,
    and is that of the middle of a step's samples.
    """
    torch.manual_seed(seed)
    model, loss, rows, held_out, batch = TRAININGS[training]()
    optimizer = OPTIMIZERS[optimizer_name](model)
    if factor > 1:
        RULES[rule](optimizer, factor)
    schedule = LambdaLR(optimizer, lambda k: 1 - (factor * (k + 0.5) - 0.5) / steps)
    samples = torch.randint(len(rows[0]), (steps * (batch // SMALLEST),), generator=torch.Generator().manual_seed(seed))
    for at in samples.split(factor * (batch // SMALLEST)):
        model.zero_grad()
        loss(model, tuple(column[at] for column in rows)).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        update_bn([rows[0]], model)
        model.eval()
        value = loss(model, held_out).item()
    return value if math.isfinite(value) else None
