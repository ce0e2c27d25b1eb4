"""The runs: what is tuned is tuned on one seed at each number of steps, then all methods run on others.

Results are one JSON file, rewritten after every run; an interrupted study goes on from it.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch

from evidence.networks.methods import Contestant, RateAndDecay, course, falls
from evidence.networks.study import Cost, costs_of
from evidence.results import begin, save, versions_of
from gladstorm.core.results import from_json
from gladstorm.core.statistics import significant
from gladstorm.jobs.progress import Progress

from .methods import CONTESTANTS, OPTIMIZERS, SHARES
from .trainings import TRAININGS

FINALISTS = 3  # settings that are tried at the largest number of steps: the best at the number before
COSTLY = ("sorting",)  # where a step is timed
PACKAGES = ("gladstorm", "torch", "scikit-learn", "schedulefree", "prodigyopt")


@dataclass(frozen=True)
class JudgementExtent:
    """Extent of the study: how much is run. No reported seed is the one tuned on."""

    steps: tuple[int, ...]  # K, one mini-batch gradient each, in ascending order
    tuning_seed: int
    seeds: tuple[int, ...]
    trainings: tuple[str, ...]


@dataclass(frozen=True)
class PlannedRun:
    """A run that is to be made."""

    training: str
    steps: int
    optimizer: str
    setting: RateAndDecay
    seed: int

    @property
    def name(self) -> str:
        """The key of the run in the results."""
        where = f"{self.training}, {self.steps} steps, {self.optimizer}"
        return f"{where} {self.setting.rate:g}, decay {self.setting.decay:g}, seed {self.seed}"


@dataclass(frozen=True)
class JudgementResults:
    """Held-out loss of every run by its name, None where it is not finite; weights by training; costs by optimizer."""

    settings: dict[str, Any]
    losses: dict[str, float | None]
    weights: dict[str, int] = field(default_factory=dict)
    costs: dict[str, dict[str, Cost]] = field(default_factory=dict)

    @property
    def extent(self) -> JudgementExtent:
        """Extent of what was to be run."""
        return from_json(JudgementExtent, self.settings["extent"])

    def loss(self, run: PlannedRun) -> float:
        """The held-out loss of a run; infinite where it is not finite."""
        value = self.losses[run.name]
        return math.inf if value is None else value

    def tuning(self, training: str, steps: int, method: Contestant) -> list[PlannedRun]:
        """Tuning runs of a method: all its settings, but at the largest K only the best at the K before."""
        extent, settings = self.extent, list(method.settings)
        place = extent.steps.index(steps)
        if place and place == len(extent.steps) - 1 and len(settings) > FINALISTS:
            before = self.tuning(training, extent.steps[place - 1], method)
            settings = [run.setting for run in sorted(before, key=self.loss)[:FINALISTS]]
        return [PlannedRun(training, steps, method.optimizer, each, extent.tuning_seed) for each in settings]

    def picked(self, training: str, steps: int, method: Contestant) -> RateAndDecay:
        """The setting with the lowest loss on the tuning seed, the first of equals."""
        if len(method.settings) == 1:
            return method.settings[0]
        return min(self.tuning(training, steps, method), key=self.loss).setting

    def reported(self, training: str, steps: int, method: Contestant) -> list[PlannedRun]:
        """Runs of a method at its setting, one for each reported seed."""
        setting = self.picked(training, steps, method)
        return [PlannedRun(training, steps, method.optimizer, setting, seed) for seed in self.extent.seeds]

    def finished(self, steps: int) -> list[str]:
        """The trainings of which every run with so many steps is there."""
        return [training for training in self.extent.trainings if self._has(training, steps)]

    def unfinished(self, steps: int) -> list[str]:
        """The trainings of which a run with so many steps is missing."""
        return [training for training in self.extent.trainings if training not in self.finished(steps)]

    @property
    def lengths(self) -> list[int]:
        """Each K at which a training is finished."""
        return [steps for steps in self.extent.steps if self.finished(steps)]

    def _has(self, training: str, steps: int) -> bool:
        try:
            runs = [run for each in CONTESTANTS.values() for run in self.reported(training, steps, each)]
        except KeyError:  # of a tuning run
            return False
        return all(run.name in self.losses for run in runs)


FULL = JudgementExtent(steps=(300, 1000, 4000), tuning_seed=0, seeds=(1, 2, 3), trainings=tuple(TRAININGS))
QUICK = JudgementExtent(steps=(4, 6), tuning_seed=10_000, seeds=(10_001, 10_002), trainings=("sets", "biopsies"))


def described(extent: JudgementExtent) -> dict[str, Any]:
    """Return what decides the numbers, for the page and to see that results kept are of this study."""
    return {
        "extent": asdict(extent),
        "contestants": {name: asdict(each) for name, each in CONTESTANTS.items()},
        "versions": {"Python": platform.python_version(), **versions_of(*PACKAGES)},
    }


def trained(run: PlannedRun) -> float | None:
    """The held-out loss at the end of a run, to six digits."""
    share = SHARES.get(run.optimizer, falls)
    value = course(TRAININGS[run.training], OPTIMIZERS[run.optimizer], run.setting, run.seed, run.steps, share)
    return None if value is None else significant(value, 6)


def run(extent: JudgementExtent, path: Path, rounds: int) -> None:
    """Add the costs and every run that the results lack, saving each."""
    torch.set_num_threads(1)  # the networks are too small to share
    results = from_json(JudgementResults, begin("untuned_networks", path, described(extent), "losses"))
    for name in extent.trainings:
        results.weights[name] = sum(p.numel() for p in TRAININGS[name]().model.parameters())
    for training in COSTLY:
        if training not in results.costs:
            makers = {each.optimizer: (OPTIMIZERS[each.optimizer], each.settings[0]) for each in CONTESTANTS.values()}
            results.costs[training] = costs_of(TRAININGS[training], makers, rounds)
            save(path, results)
    for doing, planned in stages(results):
        missing = [each for each in planned if each.name not in results.losses]
        with Progress(doing, sum(each.steps for each in missing)) as shown:
            done = 0
            for each in missing:
                results.losses[each.name] = trained(each)
                save(path, results)
                done += each.steps
                shown(done)


def stages(results: JudgementResults) -> Iterator[tuple[str, Sequence[PlannedRun]]]:
    """Yield what to run, stage by stage: a stage is asked for when those before it are finished."""
    extent, tuned = results.extent, [each for each in CONTESTANTS.values() if len(each.settings) > 1]
    for steps in extent.steps:
        cases = product(extent.trainings, tuned)
        yield f"tuning at K = {steps}", [run for t, each in cases for run in results.tuning(t, steps, each)]
        cases = product(extent.trainings, CONTESTANTS.values())
        yield f"judging at K = {steps}", [run for t, each in cases for run in results.reported(t, steps, each)]
