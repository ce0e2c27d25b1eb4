"""Trials on the trainings of the study of norms, whose results were known: where one length holds, and where it breaks.

Chosen before they were run: length 0.02 with a linear decay and no weight decay stays the default of `Untuned` by layer
unless one alternative ends lower than it by 5 % or more in the geometric mean over the trainings of its question, lower
on two thirds of them, and nowhere more than 10 % higher. For K = 100 and 10,000 it would have to at both. What changes
with the batch, or with the first weights, would become a rule of `by_layer` or of `scale_batch`, not a new default.

The extent was cut once, to what a busy machine could do, when only six runs of the character transformer with other
first weights had been made. Most questions have small trainings only. A second seed was added when time was left.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from evidence.networks.methods import Maker, Optimizers, RateAndDecay, course, falls, stays
from evidence.networks.trainings import TRAININGS, NetworkTask
from evidence.results import begin, save, versions_of
from gladstorm.core.equations import LAYER_LENGTH
from gladstorm.core.results import from_json
from gladstorm.core.statistics import significant
from gladstorm.jobs.progress import Progress
from gladstorm.torch import NSGDM, by_layer, scale_batch
from gladstorm.torch.layers import parameters_of

RATES = (1e-3, 3e-3, 1e-2, 3e-2)  # of AdamW, with weight decay ADAMW_DECAY
ADAMW_DECAY = 0.01
LATE = 8.0  # the average x̄ ← x̄ + 8/(k + 8) (x − x̄), about the last eighth of the steps
AHEAD = 0.9  # the weight of the average in the point where schedule-free interpolation takes gradients


@dataclass(frozen=True)
class Trial:
    """A way to train: what differs from length 0.02 by layer with a linear decay, 500 steps, no weight decay."""

    steps: int = 500
    method: str = "by layer"
    length: float = LAYER_LENGTH
    decay: float = 0.0
    start: str = "torch's"  # first weights
    batch: int = 1  # samples of a step, in units of the training's own

    def named(self, training: str, seed: int) -> str:
        """The key of the run in the results."""
        how = f"{self.method} {self.length:g}, decay {self.decay:g}, {self.start} start, batch {self.batch}"
        return f"{training}, {self.steps} steps, {how}, seed {seed}"


class LateAverage(NSGDM):
    """NSGDM whose report is an average of late iterates, so that it can be stopped at any step."""

    @override
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        loss = super()._step(closure)
        if not hasattr(self, "_means"):
            self._means, self._count = [x.clone() for x in _points(self)], 0
        self._count += 1
        for mean, x in zip(self._means, _points(self), strict=True):
            mean.lerp_(x, LATE / (self._count + LATE - 1))
        return loss

    def eval(self) -> None:
        """Put the average into the parameters, for good."""
        for mean, x in zip(self._means, _points(self), strict=True):
            x.copy_(mean)


class Interpolated(NSGDM):
    """Schedule-free interpolation (Defazio et al. 2024) with steps by layer in place of gradients, and no momentum.

        y = 0.1 z + 0.9 x,  z ← z − L d(g(y)),  x ← x + (z − x)/k

    The parameters are y between steps; x is reported.
    """

    @override
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        if not hasattr(self, "_means"):
            self._means, self._count = [x.clone() for x in _points(self)], 0
            self._fronts = [x.clone() for x in _points(self)]
        for y, z in zip(_points(self), self._fronts, strict=True):
            y.copy_(z)
        loss = super()._step(closure)
        self._count += 1
        for y, z, x in zip(_points(self), self._fronts, self._means, strict=True):
            z.copy_(y)
            x.lerp_(z, 1 / self._count)
            y.lerp_(x, AHEAD)
        return loss

    def eval(self) -> None:
        """Put x into the parameters, for good."""
        for y, x in zip(_points(self), self._means, strict=True):
            y.copy_(x)


def _points(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p.detach() for group in optimizer.param_groups for p in group["params"]]


def relative(model: nn.Module) -> dict[str, dict[str, float]]:
    """Rules of `by_layer`: lengths of matrices in proportion to their first norms, 1 where it is torch's for a layer.

    torch draws the weight of a linear layer uniformly from ±1/√inputs: its Frobenius norm is √(outputs/3), and that of
    the unit step √outputs. A matrix of zeros keeps its length.
    """
    sizes = {name: float(p.detach().norm() / len(p) ** 0.5) for name, p, stack in parameters_of(model) if stack}
    return {name: {"scale": math.sqrt(3) * size} for name, size in sizes.items() if size}


def _first_layer_by(norm: str, scale: float) -> Callable[[nn.Module, Trial], NSGDM]:
    def make(model: nn.Module, trial: Trial) -> NSGDM:
        (first, *_) = (name for name, _, stack in parameters_of(model) if stack)
        return _by_layer(model, trial, {first: {"norm": norm, "scale": scale}})

    return make


def _by_layer(model: nn.Module, trial: Trial, rules: Any = None) -> NSGDM:
    return NSGDM(by_layer(model, rules), lr=trial.length, weight_decay=trial.decay)


def _by_the_rule(model: nn.Module, trial: Trial) -> NSGDM:
    optimizer = _by_layer(model, trial)
    scale_batch(optimizer, trial.batch)
    return optimizer


METHODS: dict[str, Callable[[nn.Module, Trial], torch.optim.Optimizer]] = {
    "by layer": _by_layer,
    "by scale_batch": _by_the_rule,
    "relative": lambda model, trial: _by_layer(model, trial, relative(model)),
    "first layer by columns": _first_layer_by("columns", 1.0),
    "first layer by signs": _first_layer_by("sign", 0.25),
    "late average": lambda model, trial: LateAverage(by_layer(model), lr=trial.length),
    "interpolated": lambda model, trial: Interpolated(by_layer(model), lr=trial.length, momentum=0.0),
    "AdamW": lambda model, trial: torch.optim.AdamW(model.parameters(), trial.length, weight_decay=trial.decay),
}
CONSTANT = ("late average", "interpolated")  # with these the length stays; with the others it falls linearly to 0


def _times(factor: float) -> Callable[[nn.Module], None]:
    def multiply(model: nn.Module) -> None:
        for p in model.parameters():
            p.detach().mul_(factor if p.ndim > 1 else 1.0)

    return multiply


def _without_head(model: nn.Module) -> None:
    head = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    for p in head.parameters():
        p.detach().zero_()


STARTS: dict[str, Callable[[nn.Module], None]] = {
    "torch's": _times(1.0),
    "quarter": _times(0.25),
    "fourfold": _times(4.0),
    "zero head": _without_head,
}


@dataclass(frozen=True)
class TrialRow:
    """A row of a table: the best of some trials on each training, compared with another trial."""

    label: str
    trials: tuple[Trial, ...]
    to: Trial

    @property
    def could_replace(self) -> bool:
        """A row could become the default if it is one way, from the start and with the batch of the other."""
        (trial, *others) = self.trials
        return not others and (trial.start, trial.batch) == (self.to.start, self.to.batch)


@dataclass(frozen=True)
class TrialQuestion:
    """A question of the trials: the rows of its table, and the trainings and seeds that answer it."""

    trainings: tuple[str, ...]
    seeds: tuple[int, ...]
    rows: tuple[TrialRow, ...]

    def runs(self) -> Iterator[tuple[str, Trial, int]]:
        """Training, trial and seed of every run."""
        trials = dict.fromkeys(trial for row in self.rows for trial in (row.to, *row.trials))
        yield from ((training, trial, seed) for training in self.trainings for trial in trials for seed in self.seeds)


def _at(steps: int, **others: Any) -> Trial:
    return Trial(steps=steps, **others)


def _adamw(steps: int, rates: tuple[float, ...]) -> tuple[Trial, ...]:
    return tuple(_at(steps, method="AdamW", length=rate, decay=ADAMW_DECAY) for rate in rates)


def _batches(steps: int, factors: tuple[int, ...]) -> tuple[TrialRow, ...]:
    rows = []
    for m in factors:
        larger = Trial(steps // m, batch=m)
        rows += [
            TrialRow(f"{m} ×, the same length", (larger,), Trial(steps)),
            TrialRow(f"{m} ×, length × √{m}", (replace(larger, length=LAYER_LENGTH * m**0.5),), Trial(steps)),
            TrialRow(f"{m} ×, `scale_batch`", (replace(larger, method="by scale_batch"),), Trial(steps)),
        ]
    return tuple(rows)


def _starts(steps: int) -> tuple[TrialRow, ...]:
    rows = [TrialRow("relative", (_at(steps, method="relative"),), _at(steps))]
    for start in ("quarter", "fourfold", "zero head"):
        one, other = (_at(steps, method=method, start=start) for method in ("by layer", "relative"))
        rows += [TrialRow(f"{start}, 0.02", (one,), _at(steps)), TrialRow(f"{start}, relative", (other,), one)]
    return tuple(rows)


def _lengths(steps: int, lengths: tuple[float, ...]) -> tuple[TrialRow, ...]:
    return tuple(
        TrialRow(f"K = {steps:,}, length {each:g}", (_at(steps, length=each),), _at(steps)) for each in lengths
    )


def _anytime(full: int) -> tuple[TrialRow, ...]:
    ways = [("late average", 0.02), ("late average", 0.01), ("interpolated", 0.02), ("interpolated", 0.04)]
    return tuple(
        TrialRow(f"{method}, {length:g}, at {steps:,} steps", (_at(steps, method=method, length=length),), _at(steps))
        for method, length in ways
        for steps in (full // 2, full)
    )


SMALL = ("convolutions", "autoencoder", "badly scaled table", "few data", "graph network", "residual network")
QUESTIONS = {
    "horizons 10,000": TrialQuestion(
        ("factorization", "badly scaled table", "autoencoder"),
        (0,),
        (
            *_lengths(10_000, (0.01,)),
            TrialRow("K = 10,000, weight decay 0.1", (_at(10_000, decay=0.1),), _at(10_000)),
            TrialRow("K = 10,000, AdamW, best of two rates", _adamw(10_000, (3e-3, 1e-2)), _at(10_000)),
        ),
    ),
    "anytime": TrialQuestion((*SMALL, "factorization", "GRU"), (0, 1), _anytime(500)),
    "horizons 100": TrialQuestion(
        tuple(TRAININGS),
        (0, 1),
        (
            *_lengths(100, (0.01, 0.04, 0.08)),
            TrialRow("K = 100, AdamW, best of four rates", _adamw(100, RATES), _at(100)),
        ),
    ),
    "starts": TrialQuestion((*SMALL, "character transformer"), (0, 1), _starts(500)),
    "first layer": TrialQuestion(
        SMALL,
        (0, 1),
        (
            *(
                TrialRow(name, (Trial(method=name),), Trial())
                for name in ("first layer by columns", "first layer by signs")
            ),
            TrialRow("AdamW, best of two rates", _adamw(500, (3e-3, 1e-2)), Trial()),
        ),
    ),
    "pretrained": TrialQuestion(
        ("fine-tuned transformer",),
        (0, 1),
        tuple(
            row
            for steps in (100, 500)
            for row in (
                *_lengths(steps, (0.005, 0.01, 0.04)),
                TrialRow(f"K = {steps}, relative", (_at(steps, method="relative"),), _at(steps)),
            )
        ),
    ),
    "batches": TrialQuestion(("GRU", *SMALL[:3]), (0, 1), _batches(1024, (8, 16, 64))),
}
QUICK = {"anytime": TrialQuestion(("few data", "factorization"), (10_000,), _anytime(4))}


@dataclass(frozen=True)
class DevelopmentResults:
    """Held-out loss of every run by its name, None where it is not finite."""

    settings: dict[str, Any]
    losses: dict[str, float | None] = field(default_factory=dict)

    @property
    def questions(self) -> dict[str, TrialQuestion]:
        """The questions that the results answer."""
        return QUICK if self.settings["quick"] else QUESTIONS

    def ratios(self, question: TrialQuestion, row: TrialRow) -> dict[str, float]:
        """Losses of a row divided by those it is compared with, the geometric mean over seeds, by training."""
        return {
            training: min(self._loss(question, training, each) for each in row.trials)
            / self._loss(question, training, row.to)
            for training in question.trainings
        }

    def _loss(self, question: TrialQuestion, training: str, trial: Trial) -> float:
        losses = [self.losses[trial.named(training, seed)] for seed in question.seeds]
        return math.exp(np.mean([math.inf if loss is None else math.log(loss) for loss in losses]))


def would_replace(ratios: dict[str, float]) -> bool:
    """Whether an alternative is as far ahead as was asked for beforehand."""
    values = np.array(list(ratios.values()))
    lower = np.mean(values < 1) >= 2 / 3
    return bool(math.exp(np.log(values).mean()) <= 0.95 and lower and values.max() <= 1.1)


def trained(training: str, trial: Trial, seed: int) -> float | None:
    """The held-out loss at the end of a run, to six digits."""

    def task() -> NetworkTask:
        begun = TRAININGS[training]()
        STARTS[trial.start](begun.model)
        return begun._replace(batch=begun.batch * trial.batch)

    def make(model: nn.Module, _: RateAndDecay, __: int) -> Optimizers:
        return [METHODS[trial.method](model, trial)]

    maker: Maker = make
    share = stays if trial.method in CONSTANT else falls
    value = course(task, maker, RateAndDecay(trial.length), seed, trial.steps, share)
    return None if value is None else significant(value, 6)


def run(path: Path, *, quick: bool) -> None:
    """Add every run that the results lack, saving each."""
    torch.set_num_threads(1)  # the networks are too small to share
    versions = {"Python": platform.python_version(), **versions_of("gladstorm", "torch", "scikit-learn")}
    saved = begin("untuned_networks", path, {"quick": quick, "versions": versions}, "losses")
    results = from_json(DevelopmentResults, saved)
    for name, question in results.questions.items():
        missing = [
            planned for planned in question.runs() if planned[1].named(planned[0], planned[2]) not in results.losses
        ]
        with Progress(name, len(missing)) as shown:
            for done, (training, trial, seed) in enumerate(missing, 1):
                results.losses[trial.named(training, seed)] = trained(training, trial, seed)
                save(path, results)
                shown(done)
