"""The runs: every method tuned on one seed, then reported on others; and what a step and its state cost.

Results are one JSON file, rewritten after every run; an interrupted study goes on from it.
"""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evidence.results import begin, save, versions_of
from gladstorm.core.results import from_json
from gladstorm.core.statistics import significant

from . import methods
from .methods import CONTESTANTS, OPTIMIZERS, RELATIVES, Contestant, Maker, RateAndDecay, train
from .trainings import TRAININGS, NetworkTask

COSTLY = ("character transformer", "residual network")  # where a step is timed
ROUNDS, STEPS_A_ROUND = 60, 5
PACKAGES = ("gladstorm", "torch", "scikit-learn", "schedulefree", "prodigyopt")


Planned = tuple[str, RateAndDecay, int]  # optimizer, setting and seed of a run


@dataclass(frozen=True)
class Extent:
    """Extent of the study: how much is run. No reported seed is the one tuned on."""

    steps: int  # K, one mini-batch gradient each; NSTORM has half of them, with two
    tuning_seed: int
    seeds: tuple[int, ...]
    trainings: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """A step of an optimizer alone, without the gradient, and its state."""

    milliseconds: float  # of CPU time, the median over rounds
    state: float  # numbers kept beside weights and gradients, per weight


@dataclass(frozen=True)
class NetworkResults:
    """Held-out loss of every run by its name, None where it is not finite; costs by training and optimizer."""

    settings: dict[str, Any]
    losses: dict[str, float | None]
    weights: dict[str, int] = field(default_factory=dict)  # how many, by training
    costs: dict[str, dict[str, Cost]] = field(default_factory=dict)

    @property
    def extent(self) -> Extent:
        """Extent of what was to be run."""
        return from_json(Extent, self.settings["extent"])

    def loss(self, training: str, optimizer: str, chosen: RateAndDecay, seed: int) -> float:
        """The held-out loss of a run; infinite where it is not finite."""
        value = self.losses[name_of(training, optimizer, chosen, seed)]
        return math.inf if value is None else value

    def picked(self, training: str, contestant: Contestant) -> RateAndDecay:
        """The setting with the lowest loss on the tuning seed, the first of equals."""
        if len(contestant.settings) == 1:
            return contestant.settings[0]
        seed = self.extent.tuning_seed
        return min(contestant.settings, key=lambda chosen: self.loss(training, contestant.optimizer, chosen, seed))

    @property
    def finished(self) -> list[str]:
        """The trainings of which every run is there."""
        return [training for training in self.extent.trainings if next(self.missing(training), None) is None]

    def missing(self, training: str) -> Iterator[Planned]:
        """Runs of a training that are to be made: of each method first the tuning, then the reported seeds."""
        for each in CONTESTANTS.values():
            tuned = each.settings if len(each.settings) > 1 else ()
            yield from self._new(training, each.optimizer, [(chosen, self.extent.tuning_seed) for chosen in tuned])
            seeds = self.extent.seeds
            yield from self._new(training, each.optimizer, [(self.picked(training, each), seed) for seed in seeds])

    def _new(self, training: str, optimizer: str, runs: list[tuple[RateAndDecay, int]]) -> Iterator[Planned]:
        for chosen, seed in runs:
            if name_of(training, optimizer, chosen, seed) not in self.losses:
                yield optimizer, chosen, seed


FULL = Extent(steps=500, tuning_seed=0, seeds=(1, 2, 3, 4), trainings=tuple(TRAININGS))
QUICK = Extent(steps=6, tuning_seed=10_000, seeds=(10_001, 10_002), trainings=("factorization", "few data"))


def name_of(training: str, optimizer: str, chosen: RateAndDecay, seed: int) -> str:
    """The key of a run in the results."""
    return f"{training}, {optimizer} {chosen.rate:g}, decay {chosen.decay:g}, seed {seed}"


def run(extent: Extent, path: Path, rounds: int = ROUNDS) -> None:
    """Add every run that the results lack, saving each, then the costs; standard error has a line for each."""
    torch.set_num_threads(1)  # the networks are too small to share
    results = from_json(NetworkResults, begin("networks", path, described(extent), "losses"))
    tasks = {name: TRAININGS[name]() for name in extent.trainings}
    results.weights.update({name: sum(p.numel() for p in task.model.parameters()) for name, task in tasks.items()})
    for training in extent.trainings:
        for optimizer, chosen, seed in results.missing(training):
            since = time.monotonic()
            value = train(training, optimizer, chosen, seed, extent.steps)
            name = name_of(training, optimizer, chosen, seed)
            results.losses[name] = None if value is None else significant(value, 6)
            save(path, asdict(results))
            sys.stderr.write(f"{name}: {value}, {time.monotonic() - since:.1f} s\n")
    for training in COSTLY:
        if training not in results.costs:
            results.costs[training] = costs(training, rounds)
            save(path, asdict(results))


def costs(training: str, rounds: int) -> dict[str, Cost]:
    """Costs of a step of each optimizer on a training, but not of the relatives, whose sentences have their prices."""
    settings = {each.optimizer: each.settings[0] for each in CONTESTANTS.values() if each.optimizer not in RELATIVES}
    return costs_of(TRAININGS[training], {name: (OPTIMIZERS[name], each) for name, each in settings.items()}, rounds)


def costs_of(
    task: Callable[[], NetworkTask], makers: Mapping[str, tuple[Maker, RateAndDecay]], rounds: int
) -> dict[str, Cost]:
    """CPU time of a step and size of the state of each optimizer, on one model and in turns, so that load is shared."""
    torch.manual_seed(0)
    tasks = {name: task() for name in makers}
    made = {name: maker(tasks[name].model, chosen, 10**6) for name, (maker, chosen) in makers.items()}
    for model, loss, rows, _, batch in tasks.values():
        loss(model, tuple(column[:batch] for column in rows)).backward()
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds + 1):  # the first makes the state
        for name, optimizers in made.items():
            since = time.process_time()
            for optimizer in optimizers * STEPS_A_ROUND:
                optimizer.step()
            times[name].append((time.process_time() - since) / STEPS_A_ROUND)
    return {name: Cost(significant(1e3 * float(np.median(times[name][1:])), 3), _state(made[name])) for name in made}


def _state(optimizers: list[torch.optim.Optimizer]) -> float:
    """Numbers in tensors of a state, but for single ones, per weight."""
    weights = sum(p.numel() for each in optimizers for group in each.param_groups for p in group["params"])
    tensors = [each for optimizer in optimizers for state in optimizer.state.values() for each in state.values()]
    numbers = sum(each.numel() for each in tensors if isinstance(each, torch.Tensor) and each.numel() > 1)
    return significant(numbers / weights, 3)


def described(extent: Extent) -> dict[str, Any]:
    """Everything that the results depend on."""
    names = ("WARMUP", "FIXED_LENGTH")
    return {
        "extent": asdict(extent),
        "contestants": {name: asdict(each) for name, each in CONTESTANTS.items()},
        **{name.lower(): getattr(methods, name) for name in names},
        "versions": {"Python": platform.python_version(), **versions_of(*PACKAGES)},
    }
