"""The comparison: every method tuned on a seed of its own with the same budget, then reported on three others.

Results are one JSON file, rewritten after every run; an interrupted study goes on from it.
"""

import math
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from evidence.results import begin, save, versions_of
from evidence.training import learning_rates
from gladstorm.core.statistics import finite

from . import setting
from .setting import ARMS, METHODS, TextArm
from .training import TextOutcome, train

LARGEST_LR = {"AdamW": 3e-2, "SGD": 3.0, "NSGDM": 1.0, "NSTORM": 1.0}  # where the grids end


@dataclass(frozen=True)
class TextSize:
    """How much is run. No reported seed is the one tuned on."""

    evaluations: int  # mini-batch gradients a run may compute, whatever the method
    rates: int  # learning rates tried for each method and schedule
    measurements: int  # points of a curve
    tuning_seed: int
    seeds: tuple[int, ...]

    def grid(self, method: str) -> list[float]:
        """The learning rates tried, from small to large; `Untuned` is not tuned."""
        if method == "Untuned":
            return [1.0]
        return learning_rates(LARGEST_LR[method], self.rates, digits=2)


FULL = TextSize(evaluations=1000, rates=5, measurements=20, tuning_seed=100, seeds=(0, 1, 2))
QUICK = TextSize(evaluations=20, rates=2, measurements=2, tuning_seed=100, seeds=(0, 1))


def run(size: TextSize, path: Path) -> None:
    """Add every run that the results do not have yet, saving each; a line for each on standard error."""
    torch.set_num_threads(1)  # the network is too small to share
    results = begin("text", path, described(size), "runs")
    for arm, lr, seed in runs(results, size):
        since = time.monotonic()
        outcome = train(arm, lr, seed, size.evaluations, size.measurements)
        results["runs"][name_of(arm, lr, seed)] = kept(arm, lr, seed, outcome)
        save(path, results)
        took = time.monotonic() - since
        sys.stderr.write(f"{name_of(arm, lr, seed)}: validation {outcome.validation:.3f}, {took:.0f} s\n")


def runs(results: dict[str, Any], size: TextSize) -> Iterator[tuple[TextArm, float, int]]:
    """Runs that are missing: of every arm first the tuning, then the reported seeds at the learning rate it gives."""
    for arm in ARMS:
        grid = size.grid(arm.method)
        for lr in grid if len(grid) > 1 else ():
            if name_of(arm, lr, size.tuning_seed) not in results["runs"]:
                yield arm, lr, size.tuning_seed
        for seed in size.seeds:
            if name_of(arm, picked(results, arm, size), seed) not in results["runs"]:
                yield arm, picked(results, arm, size), seed


def picked(results: dict[str, Any], arm: TextArm, size: TextSize) -> float:
    """The learning rate with the lowest validation loss; the smallest of equals."""
    grid = size.grid(arm.method)
    if len(grid) == 1:
        return grid[0]
    losses = [results["runs"][name_of(arm, lr, size.tuning_seed)]["validation"] for lr in grid]
    return min(zip(grid, losses, strict=True), key=lambda pair: math.inf if pair[1] is None else pair[1])[0]


def name_of(arm: TextArm, lr: float, seed: int) -> str:
    """Name of a run in the results."""
    return f"{arm.name}, lr {lr:g}, seed {seed}"


def kept(arm: TextArm, lr: float, seed: int, outcome: TextOutcome) -> dict[str, Any]:
    """A run as JSON has it; a loss that is not finite is null."""
    return {
        **asdict(arm),
        "lr": lr,
        "seed": seed,
        "validation": finite(outcome.validation),
        "curve": [[count, finite(loss)] for count, loss in outcome.curve],
        "last_iterate": finite(outcome.last_iterate),
        "distance": finite(outcome.distance),
    }


def described(size: TextSize) -> dict[str, Any]:
    """Everything the results depend on."""
    names = ("MOMENTUM", "CHARACTERS", "CONTEXT", "BATCH", "WIDTH", "HEADS", "LAYERS", "WINDOWS")
    return {
        **asdict(size),
        "grids": {method: size.grid(method) for method in METHODS},
        **{name.lower(): getattr(setting, name) for name in names},
        "parameters": sum(p.numel() for p in setting.Transformer().parameters()),
        "text": {part: len(characters) for part, characters in setting.text()._asdict().items()},
        "versions": {"Python": platform.python_version(), **versions_of("gladstorm", "torch")},
    }
