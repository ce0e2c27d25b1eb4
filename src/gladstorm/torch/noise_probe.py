"""A probe that rides along a training and changes nothing of it."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from gladstorm.diagnosis import Probe, Probes, Report, diagnose, spread
from gladstorm.foundation.rules import COUNT
from gladstorm.torch.cutting import cut, size_of
from gladstorm.torch.layer_remarks import remarks_on
from gladstorm.torch.normalized_step import norm_of
from gladstorm.torch.nstorm import NSTORM
from gladstorm.torch.same_sample import remember
from gladstorm.torch.sampled_loss import LossOf, NotFinite, SampledLoss, refuse_sharded

NO_PAIR = math.nan


class NoiseProbe:
    """Measures the noise of a training's gradients at every 20th step, from what is there to compare.

    **With an optimizer** it listens, and costs next to nothing: it compares the gradients of a step's micro-batches
    (gradient accumulation) and of the processes (DistributedDataParallel; every process has a probe), before they are
    averaged. Clipping after `backward` does not matter.

    **With a model** and one mini-batch to a step, call `look(loss_of, batch)` before `optimizer.step()`. At every 20th
    call it evaluates two quarters of the mini-batch, half a gradient more in twenty.

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
        self._listeners: list[RemovableHandle] = []
        self._model: torch.nn.Module | None = None
        remarks: tuple[str, ...] = ()
        if isinstance(optimizer_or_model, torch.nn.Module):
            model = optimizer_or_model
            self._model = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
            params = list(model.parameters())
            remarks = remarks_on(self._model)
        else:
            if isinstance(optimizer_or_model, NSTORM):
                raise ValueError(
                    "NoiseProbe: an optimizer must evaluate each micro-batch once; got NSTORM. Give the model, and "
                    "call look(loss_of, batch) before each step."
                )
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
            self._listen()

    def look(self, loss_of: LossOf, batch: Any) -> None:
        """Take a probe of this mini-batch, at the first call and every 20th after it.

        loss_of: the mean loss over the samples of a mini-batch, `loss_of(model, batch)`, unscaled.
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
        self._add(step, squares, norm_of(total).item() ** 2, size_of(parts[0]))

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
        self._stop_listening()
        for hook in self._hooks:
            hook.remove()

    def _listen(self) -> None:
        self._squares: defaultdict[int, list[Tensor]] = defaultdict(list)  # of each backward, one for each parameter
        self._totals = [torch.zeros_like(p) for p in self._params]
        self._listeners = [p.register_hook(self._heard(i)) for i, p in enumerate(self._params)]

    def _heard(self, i: int) -> Any:
        backward = 0  # of this parameter; a hook is called once in each

        @torch.no_grad()
        def heard(gradient: Tensor) -> None:
            nonlocal backward
            dense = gradient.to_dense()
            self._squares[backward].append(norm_of([dense]) ** 2)
            self._totals[i] += dense
            backward += 1

        return heard

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.remove()
        self._listeners = []

    def _before_step(self, _optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._listeners:
            return
        self._stop_listening()
        if any(map(callable, (*args[1:], kwargs.get("closure")))):  # the first is the optimizer itself
            self._say_once("evaluates in a closure, how often is its own affair")
            return
        scale = 1.0 if self._scaler is None else self._scaler.get_scale()
        micro_batches = len(self._squares)
        mine = [float(sum(squares, start=torch.zeros(()))) for squares in self._squares.values()]
        squares, totals = _over_processes(mine, self._totals)
        if len(squares) < 2:
            self._say_once("had one micro-batch in one process, and nothing to compare it with")
            return
        mean = micro_batches / scale  # the loss of a micro-batch is divided by their number
        total2 = norm_of(totals).item() ** 2
        self._add(self._steps, [mean**2 * each for each in squares], mean**2 * total2, self._samples)

    def _after_step(self, *_: Any) -> None:
        self._steps += 1
        if self._steps % self.every == 0:
            self._listen()

    def _add(self, step: int, squares: list[float], total2: float, samples: int) -> None:
        noise, gradient2 = spread(squares, total2, samples)
        distance = norm_of([p.detach() - x for p, x in zip(self._params, self._start, strict=True)]).item()
        if not math.isfinite(noise) or not math.isfinite(gradient2) or not math.isfinite(distance):
            self._not_finite += 1
            return
        where = "path" if distance else "start"
        row = Probe(step, step, where, distance, len(squares), samples, noise, gradient2, NO_PAIR, NO_PAIR, NO_PAIR)
        self._rows.append(row)

    def _say_once(self, what: str) -> None:
        said = f"NoiseProbe: a step {what}; give NoiseProbe(model), and call look(loss_of, batch) before each step."
        if said not in self._remarks:
            self._remarks = (*self._remarks, said)
            warnings.warn(said, stacklevel=4)


def _over_processes(squares: list[float], totals: list[Tensor]) -> tuple[list[float], list[Tensor]]:
    """Of all processes together: the squares of all gradients, and their sum."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return squares, totals
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, squares)
    for total in totals:
        dist.all_reduce(total)
    return [each for one in everybody for each in one], totals
