"""Callbacks that log the noise of a training, let its batches grow and evaluate an average; a module for NSTORM.

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
    from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis import arrange_charts
from gladstorm.torch import NoiseProbe, Untuned, auto_batch
from gladstorm.torch.batch_gradients import is_sharded, size_of

__all__ = ["AutoBatch", "EvaluateAverage", "NoiseMonitor", "TwoPointModule"]


class NoiseMonitor(Callback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Logs the noise of a training's gradients with `log_dict`, for every logger of the Trainer.

    At every 20th step, before clipping, it calls `training_step` on two parts of the mini-batch, with logging off. That
    is at most half a gradient more in twenty steps. With accumulation or several processes it compares the gradients
    that there are, at no cost. It measures in the norms of the optimizer's steps, as `NoiseProbe` does. Parameters,
    buffers and random states are left as they are, to the bit. The newest reading is logged whenever the Trainer logs,
    every `log_every_n_steps`; its names are those of `gladstorm.diagnosis.READINGS`.

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
            norms = trainer.optimizers[0] if len(trainer.optimizers) == 1 else None
            self.probe = NoiseProbe(pl_module, self.every, norms=norms, **options)

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


class AutoBatch(Callback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Lets the batches of a training grow by accumulation: `gladstorm.torch.AutoBatch`, in a Lightning Trainer.

    A step begins with the Trainer's `accumulate_grad_batches`, 2 or more in one process, for which optimizer and
    schedule are tuned. Between steps the callback doubles or halves that number, as the noise allows, and scales the
    optimizer. Schedules count samples: one over steps is stepped once for each step of the first size, as
    `trainer.estimated_stepping_batches` counts them, while `global_step` counts the steps made. Every logger gets the
    readings, whenever the Trainer logs, and the reason when it changes. Checkpoints between steps hold all of it.

    Args:
        pace: "safe" keeps batches at a quarter of the critical size or below it; "fast" lets them pass it.
        largest: The factor that batches grow by at most, a power of two.
        dry_run: Decide and log, and change nothing.
    """

    def __init__(self, *, pace: str = "safe", largest: int = 32, dry_run: bool = False) -> None:
        self.auto: auto_batch.AutoBatch | None = None  #: what decides, from the first mini-batch on
        self._options: dict[str, Any] = {"pace": pace, "largest": largest, "dry_run": dry_run}
        self._first = 0  # the Trainer's own accumulation
        self._schedules: dict[str, Any] = {}
        self._saved: dict[str, Any] = {}
        self._stepping = False
        self._reason = ""

    @override
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse a training whose steps cannot grow."""
        limits = (trainer.max_epochs, trainer.max_steps)
        configs = trainer.lr_scheduler_configs
        unknown = [c for c in configs if not hasattr(c.scheduler, "base_lrs") or c.frequency != 1 or len(configs) > 1]
        kind = type(trainer.strategy).__name__
        for holds, rule in (
            (
                pl_module.automatic_optimization,
                "optimization must be automatic; got manual. Call gladstorm.torch.AutoBatch there",
            ),
            (
                isinstance(trainer.strategy, DDPStrategy | SingleDeviceStrategy),
                f"strategy must be one device or DDP, where gradients are whole; got {kind}. Use strategy='ddp'",
            ),
            (
                getattr(trainer.precision_plugin, "scaler", None) is None,
                "precision must need no GradScaler, which skips steps; got 16-mixed. Use 'bf16-mixed'",
            ),
            (
                limits[0] > 0 > limits[1],
                f"max_epochs must end the training, since steps grow; got max_epochs={limits[0]}, max_steps="
                f"{limits[1]}. Set max_epochs only",
            ),
            (
                not unknown,
                "lr_scheduler must be a single one with base_lrs, as LambdaLR, and frequency=1; got "
                f"{[(type(c.scheduler).__name__, c.frequency) for c in configs]}. Write it as a LambdaLR",
            ),
        ):
            if not holds:
                raise ValueError(f"AutoBatch: {rule}.")
        self._first, self._stepping, self._reason = trainer.accumulate_grad_batches, False, ""
        self._schedules = {f"by_{config.interval}": config.scheduler for config in configs}
        self.auto = None

    @override
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Begin with the first mini-batch, which has the size of all."""
        if self.auto is not None:
            return
        micro, (optimizer,) = size_of(batch), trainer.optimizers
        epoch = trainer.num_training_batches
        samples = epoch * micro * trainer.world_size * trainer.max_epochs if math.isfinite(epoch) else 1
        options = self._options | {"accumulate": self._first}
        self.auto = auto_batch.AutoBatch(optimizer, budget=samples, micro=micro, **options)
        if self._saved:
            self.auto.load_state_dict(self._saved)
            self._saved = {}
        self.auto.refuse_uneven("limit_train_batches", epoch)
        if trainer.val_check_batch is not None:
            self.auto.refuse_uneven("val_check_interval", trainer.val_check_batch)
        trainer.accumulate_grad_batches = self.auto.accumulate * self.auto.factor

    @override
    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """Count a mini-batch."""
        assert self.auto is not None  # since the mini-batch began
        self.auto.due()

    @override
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Step the schedule to the middle of the step's samples."""
        assert self.auto is not None  # since the mini-batch began
        self.auto.begin_step(self._schedules.get("by_step"))
        self._stepping = True

    @override
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Let the next step be larger if it may, and log."""
        if not self._stepping:
            return
        assert self.auto is not None  # since the mini-batch began
        self._stepping = False
        self.auto.end_step(**self._schedules)
        trainer.accumulate_grad_batches = self.auto.accumulate * self.auto.factor
        reading = self.auto.reading()
        reason = reading.pop("batch/reason")
        if trainer.global_step % trainer.log_every_n_steps == 0:
            pl_module.log_dict({name: float(x) for name, x in reading.items() if math.isfinite(x)}, batch_size=1)
        for logger in trainer.loggers if reason != self._reason else []:
            writer: Any = getattr(logger, "experiment", None)
            if hasattr(writer, "add_text"):  # TensorBoard, whose metrics are numbers
                writer.add_text("batch/reason", reason, trainer.global_step)
            else:
                logger.log_metrics({"batch/reason": reason}, step=trainer.global_step)
        self._reason = reason

    @override
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Give the Trainer its own accumulation back."""
        trainer.accumulate_grad_batches = self._first or trainer.accumulate_grad_batches

    @override
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Give the Trainer its own accumulation back."""
        self.on_train_end(trainer, pl_module)

    @override
    def state_dict(self) -> dict[str, Any]:
        """Return what `gladstorm.torch.AutoBatch` keeps."""
        return self._saved if self.auto is None else self.auto.state_dict()

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint, with as many samples in a step as there were."""
        self._saved = state_dict


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
