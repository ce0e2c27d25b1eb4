"""Callbacks that log the noise of a training and evaluate the average of `Untuned`, and a LightningModule for NSTORM.

A callback is one line, `Trainer(callbacks=[NoiseMonitor()])`; docs/lightning.md has a `TwoPointModule`. Without
accumulation any LightningModule trains with NSTORM, and with NSGDM always.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from typing_extensions import override

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.lightning"):
    from lightning import Callback, LightningModule

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis import arrange_charts
from gladstorm.torch import NoiseProbe, Untuned
from gladstorm.torch.batch_gradients import is_sharded, size_of

__all__ = ["EvaluateAverage", "NoiseMonitor", "TwoPointModule"]


class NoiseMonitor(Callback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Logs the noise of a training's gradients with `log_dict`, for every logger of the Trainer.

    At every 20th step, before clipping, it calls `training_step` on two parts of the mini-batch, with logging off. That
    is at most half a gradient more in twenty steps. With accumulation or several processes it compares the gradients
    that there are, at no cost. Parameters, buffers and random states are left as they are, to the bit. The newest
    reading is logged whenever the Trainer logs, every `log_every_n_steps`; its names are those of
    `gladstorm.diagnosis.READINGS`.

    Args:
        every: Steps from look to look.
    """

    def __init__(self, every: int = 20) -> None:
        self.every = COUNT.whole("NoiseMonitor", "every", every)
        self.probe: NoiseProbe | None = None  #: all probes of the training, after its start
        self._listens = False  # to gradients that there are, instead of a look at a mini-batch
        self._batch: Any = None
        self._index = self._looked_at = -1
        self._reading: dict[str, float] = {}

    @override
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Measure distances from here."""
        if not pl_module.automatic_optimization:
            raise TypeError(
                f"NoiseMonitor: optimization must be automatic; got {type(pl_module).__name__}, where it is manual. "
                "Use gladstorm.torch.NoiseProbe(model, on_reading=self.log_dict) in its training_step."
            )
        self._looked_at = -1
        for logger in trainer.loggers:
            arrange_charts(getattr(logger, "experiment", None))
        by_norm = trainer.gradient_clip_algorithm in (None, "norm")
        options: dict[str, Any] = {
            "max_norm": (by_norm and trainer.gradient_clip_val) or None,
            "on_reading": self._keep,
        }
        several = trainer.accumulate_grad_batches > 1 or trainer.world_size > 1
        self._listens = several and len(trainer.optimizers) == 1 and not is_sharded(pl_module.parameters())
        if self._listens:
            scaler = getattr(trainer.precision_plugin, "scaler", None)
            self.probe = NoiseProbe(trainer.optimizers[0], self.every, scaler=scaler, **options)
        else:
            self.probe = NoiseProbe(pl_module, self.every, **options)

    @override
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Keep the mini-batch."""
        self._batch, self._index = batch, batch_idx

    @override
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Look at it, once a step."""
        if self.probe is None or trainer.global_step == self._looked_at:
            return
        if self._listens:
            self.probe.samples = size_of(self._batch)
            self.probe.take()
            return
        if size_of(self._batch) < 2:
            return
        self._looked_at = trainer.global_step

        def loss_of(module: Any, batch: Any) -> Any:
            arguments = (batch, self._index)[: len(inspect.signature(module.training_step).parameters)]
            with trainer.precision_plugin.train_step_context():
                result = module.training_step(*arguments)
            return result["loss"] if isinstance(result, Mapping) else result

        silent = {"log": _log_nothing, "log_dict": _log_nothing}
        vars(pl_module).update(silent)
        try:
            self.probe.look(loss_of, self._batch)
        finally:
            for name in silent:
                del vars(pl_module)[name]

    @override
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Log the newest reading, where the Trainer logs."""
        self._batch = None
        if self._reading and trainer.global_step % trainer.log_every_n_steps == 0:
            pl_module.log_dict(self._reading, batch_size=1)

    @override
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Take the hooks off."""
        if self.probe is not None:
            self.probe.remove()

    def _keep(self, reading: dict[str, float]) -> None:
        self._reading = {name: value for name, value in reading.items() if math.isfinite(value)}


def _log_nothing(*_: Any, **__: Any) -> None:
    """Stand in for `log` while a part of a mini-batch is evaluated."""


class EvaluateAverage(Callback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Evaluates and saves the average of late iterates that `Untuned` keeps, in the place of the last iterate.

    Validation during `fit` is of the average. In a checkpoint `state_dict` is the average, and `last_iterate` what a
    resumed `fit` goes on from. After `fit` the module is the average.
    """

    def __init__(self) -> None:
        self._inside = ExitStack()
        self._last_iterate: dict[str, torch.Tensor] | None = None  # once the module is the average

    @override
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse a training that keeps no average."""
        self._last_iterate = None
        if not _untuned(trainer):
            names = ", ".join(type(optimizer).__name__ for optimizer in trainer.optimizers)
            raise TypeError(f"EvaluateAverage: an optimizer must be an Untuned; got {names}.")

    @override
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Put the average into the parameters."""
        for optimizer in _untuned(trainer) if self._last_iterate is None else []:
            self._inside.enter_context(optimizer.averaged())

    @override
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Put the last iterate back."""
        self._inside.close()

    @override
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Put the last iterate back."""
        self._inside.close()

    @override
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave the average in the parameters."""
        self._last_iterate = _values(pl_module)
        average = _average(trainer, pl_module)
        pl_module.load_state_dict(average)

    @override
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Save the average as the module's state, beside the last iterate."""
        checkpoint["last_iterate"] = self._last_iterate or checkpoint["state_dict"]
        if self._last_iterate is None:
            checkpoint["state_dict"] = _average(trainer, pl_module)

    @override
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Go on from the last iterate, if this is to train."""
        if trainer.training and "last_iterate" in checkpoint:
            pl_module.load_state_dict(checkpoint["last_iterate"])


def _untuned(trainer: Any) -> list[Untuned]:
    return [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, Untuned)]


def _values(module: Any) -> dict[str, torch.Tensor]:
    """Copies of a module's parameters and buffers."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _average(trainer: Any, module: Any) -> dict[str, torch.Tensor]:
    """Copies of a module's average and buffers."""
    with ExitStack() as inside:
        for optimizer in _untuned(trainer):
            inside.enter_context(optimizer.averaged())
        return _values(module)


