"""The second part: `AutoBatch` on trainings that had no part in it, beside fixed batches and other schedules.

Every run sees the same samples in the same order. Results are one JSON file, rewritten after every run; an interrupted
study goes on from it.
"""

from __future__ import annotations

import math
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from evidence.networks import trainings as first_trainings
from evidence.networks.trainings import NetworkTask
from evidence.results import begin, save, versions_of
from evidence.untuned_networks import trainings
from gladstorm.core.batch_control import FEWEST_LOOKS, FEWEST_STEPS, PACES, REASONS, BatchControl
from gladstorm.core.equations import Floats
from gladstorm.core.results import from_json
from gladstorm.core.statistics import significant
from gladstorm.torch import NSGDM, AutoBatch, by_layer, scale_batch

from .study import PACKAGES, SMALLEST

FACTORS = (2, 4, 8, 16, 32)
LARGEST = FACTORS[-1]
USUAL_FACTORS = (4, 16)  # at which the usual rule runs too
TIMES = (0.1, 0.3, 0.6)  # of the samples, at which a batch doubles that does so at fixed times
NORM_TEST = 0.5  # θ: a batch is too small where its noise is above θ times its gradient
SMALL, OTHER_ORDER, SAFE, FAST = "small batch", "small batch, other order", "safe", "fast"
SEESAW, FIXED_TIMES, TESTED, SCALE_ALONE = "Seesaw", "fixed times", "norm test", "noise scale alone"

# Trainings whose loss is a mean over samples: metric learning compares those of a batch, and gave its place.
TRAININGS: dict[str, Callable[[], NetworkTask]] = {
    name: task for name, task in trainings.TRAININGS.items() if name != "metric learning"
} | {"factorization": first_trainings.TRAININGS["factorization"]}

OPTIMIZERS: dict[str, Callable[[nn.Module, float], torch.optim.Optimizer]] = {
    "SGD": lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
    "AdamW": lambda model, rate: torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01),
    "NSGDM by layer": lambda model, rate: NSGDM(by_layer(model), lr=rate, momentum=0.95),
}
RATES = {
    "SGD": (0.003, 0.01, 0.03, 0.1),
    "AdamW": (0.001, 0.003, 0.01, 0.03),
    "NSGDM by layer": (0.0025, 0.005, 0.01, 0.02),
}


class NormTest(BatchControl):
    """The rival that doubles while a batch's noise is above θ times its gradient, noise included."""

    def advance(self, steps: Any, xp: Any = Floats) -> BatchControl:
        """Count a step, and decide the batch of the next."""
        noise = self.noise.mean(xp) / self.factor
        return _advanced(self, steps, noise > NORM_TEST**2 * (self.gradient2.mean(xp) + noise))


class NoiseScale(BatchControl):
    """The rival that doubles up to the critical batch as it is estimated, whatever the persistence."""

    def advance(self, steps: Any, xp: Any = Floats) -> BatchControl:
        """Count a step, and decide the batch of the next."""
        return _advanced(self, steps, self.critical(xp) >= 2 * self.factor)


def _advanced(control: BatchControl, steps: int, wanted: bool) -> BatchControl:
    """Double under the conditions that have nothing to do with what is measured, as `BatchControl` does."""
    m, progress, since_change = control.factor, control.progress + steps, control.since_change + 1
    ready = control.looks >= FEWEST_LOOKS and since_change >= FEWEST_STEPS
    grown = wanted and ready and m < control.largest and progress % (2 * m) == 0
    return control._replace(progress=progress, since_change=0 if grown else since_change, factor=2 * m if grown else m)


CONTROLS: dict[str, Callable[[float], BatchControl]] = {
    SAFE: lambda budget: BatchControl(budget, PACES["safe"], LARGEST),
    FAST: lambda budget: BatchControl(budget, PACES["fast"], LARGEST),
    TESTED: lambda budget: NormTest(budget, 1.0, LARGEST),
    SCALE_ALONE: lambda budget: NoiseScale(budget, 1.0, LARGEST),
}


def usual(optimizer: torch.optim.Optimizer, factor: float, *, scheduler: LambdaLR) -> None:
    """The usual rule: learning rate × factor for SGD and × its root for the others; momenta as they are."""
    length = factor if type(optimizer) is torch.optim.SGD else factor**0.5
    for group in optimizer.param_groups:
        group["lr"] *= length
    scheduler.base_lrs = [lr * length for lr in scheduler.base_lrs]


def by_seesaw(progress: float) -> int:
    """Twice the batch, by the usual rule, wherever the falling rate has halved (Seesaw)."""
    return int(min(LARGEST, 2 ** math.floor(-math.log2(1 - progress))))


def at_fixed_times(progress: float) -> int:
    """Twice the batch at every one of the fixed times."""
    return int(2 ** sum(progress >= at for at in TIMES))


