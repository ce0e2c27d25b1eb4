"""The comparison: every method tuned on the validation images with the same budget, then reported on the test images.

Results are one JSON file, rewritten after every arm; an interrupted study goes on from it.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evidence.results import begin, save, versions_of
from evidence.training import learning_rates
from gladstorm.core.statistics import finite, finite_list

from . import jax_training, setting, torch_training
from .setting import FRAMEWORKS, METHODS, NETWORKS, NOISES, Arm

TRAINING = {"torch": torch_training.train, "jax": jax_training.train}
LARGEST_LR = {"Adam": 0.1}  # the grids end here; those of the others at 1


@dataclass(frozen=True)
class DigitsSize:
    """How much is run. Reported seeds are none of those tuned on."""

    evaluations: int  # mini-batch gradients a run may compute, whatever the method
    rates: int  # learning rates tried for each method
    tuning_seeds: tuple[int, ...]
    seeds: tuple[int, ...]

    def grid(self, method: str) -> list[float]:
        """The learning rates tried, from small to large; `Untuned` is not tuned."""
        if method == "Untuned":
            return [1.0]
        return learning_rates(LARGEST_LR.get(method, 1.0), self.rates, digits=3)


FULL = DigitsSize(evaluations=400, rates=7, tuning_seeds=(100, 101, 102), seeds=tuple(range(8)))
QUICK = DigitsSize(evaluations=20, rates=2, tuning_seeds=(100,), seeds=(0, 1))


def arms() -> Iterator[Arm]:
    """All of them, in the order of the tables."""
    yield from (Arm(*choice) for choice in product(FRAMEWORKS, NETWORKS, NOISES, METHODS))


def run(size: DigitsSize, path: Path) -> None:
    """Add every arm that the results do not have yet, saving each; a line for each on standard error."""
    torch.set_num_threads(1)  # these networks are too small to share
    results = begin("digits", path, described(size), "arms")
    todo = [arm for arm in arms() if arm.name not in results["arms"]]
    for number, arm in enumerate(todo, 1):
        since = time.monotonic()
        measured = results["arms"][arm.name] = measure(arm, size)
        save(path, results)
        mean = np.mean([outcome["test"] for outcome in measured["runs"]])
        took = f"{number}/{len(todo)}, {time.monotonic() - since:.0f} s"
        sys.stderr.write(f"{arm.name}: lr {measured['picked']:g}, test accuracy {mean:.1f} % ({took})\n")


def measure(arm: Arm, size: DigitsSize) -> dict[str, Any]:
    """Tune the learning rate on the validation images, then run the seeds that are reported with the best one."""
    train = TRAINING[arm.framework]
    grid = size.grid(arm.method)
    tuning = train(arm, list(product(grid, size.tuning_seeds)), size.evaluations)
    validation = np.reshape([outcome.validation for outcome in tuning], (len(grid), -1))
    losses = np.reshape([outcome.loss for outcome in tuning], (len(grid), -1))
    means = losses.mean(axis=1)
    picked = grid[int(validation.mean(axis=1).argmax())]  # the smallest of equals
    by_loss = grid[int(np.where(np.isfinite(means), means, np.inf).argmin())]
    ends = {lr: train(arm, [(lr, seed) for seed in size.seeds], size.evaluations) for lr in {picked, by_loss}}
    outcomes = ends[picked]
    return {
        "arm": asdict(arm),
        "evaluations": outcomes[0].evaluations,
        "grid": [
            {"lr": lr, "validation": row.tolist(), "loss": finite_list(of_loss)}
            for lr, row, of_loss in zip(grid, validation, losses, strict=True)
        ],
        "picked": picked,
        "by_loss": {"picked": by_loss, "losses": finite_list(np.array([outcome.loss for outcome in ends[by_loss]]))},
        "runs": [
            {
                "seed": seed,
                "test": outcome.test,
                "validation": outcome.validation,
                "distance": finite(outcome.distance),
            }
            for seed, outcome in zip(size.seeds, outcomes, strict=True)
        ],
    }


def described(size: DigitsSize) -> dict[str, Any]:
    """Everything the results depend on."""
    names = ("MOMENTUM", "CLIP", "DROPOUT", "BATCH", "B", "G", "TRAIN", "VALIDATION", "SPLIT_SEED")
    return {
        **asdict(size),
        "grids": {method: size.grid(method) for method in METHODS},
        **{name.lower() if len(name) > 1 else name: getattr(setting, name) for name in names},
        "versions": versions_of("gladstorm", "torch", "jax", "optax", "numpy", "scikit-learn"),
    }