class TwoPointModule(LightningModule):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """A LightningModule whose optimizer is an NSTORM. Define `loss` instead of `training_step`.

    It keeps micro-batches until there are `accumulate` of them, or the epoch ends. Then it makes a step with a closure
    that evaluates all of them: at the previous point and, with the same dropout, at the new one. That is one
    `global_step`, which counts for `max_steps`. Optimization is manual: clip with NSTORM's `max_grad_norm`. Schedules
    from `configure_optimizers` are stepped as in automatic optimization, after every `frequency` steps or epochs: do
    not step them elsewhere, and keep one that waits for a metric, as ReduceLROnPlateau does, out of there.
    """

    accumulate: int = 1  #: micro-batches per step

    def __init__(self, *positional: Any, **named: Any) -> None:
        super().__init__(*positional, **named)
        self.automatic_optimization = False
        self._waiting: list[tuple[Any, int]] = []

    def loss(self, batch: Any, index: int) -> torch.Tensor:  # noqa: ARG002 - for who defines it
        """The mean loss of a micro-batch. It is called twice per micro-batch, so whatever it logs is logged twice."""
        raise TypeError(f"{type(self).__name__}: loss(batch, index) must be defined by the module; got none.")

    def training_step(self, batch: Any, index: int) -> None:
        """Make a step if this is the last of its micro-batches."""
        self._waiting.append((batch, index))
        if len(self._waiting) < self.accumulate and not self.trainer.is_last_batch:
            return
        batches, self._waiting = self._waiting, []
        optimizer: Any = self.optimizers()
        optimizer.step(lambda: self._evaluate(batches))  # Lightning's, which counts
        for config in self.trainer.lr_scheduler_configs:
            by_step = config.interval == "step"
            count = self.trainer.global_step if by_step else self.trainer.current_epoch + 1
            if (by_step or self.trainer.is_last_batch) and count % config.frequency == 0:
                self.lr_scheduler_step(config.scheduler, None)

    def _evaluate(self, batches: list[tuple[Any, int]]) -> torch.Tensor:
        """The mean loss of the micro-batches, whose gradients are computed."""
        total = torch.zeros((), device=self.device)
        for batch, index in batches:
            loss = self.loss(batch, index) / len(batches)
            self.manual_backward(loss)
            total += loss.detach()
        return total
