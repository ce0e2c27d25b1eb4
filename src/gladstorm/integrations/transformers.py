"""A callback that logs the noise of a training, and a Trainer for NSTORM: every mini-batch at two points.

The callback is one line, `Trainer(..., callbacks=[NoiseMonitor()])`. The Trainer is, for example::

    optimizer = NSTORM(model.parameters(), lr=0.1, model=model)
    trainer = TwoPointTrainer(model, arguments, train_dataset=data, optimizers=(optimizer, schedule))
    trainer.train()

NSGDM evaluates once and needs nothing: `Trainer(..., optimizers=(NSGDM(model.parameters(), lr=0.1), schedule))`.
"""

from __future__ import annotations

import copy
import math
import sys
from typing import Any

import torch
from typing_extensions import override

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.transformers"):
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_callback import CallbackHandler

from gladstorm.diagnosis import arrange_charts
from gladstorm.torch import NSTORM, NoiseProbe
from gladstorm.torch.batch_gradients import is_sharded, size_of

__all__ = ["NoiseMonitor", "TwoPointTrainer"]


class NoiseMonitor(TrainerCallback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Logs the noise of a training's gradients with the Trainer's own logs: `log_history`, TensorBoard, W&B and others.

    Callbacks see gradients only after clipping. So with accumulation or several processes it hears those of the
    micro-batches as they come, at no cost; otherwise, and with FSDP2, it evaluates the model's loss on two parts of
    every 20th mini-batch again. Parameters, buffers and random states are left as they are, to the bit. The newest
    reading goes into the next log, as often as `logging_steps` says. Names: `gladstorm.diagnosis.READINGS`.

    Args:
        every: Steps from look to look.
    """

    def __init__(self, every: int = 20) -> None:
        self.every = every
        self.probe: NoiseProbe | None = None  #: all probes of the training, after its start
        self._inputs: Any = None
        self._hook: Any = None
        self._reading: dict[str, float] = {}

    @override
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure distances from here."""
        _come_first(self, sys._getframe(1).f_locals.get("self"))
        model, optimizer = given["model"], given["optimizer"]
        options: dict[str, Any] = {"max_norm": args.max_grad_norm or None, "on_reading": self._keep}
        if (args.gradient_accumulation_steps > 1 or args.world_size > 1) and not is_sharded(model.parameters()):
            options |= {"samples": args.per_device_train_batch_size, "scaler": getattr(optimizer, "scaler", None)}
            self.probe = NoiseProbe(optimizer, self.every, **options)
        else:
            self.probe = NoiseProbe(model, self.every, **options)
            self._hook = model.register_forward_pre_hook(self._keep_inputs, with_kwargs=True)

    @override
    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look at the mini-batch, if there is no accumulation."""
        if self._hook is not None and self._inputs is not None and size_of(self._inputs) > 1:
            assert self.probe is not None  # made with the hook
            self.probe.look(_loss_of, self._inputs)
        self._inputs = None

    @override
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:
        """Add the newest reading to what is logged, and to what was."""
        for log in (logs, *state.log_history[-1:]):
            log.update(self._reading)
        self._reading = {}

    @override
    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Take the hooks off."""
        if self.probe is not None:
            self.probe.remove()
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _keep(self, reading: dict[str, float]) -> None:
        self._reading = {name: value for name, value in reading.items() if math.isfinite(value)}

    def _keep_inputs(self, model: torch.nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        if model.training:  # the number of items is that of the whole mini-batch
            self._inputs = (positional, {name: v for name, v in named.items() if name != "num_items_in_batch"})


def _loss_of(model: torch.nn.Module, inputs: Any) -> torch.Tensor:
    positional, named = inputs
    output = model(*positional, **named)
    loss = output.get("loss") if hasattr(output, "get") else output[0]
    if loss is None:
        raise ValueError(
            "NoiseMonitor: the model's output must have a loss; got none, since the Trainer computes it. Set "
            "gradient_accumulation_steps to 2 or more: then the monitor needs no loss."
        )
    result: torch.Tensor = loss
    return result


def _come_first(monitor: NoiseMonitor, handler: object) -> None:
    """Move the monitor before the callbacks that report to trackers, which would see logs without its readings.

    The Trainer calls its own first and gives callbacks no way to its list of them, hence the caller's frame. By then
    the trackers are there, and their charts can be arranged.
    """
    if isinstance(handler, CallbackHandler):
        handler.callbacks.remove(monitor)
        for callback in handler.callbacks:
            for tracker in (getattr(callback, name, None) for name in ("tb_writer", "_wandb")):
                arrange_charts(tracker, prefix="train/")
        handler.callbacks.insert(0, monitor)


class TwoPointTrainer(Trainer):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """A Trainer whose optimizer is an NSTORM.

    It keeps the micro-batches of a step until the last one. Then it evaluates all of them at the previous point and all
    again at the new one, with the same dropout. The `max_grad_norm` of the training arguments, 1 by default, becomes
    NSTORM's, which clips at both points, unless NSTORM has its own. The reported loss is that at the new point.
    """

    def __init__(self, *positional: Any, **named: Any) -> None:
        super().__init__(*positional, **named)
        self._waiting: list[tuple[dict[str, Any], tuple[Any, ...]]] = []
        own: Any = copy.copy(vars(self)["args"])
        self._max_grad_norm = own.max_grad_norm
        own.max_grad_norm = 0.0  # the Trainer's own would clip the second gradient only
        self.args = own

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *rest: Any) -> torch.Tensor:
        """The loss of all micro-batches with the last of them; 0 with the others."""
        self._waiting.append((inputs, rest))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        batches, self._waiting = self._waiting, []
        with self._nstorm().previous_point(self.accelerator.scaler):
            for inputs, rest in batches:
                super().training_step(model, dict(inputs), *rest)  # a copy: some losses take the labels out
        losses = [super(TwoPointTrainer, self).training_step(model, inputs, *rest) for inputs, rest in batches]
        return torch.stack(losses).sum()

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        """The norm at the new point, to be logged; the Trainer's own writes the gradients, which NSTORM refuses."""
        if grad_norm is not None:
            return grad_norm
        scaler = self.accelerator.scaler
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        return norm if scaler is None else norm / scaler.get_scale()

    def _nstorm(self) -> NSTORM:
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)  # Accelerate wraps it
        if not isinstance(optimizer, NSTORM):
            found = type(optimizer).__name__
            raise TypeError(f"TwoPointTrainer: the optimizer must be an NSTORM; got {found}, which a Trainer trains.")
        if optimizer.max_grad_norm is None and self._max_grad_norm:
            optimizer.max_grad_norm = self._max_grad_norm
        return optimizer