Rule = Callable[..., None]
SCHEDULES: dict[str, tuple[Rule, Callable[[float], int]]] = {  # how the optimizer follows, and the batch at a time
    SMALL: (scale_batch, lambda _: 1),
    OTHER_ORDER: (scale_batch, lambda _: 1),
    **{f"scale_batch {factor}": (scale_batch, lambda _, factor=factor: factor) for factor in FACTORS},  # type: ignore[misc]
    **{f"usual {factor}": (usual, lambda _, factor=factor: factor) for factor in USUAL_FACTORS},  # type: ignore[misc]
    SEESAW: (usual, by_seesaw),
    FIXED_TIMES: (scale_batch, at_fixed_times),
}
METHODS = (*SCHEDULES, *CONTROLS)


@dataclass(frozen=True)
class AutoExtent:
    """Extent of the second part: how much is run."""

    steps: int  # with the smallest batch
    seeds: tuple[int, ...]
    tuning_seed: int
    rounds: int  # of steps that are timed
    trainings: tuple[str, ...]


@dataclass(frozen=True)
class AutoRun:
    """The loss that a training ended with, its steps, and what batch it ended with."""

    loss: float | None  #: held out, None where it is not finite
    steps: int
    factor: int  #: at the end
    reason: str = ""  #: why it was that, where the batch set itself


@dataclass(frozen=True)
class AutoResults:
    """Every run by its name, and what a look costs."""

    settings: dict[str, Any]
    runs: dict[str, AutoRun]
    overheads: dict[str, float] = field(default_factory=dict)  #: CPU time of a step over a plain one's, by training

    @property
    def extent(self) -> AutoExtent:
        """Extent of what was to be run."""
        return from_json(AutoExtent, self.settings["extent"])

    @cached_property
    def seeds(self) -> list[int]:
        """Seeds whose runs are all there: an unfinished one counts nowhere."""
        return [
            seed
            for seed in self.extent.seeds
            if all(
                name_of(training, optimizer, self.rate(training, optimizer), method, seed) in self.runs
                for training in self.extent.trainings
                for optimizer in OPTIMIZERS
                for method in methods_of(optimizer)
            )
        ]

    def rate(self, training: str, optimizer: str) -> float:
        """The rate with the lowest loss of the small batch on the seed for it."""
        seed = self.extent.tuning_seed
        return min(RATES[optimizer], key=lambda rate: self._loss(name_of(training, optimizer, rate, SMALL, seed)))

    def run(self, training: str, optimizer: str, method: str, seed: int) -> AutoRun:
        """A run at the rate that was picked."""
        return self.runs[name_of(training, optimizer, self.rate(training, optimizer), method, seed)]

    def loss(self, training: str, optimizer: str, method: str, seed: int) -> float:
        """The held-out loss of a run at the rate that was picked; infinite where it is not finite."""
        return self._loss(name_of(training, optimizer, self.rate(training, optimizer), method, seed))

    def _loss(self, name: str) -> float:
        loss = self.runs[name].loss
        return math.inf if loss is None else loss


FULL = AutoExtent(steps=512, seeds=(0, 1), tuning_seed=2, rounds=40, trainings=tuple(TRAININGS))
QUICK = AutoExtent(steps=32, seeds=(10_000,), tuning_seed=10_001, rounds=2, trainings=("biopsies",))


def methods_of(optimizer: str) -> list[str]:
    """The methods that an optimizer is run with: "fast" is refused for SGD."""
    return [method for method in METHODS if (optimizer, method) != ("SGD", FAST)]


def name_of(training: str, optimizer: str, rate: float, method: str, seed: int) -> str:
    """The key of a run in the results."""
    return f"{training}, {optimizer} {rate:g}, {method}, seed {seed}"


def planned(extent: AutoExtent, results: AutoResults) -> Iterator[tuple[str, str, float, str, int]]:
    """Training, optimizer, rate, method and seed of every run; rates are known once they were tuned."""
    for training in extent.trainings:
        for optimizer, rates in RATES.items():
            yield from ((training, optimizer, rate, SMALL, extent.tuning_seed) for rate in rates)
    for seed in extent.seeds:
        for training in extent.trainings:
            for optimizer in OPTIMIZERS:
                rate = results.rate(training, optimizer)
                yield from ((training, optimizer, rate, method, seed) for method in methods_of(optimizer))


def run(extent: AutoExtent, path: Path) -> None:
    """Add every run that the results lack, saving each; standard error has a line for each."""
    torch.set_num_threads(1)  # the networks are too small to share
    settings = {
        "extent": asdict(extent),
        "smallest": SMALLEST,
        "versions": {"Python": platform.python_version(), **versions_of(*PACKAGES)},
    }
    results = from_json(AutoResults, begin("batches", path, settings, "runs"))
    for each in planned(extent, results):
        name, since = name_of(*each), time.monotonic()
        if name not in results.runs:
            results.runs[name] = train(*each, extent.steps)
            save(path, results)
            sys.stderr.write(f"{name}: {results.runs[name]}, {time.monotonic() - since:.1f} s\n")
    for training in extent.trainings:
        if training not in results.overheads:
            results.overheads[training] = significant(overhead(training, extent.rounds), 4)
            save(path, results)


