"""`NoiseProbe`: measures the noise of gradients during a training, and changes nothing of it."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from gladstorm.core.rules import COUNT, POSITIVE
from gladstorm.diagnosis import Probe, Probes, Report, diagnose, spread
from gladstorm.diagnosis.design import NotFinite
from gladstorm.diagnosis.probes import EUCLID, IN_LAYERS, LAYERS
from gladstorm.diagnosis.readings import Readings
from gladstorm.torch.batch_gradients import (
    LossOf,
    SampledLoss,
    is_sharded,
    layer_notes,
    reduced_over,
    refuse_sharded,
    size_of,
    split,
    squared,
)
from gladstorm.torch.gradient_records import GradientRecorder
from gladstorm.torch.norms import norm_of
from gladstorm.torch.options import processes
from gladstorm.torch.random_state import save_random_state
from gladstorm.torch.step_norms import LayerNoise, LayerNorms, Norms, norm_for

LARGE = 64  # samples, of which eighths are enough
NEARLY = 0.999  # of a threshold: as long as this, a gradient was clipped to it, but for rounding
LAST = 4  # the last part of the looks, of so many, is what layers are measured over
NOTHING = (math.nan, math.nan, math.nan)  # of what takes a second point
LOGGER = logging.getLogger(__name__)


class NoiseProbe:
    """Measures the noise of a training's gradients at every 20th step, while it trains.

    **With an optimizer** it costs next to nothing: hooks compare the gradients of a step's micro-batches
    (gradient accumulation) and of the processes (DistributedDataParallel; every process has a probe), before they are
    averaged; in norms of layers, of one half of them with the other. Clipping after `backward` does not matter. Who
    evaluates in a closure calls `take()` there.

    **With a model** and one mini-batch to a step, call `look(loss_of, batch)` before `optimizer.step()`. At every 20th
    call it evaluates two quarters of the mini-batch, or two eighths where it has 64 samples or more: at most half a
    gradient more in twenty steps. A model that FSDP2 (`fully_shard`) has cut is probed this way too, by all processes:
    each evaluates two parts of its own mini-batch.

    Parameters, gradients, buffers and random states are left as they are, to the bit. Distances are measured from where
    the parameters are when the probe is made. Gradients that are not finite are left out and counted in a remark. Once
    there is a probe, nothing that fails here ends the training, `on_reading` included: it is logged once and counted.

    Args:
        optimizer_or_model: What to probe, as above.
        every: Steps from probe to probe.
        samples: With an optimizer, the number of samples in a micro-batch, or in a process' mini-batch. The noise is
            that of one sample; with 1, the default, that of one micro-batch.
        scaler: With an optimizer, the `GradScaler` that scales the losses, if there is one.
        max_norm: The threshold at which the training clips gradients, if it does: readings then have the share of
            looks at which that acts, `clip/share`, and its bias, `clip/bias`.
        norms: With a model, the optimizer or a function that makes its parameter groups, such as `by_layer`: if all
            groups name a norm of their tensors, distances are in the norm in which the optimizer's steps have length 1,
            gradients and noise in its dual (`LayerNorms`), and `layers()` has those of each tensor. A function may
            leave parameters out. An optimizer that is probed itself is measured in its norms without this.
        on_reading: Called after every probe with a dict of floats, for a dashboard: the names of
            `gladstorm.diagnosis.READINGS`. What is not known yet is not a number.

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
        max_norm: float | None = None,
        norms: Norms | torch.optim.Optimizer | None = None,
        on_reading: Callable[[dict[str, float]], object] | None = None,
    ) -> None:
        self.every, self.samples = (
            COUNT.whole("NoiseProbe", *each) for each in (("every", every), ("samples", samples))
        )
        self._scaler = scaler
        if max_norm is not None:
            POSITIVE.require("NoiseProbe", "max_norm", max_norm)
        self._max_norm, self._on_reading, self._readings = max_norm, on_reading, Readings(max_norm)
        self._clipped: list[int] = [0, 0]  # of so many steps, on so many
        self._rows: list[Probe] = []
        self._of_layers: list[np.ndarray] = []
        self._steps = self._not_finite = self._failed = 0
        self._hooks: list[RemovableHandle] = []
        self._recorder: GradientRecorder | None = None
        self._model: torch.nn.Module | None = None
        self._notes: tuple[str, ...] = ()  # remarks
        self._names: dict[Tensor, str] = {}
        given: Any = optimizer_or_model
        if isinstance(given, torch.nn.Module):
            self._model = given.module if isinstance(given, torch.nn.parallel.DistributedDataParallel) else given
            self._notes = layer_notes(self._model)
            self._names = {p: name for name, p in self._model.named_parameters()}
        elif norms is not None:
            raise ValueError("NoiseProbe: norms needs a model, whose mini-batches it can look at; got an optimizer.")
        else:
            given = norms = getattr(given, "optimizer", given)  # Accelerate wraps it
            if not isinstance(given, torch.optim.Optimizer):
                raise ValueError(f"NoiseProbe: give it a model or an optimizer; got a {type(given).__name__}.")
            for group in given.param_groups:
                self._names.update(zip(group["params"], group.get("param_names", ()), strict=False))
        self._norm = norm_for(self._model, norms, "NoiseProbe")
        if isinstance(self._norm, LayerNorms):
            self._notes = (*self._notes, IN_LAYERS)
        self._params = self._norm.params
        if not self._params:
            raise ValueError("NoiseProbe: some parameters must require gradients; got none that do.")
        self._start = [p.detach().clone() for p in self._params]
        if self._model is not None:
            self._reduced_over = reduced_over("NoiseProbe", self._model, self._params)
            return
        refuse_sharded("NoiseProbe", self._params, "Give NoiseProbe(model), and call look before each step.")
        self._hooks = [given.register_step_pre_hook(self._before_step), given.register_step_post_hook(self._after_step)]
        self._listen()

    def look(self, loss_of: LossOf, batch: Any) -> None:
        """Take a probe of this mini-batch, at the first call and every 20th after it.

        Args:
            loss_of: `loss_of(model, batch)` returns the mean loss over the samples of a mini-batch, unscaled.
            batch: Tensors with the samples along the first dimension, in dicts and sequences too.
        """
        if self._model is None:
            raise ValueError("NoiseProbe: look needs a model to evaluate; got an optimizer. Give NoiseProbe(model).")
        step, self._steps = self._steps, self._steps + 1
        if step % self.every == 0:
            with self._counted():
                self._look(self._model, step, loss_of, batch)

    def _look(self, model: torch.nn.Module, step: int, loss_of: LossOf, batch: Any) -> None:
        size = size_of(batch)
        if size < 2:
            raise ValueError(
                f"NoiseProbe: a mini-batch must have at least 2 samples to be compared; got {size}. Accumulate "
                "gradients, and give the optimizer instead of the model."
            )
        restore = save_random_state([model], {p.device for p in self._params})
        measured = SampledLoss("NoiseProbe", loss_of, model, self._params)
        share = 8 if size >= LARGE else 4 if size >= 8 else 2  # BatchNorm wants two samples
        parts = split(batch, share)[:2]
        try:
            of = measured.reduced_gradients if is_sharded(self._params) else measured.gradients
            evaluated = [of(part) for part in parts]
        except NotFinite:
            self._not_finite += 1
            return
        finally:
            restore()
        (A, norm_A), (B, norm_B) = evaluated
        both = [torch.add(a, b) for a, b in zip(A, B, strict=True)]
        samples, halves = size_of(parts[0]) * self._reduced_over, (norm_A, norm_B)
        if isinstance(self._norm, LayerNorms):
            noise, gradient2 = self._measure_layers(self._norm, [A, B], samples)
            halves = math.nan, math.nan  # what clipping does is told by Euclidean noise
        else:
            noise, gradient2 = spread([squared(norm_A), squared(norm_B)], squared(norm_of(both).item()), samples)
        if self._max_norm is not None:  # gradients are as long as that after clipping, and longer before
            now = norm_of([p.grad for p in self._params if p.grad is not None]).item()
            self._count_clipped(now >= NEARLY * self._max_norm)
        self._add(step, size * self._reduced_over, (len(parts), samples, noise, gradient2, *NOTHING, *halves), both)

    @property
    def probes(self) -> Probes:
        """All probes so far."""
        lost = ((self._not_finite, "were not finite and are left out"), (self._failed, "or their readings failed"))
        remarks = (*self._notes, *(f"{count} probes {what}." for count, what in lost if count))
        return Probes.of(self._rows, remarks, LAYERS if isinstance(self._norm, LayerNorms) else EUCLID)

    def layers(self) -> dict[str, LayerNoise]:
        """Noise, gradient and critical batch size of each tensor in its norm, over the last quarter of the looks.

        It needs norms of layers. Those of signs are `lambda model: [{"params": model.parameters(), "norm": "sign"}]`.
        """
        if not self._of_layers:
            raise ValueError("NoiseProbe: layers needs a look with norms, such as NoiseProbe(model, norms=by_layer).")
        rows = np.mean(self._of_layers[-max(1, len(self._of_layers) // LAST) :], axis=0).tolist()
        names = [self._names.get(p, str(i)) for i, p in enumerate(self._params)]
        return {name: LayerNoise(*row) for name, row in zip(names, rows, strict=True)}

    def save(self, path: str | Path) -> None:
        """Write the probes to a parquet file, for `gladstorm diagnose`."""
        self.probes.save(path)

    def report(self) -> Report:
        """The report on all probes so far."""
        return diagnose(self.probes)

    def remove(self) -> None:
        """Take the probe off its optimizer."""
        self._stop_listening()
        for hook in self._hooks:
            hook.remove()

    def take(self) -> None:
        """Take the probe of this step, if it has one, of the gradients heard so far.

        The hooks do so before `optimizer.step()`. Who evaluates inside `optimizer.step(closure)` calls it there, after
        the last `backward`.
        """
        recorder = self._stop_listening()
        if recorder is not None:
            with self._counted():
                self._take(recorder)

    def _listen(self) -> None:
        """Hear the gradients of the next step, if it has a probe."""
        if self._steps % self.every == 0:
            halves = self._max_norm is not None or isinstance(self._norm, LayerNorms)
            self._recorder = GradientRecorder(self._params, halves=halves)

    def _stop_listening(self) -> GradientRecorder | None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.stop()
        return recorder

    def _before_step(self, _: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not any(map(callable, (*args[1:], kwargs.get("closure")))):  # the first is the optimizer itself
            self.take()

    def _after_step(self, *_: Any) -> None:
        if self._stop_listening() is not None:
            self._warn_once("evaluates in a closure, where nobody called take()")
        self._steps += 1
        self._listen()

    def _take(self, recorder: GradientRecorder) -> None:
        """Add a probe, if there were two micro-batches or processes to compare."""
        scale = 1.0 if self._scaler is None else self._scaler.get_scale()
        groups, noise, gradient2 = recorder.spread(self.samples, scale)
        if groups < 2:
            self._warn_once("had one micro-batch in one process, and nothing to compare it with")
            return
        if self._max_norm is not None:
            norm = norm_of(recorder.totals).item() / processes() / scale
            self._count_clipped(norm >= NEARLY * self._max_norm)
        numbers: tuple[Any, ...] = groups, self.samples, noise, gradient2, *NOTHING, *recorder.halves(scale)
        if isinstance(self._norm, LayerNorms):
            first, second, micro_batches = recorder.half_means(scale)
            samples = micro_batches * self.samples
            numbers = 2, round(samples), *self._measure_layers(self._norm, [first, second], samples), *NOTHING
        self._add(self._steps, groups * self.samples, numbers, recorder.totals)

    def _measure_layers(self, norm: LayerNorms, gradients: list[list[Tensor]], samples: float) -> tuple[float, float]:
        """V_* and ‖∇f‖_*² of two groups of samples; those of each tensor are kept."""
        noise, gradient2, of_layers = norm.layers(gradients, samples)
        self._of_layers.append(of_layers)
        return noise, gradient2

    def _count_clipped(self, clipped: bool) -> None:
        self._clipped[0] += clipped
        self._clipped[1] += 1

    def _add(self, step: int, batch: int, numbers: tuple[Any, ...], room: list[Tensor]) -> None:
        """Add a probe of the parameters as they are now, and read it; `room` is memory like theirs."""
        for r, p, start in zip(room, self._params, self._start, strict=True):
            torch.sub(p.detach(), start, out=r)
        distance = self._norm.length(room)
        _, _, noise, gradient2, *_ = numbers
        if not all(map(math.isfinite, (noise, gradient2, distance))):
            self._not_finite += 1
            return
        self._rows.append(Probe(step, step, "path" if distance else "start", distance, *numbers))
        if self._on_reading is None:
            return
        others = {"skipped": float(self._not_finite + self._failed)}
        if self._clipped[1]:
            others["clip/share"] = self._clipped[0] / self._clipped[1]
        self._on_reading(self._readings.update(self._rows[-1], batch, **others))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count and log what fails; at the first probe raise it, since a wrong argument shows there."""
        try:
            yield
        except Exception:
            if not self._rows:
                raise
            self._failed += 1
            if self._failed == 1:
                LOGGER.exception("NoiseProbe: a probe failed, and the training goes on; later failures are counted.")

    def _warn_once(self, reason: str) -> None:
        message = (
            f"NoiseProbe: a step {reason}; give NoiseProbe(model), and call look(loss_of, batch) before each step."
        )
        if message not in self._notes:
            self._notes = (*self._notes, message)
            warnings.warn(message, stacklevel=4)
