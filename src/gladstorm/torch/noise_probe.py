"""A probe that rides along a training and changes nothing of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis import Probe, Probes, Report, diagnose, spread
from gladstorm.torch.cutting import cut, size_of
from gladstorm.torch.layer_remarks import remarks_on
from gladstorm.torch.listening import NO_PAIR, MicroBatches, Pair, TwoPoints
from gladstorm.torch.normalized_step import norm_of
from gladstorm.torch.nstorm import NSTORM
from gladstorm.torch.same_sample import remember
from gladstorm.torch.sampled_loss import LossOf, NotFinite, SampledLoss, refuse_sharded


class NoiseProbe:
    """Measures the noise of a training's gradients at every 20th step, while it trains.

    **With an optimizer** it listens, and costs next to nothing: it compares the gradients of a step's micro-batches
    (gradient accumulation) and of the processes (DistributedDataParallel; every process has a probe), before they are
    averaged. Clipping after `backward` does not matter. NSTORM evaluates its closure at both ends of a step: if the
    closure has several micro-batches, or there are several processes, the probe reads ℓ, L and ρ from that too.

    **With a model** and one mini-batch to a step, call `look(loss_of, batch)` before `optimizer.step()`. At every 20th
    call it evaluates two quarters of the mini-batch: half a gradient more in twenty steps.

    Parameters, gradients, buffers and random states are left as they are, to the bit. Distances are measured from where
    the parameters are when the probe is made. Gradients that are not finite are left out and counted in a remark.

    every: steps from probe to probe.
    samples: with an optimizer, the number of samples in a micro-batch, or in a process' mini-batch. The noise is that
        of one sample; with 1, the default, that of one micro-batch.
    scaler: with an optimizer, the `GradScaler` that scales the losses, if there is one.

    >>> model = torch.nn.Linear(3, 1)
    >>> optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.1), NoiseProbe(model, every=2)
    >>> loss_of = lambda model, x: model(x).square().mean()
    >>> for x in torch.randn(10, 8, 3):
    ...     optimizer.zero_grad()
    ...     loss_of(model, x).backward()
    ...     probe.look(loss_of, x)
    ...     optimizer.step()
    >>> probe.probes.step.tolist()
    [0, 2, 4, 6, 8]
    """

    def __init__(
        self,
        optimizer_or_model: torch.optim.Optimizer | torch.nn.Module,
        every: int = 20,
        *,
        samples: int = 1,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        COUNT.require("NoiseProbe", "every", every)
        COUNT.require("NoiseProbe", "samples", samples)
        self.every, self._samples, self._scaler = every, samples, scaler
        self._rows: list[Probe] = []
        self._steps = self._not_finite = 0
        self._hooks: list[RemovableHandle] = []
        self._ear: MicroBatches | None = None
        self._model: torch.nn.Module | None = None
        remarks: tuple[str, ...] = ()
        if isinstance(optimizer_or_model, torch.nn.Module):
            model = optimizer_or_model
            self._model = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
            params = list(model.parameters())
            remarks = remarks_on(self._model)
        else:
            params = [p for group in optimizer_or_model.param_groups for p in group["params"]]
        self._remarks = remarks
        self._params = [p for p in params if p.requires_grad]
        if not self._params:
            raise ValueError("NoiseProbe: some parameters must require gradients; got none that do.")
        refuse_sharded("NoiseProbe", self._params)
        self._start = [p.detach().clone() for p in self._params]
        if isinstance(optimizer_or_model, torch.optim.Optimizer):
            self._hooks = [
                optimizer_or_model.register_step_pre_hook(self._before_step),
                optimizer_or_model.register_step_post_hook(self._after_step),
            ]
            if not isinstance(optimizer_or_model, NSTORM):
                self._ear = MicroBatches(self._params)

    def look(self, loss_of: LossOf, batch: Any) -> None:
        """Take a probe of this mini-batch, at the first call and every 20th after it.

        `loss_of(model, batch)` is the mean loss over the samples of a mini-batch, unscaled.
        """
        if self._model is None:
            raise ValueError("NoiseProbe: look needs a model to evaluate; got an optimizer. Give NoiseProbe(model).")
        step, self._steps = self._steps, self._steps + 1
        if step % self.every:
            return
        size = size_of(batch)
        if size < 2:
            raise ValueError(
                f"NoiseProbe: a mini-batch must have at least 2 samples to be compared; got {size}. Accumulate "
                "gradients, and give the optimizer instead of the model."
            )
        put_back = remember([self._model], {p.device for p in self._params})
        measured = SampledLoss("NoiseProbe", loss_of, self._model, self._params)
        parts = cut(batch, 4)[:2] if size >= 8 else cut(batch, 2)  # BatchNorm wants two samples
        try:
            gradients = [measured.gradients(part) for part in parts]
        except NotFinite:
            self._not_finite += 1
            return
        finally:
            put_back()
        total = [a + b for a, b in zip(*gradients, strict=True)]
        squares = [norm_of(each).item() ** 2 for each in gradients]
        samples = size_of(parts[0])
        noise, gradient2 = spread(squares, norm_of(total).item() ** 2, samples)
        self._add(step, self._params, len(parts), samples, noise, gradient2, NO_PAIR)

    @property
    def probes(self) -> Probes:
        """All probes so far."""
        lost = (f"{self._not_finite} probes were not finite and are left out.",) if self._not_finite else ()
        return Probes.of(self._rows, (*self._remarks, *lost))

    def save(self, path: str | Path) -> None:
        """Write them to a parquet file, for `gladstorm diagnose`."""
        self.probes.save(path)

    def report(self) -> Report:
        """What they tell."""
        return diagnose(self.probes)

    def remove(self) -> None:
        """Take the probe off its optimizer."""
        if self._ear is not None:
            self._ear.stop()
        for hook in self._hooks:
            hook.remove()

    def _before_step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._steps % self.every:
            return
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.stop()
        closure = any(map(callable, (*args[1:], kwargs.get("closure"))))  # the first is the optimizer itself
        if isinstance(optimizer, NSTORM) and closure:
            self._ear = TwoPoints(self._params)
        elif closure or ear is None:
            self._say_once("evaluates in a closure or in two phases, how often is its own affair")
        else:
            self._hear(ear)

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._ear is not None:
            self._ear.stop()
            self._hear(self._ear)
            self._ear = None
        self._steps += 1
        if self._steps % self.every == 0 and not isinstance(optimizer, NSTORM):
            self._ear = MicroBatches(self._params)

    def _hear(self, ear: MicroBatches) -> None:
        """Add what was heard, if there were two micro-batches or processes to compare."""
        scale = 1.0 if self._scaler is None else self._scaler.get_scale()
        groups, noise, gradient2 = ear.here.spread(self._samples, scale)
        if groups < 2:
            self._say_once("had one micro-batch in one process, and nothing to compare it with")
        else:
            self._add(self._steps, ear.x, groups, self._samples, noise, gradient2, ear.pair(self._samples))

    def _add(
        self, step: int, x: Sequence[Tensor], groups: int, samples: int, noise: float, gradient2: float, pair: Pair
    ) -> None:
        distance = norm_of([p.detach() - start for p, start in zip(x, self._start, strict=True)]).item()
        if not all(map(math.isfinite, (noise, gradient2, distance))):
            self._not_finite += 1
            return
        where = "path" if distance else "start"
        self._rows.append(Probe(step, step, where, distance, groups, samples, noise, gradient2, *pair))

    def _say_once(self, what: str) -> None:
        said = f"NoiseProbe: a step {what}; give NoiseProbe(model), and call look(loss_of, batch) before each step."
        if said not in self._remarks:
            self._remarks = (*self._remarks, said)
            warnings.warn(said, stacklevel=4)