def train(training: str, optimizer_name: str, rate: float, method: str, seed: int, steps: int) -> AutoRun:
    """Train on steps × smallest batch samples; the rate falls linearly to 0.

    The seed decides data, first weights and samples, in the same order for all methods but the one in another order.
    """
    task = deepcopy(fresh_task(TRAININGS[training], seed))
    optimizer = OPTIMIZERS[optimizer_name](task.model, rate)
    schedule = LambdaLR(optimizer, lambda k: 1 - k / steps)
    first = task.batch // SMALLEST
    order = torch.Generator().manual_seed(seed + (50_000 if method == OTHER_ORDER else 0))
    samples = torch.randint(len(task.train[0]), (steps * first,), generator=order)
    follow = partial(let_it_grow, CONTROLS[method]) if method in CONTROLS else partial(keep_to, *SCHEDULES[method])
    made, factor, reason = follow(task, optimizer, schedule, samples, first)
    with torch.no_grad():
        loss = task.loss(task.model, task.held_out).item()
    return AutoRun(significant(loss, 6) if math.isfinite(loss) else None, made, factor, reason)


@lru_cache(maxsize=4)
def fresh_task(make: Callable[[], NetworkTask], seed: int) -> NetworkTask:
    """The training as a seed makes it; not to be trained itself, since some data take seconds to make."""
    torch.manual_seed(seed)
    return make()


def keep_to(
    rule: Rule,
    batch_at: Callable[[float], int],
    task: NetworkTask,
    optimizer: torch.optim.Optimizer,
    schedule: LambdaLR,
    samples: Tensor,
    first: int,
) -> tuple[int, int, str]:
    """Train with batches that were decided before; a step has the rate of the middle of its samples."""
    made, factor, at = 0, 1, 0
    while at < len(samples):
        wanted = batch_at(at / len(samples))
        if wanted != factor and (len(samples) - at) % (wanted * first) == 0:  # or the last step would be cut
            rule(optimizer, wanted / factor, scheduler=schedule)
            factor = wanted
        rows = samples[at : at + factor * first]
        optimizer.zero_grad()
        task.loss(task.model, tuple(column[rows] for column in task.train)).backward()
        with warnings.catch_warnings():  # of a schedule that goes ahead of its optimizer, as in a first large step
            warnings.simplefilter("ignore")
            for _ in range(factor // 2):
                schedule.step()
        optimizer.step()
        for _ in range(factor - factor // 2):
            schedule.step()
        made, at = made + 1, at + factor * first
    return made, factor, ""


def let_it_grow(
    control: Callable[[float], BatchControl],
    task: NetworkTask,
    optimizer: torch.optim.Optimizer,
    schedule: LambdaLR,
    samples: Tensor,
    first: int,
) -> tuple[int, int, str]:
    """Train with `AutoBatch` and what decides for it; a step has two micro-batches at first."""
    auto = AutoBatch(optimizer, budget=len(samples), micro=first // 2, largest=LARGEST)
    auto._control = control(len(samples) / first)
    for rows in samples.split(first // 2):
        (task.loss(task.model, tuple(column[rows] for column in task.train)) * auto.share).backward()
        if auto.due():
            auto.step(schedule)
    reason = REASONS[auto._control.reason] if type(auto._control) is BatchControl else ""
    return auto.steps, auto.factor, reason


def overhead(training: str, rounds: int) -> float:
    """The CPU time of steps of AdamW by `AutoBatch`, which looks at every eighth, over that of plain accumulation.

    Both train a network of their own on the same samples, in turns of 16 steps; the median over rounds.
    """
    torch.manual_seed(0)
    tasks = [TRAININGS[training]() for _ in range(2)]
    first = tasks[0].batch // SMALLEST
    auto, plain = (OPTIMIZERS["AdamW"](task.model, RATES["AdamW"][0]) for task in tasks)
    watched = AutoBatch(auto, budget=LONG_BUDGET, micro=first // 2)
    ratios = []
    for _ in range(rounds):
        pieces = torch.randint(len(tasks[0].train[0]), (16 * first,)).split(first // 2)
        since = time.process_time()
        for rows in pieces:
            (tasks[0].loss(tasks[0].model, tuple(column[rows] for column in tasks[0].train)) * watched.share).backward()
            if watched.due():
                watched.step()
        between = time.process_time()
        for k, rows in enumerate(pieces):
            (tasks[1].loss(tasks[1].model, tuple(column[rows] for column in tasks[1].train)) * 0.5).backward()
            if k % 2:
                plain.step()
                plain.zero_grad()
        ratios.append((between - since) / (time.process_time() - between))
    return statistics.median(ratios)


LONG_BUDGET = 10**9  # samples: so long that looks are rare and nothing grows
