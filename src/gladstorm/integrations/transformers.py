"""Callbacks that log the noise of a training and evaluate the average of `Untuned`, and a Trainer for NSTORM.

A callback is one line, `Trainer(..., callbacks=[NoiseMonitor()])`; docs/training.md has a `TwoPointTrainer`. NSGDM
evaluates once and needs nothing: `Trainer(..., optimizers=(NSGDM(model.parameters(), lr=0.1), schedule))`.
"""

from __future__ import annotations

import copy
import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, cast

import torch
from typing_extensions import override

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.transformers"):
    from transformers import Trainer, TrainerCallback

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis import arrange_charts
from gladstorm.torch import NSTORM, NoiseProbe, Untuned
from gladstorm.torch.batch_gradients import is_sharded, size_of

__all__ = ["EvaluateAverage", "NoiseMonitor", "TwoPointTrainer"]


class NoiseMonitor(TrainerCallback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Logs the noise of a training's gradients with the Trainer's own logs: `log_history`, TensorBoard, W&B and others.

    Callbacks see gradients only after clipping. So with accumulation or several processes it hears those of the
    micro-batches as they come, at no cost; otherwise, and with FSDP2, it evaluates the model's loss on two parts of
    every 20th mini-batch again. Parameters, buffers and random states are left as they are, to the bit. The newest
    reading goes into the next log, as often as `logging_steps` says. Names: `gladstorm.diagnosis.READINGS`.

    The Trainer calls its own callbacks first. So with `callbacks=[NoiseMonitor()]` readings are in `log_history` only;
    `NoiseMonitor().add_to(trainer)` also gives them to the trackers of `report_to`.

    Args:
        every: Steps from look to look.
    """

    def __init__(self, every: int = 20) -> None:
        self.every = COUNT.whole("NoiseMonitor", "every", every)
        self.probe: NoiseProbe | None = None  #: all probes of the training, after its start
        self._trackers: list[Any] = []
        self._inputs: Any = None
        self._hook: Any = None
        self._reading: dict[str, float] = {}

    def add_to(self, trainer: Trainer) -> Self:
        """Add the monitor to a Trainer before the callbacks that report to trackers, whose charts it arranges."""
        self._trackers = list(trainer.callback_handler.callbacks)
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    @override
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure distances from here."""
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
        while self._trackers:  # they begin with the training, after this callback
            callback = self._trackers.pop()
            for tracker in (getattr(callback, name, None) for name in ("tb_writer", "_wandb")):
                arrange_charts(tracker, prefix="train/")
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


class EvaluateAverage(TrainerCallback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Evaluates and saves the average of late iterates that `Untuned` keeps, in the place of the last iterate.

    Evaluations during the training are of the average. A checkpoint is of the last iterate, to resume from, and its
    folder `average` has the average. After the training the model is the average, for `trainer.save_model()` and
    `trainer.evaluate()`.
    """

    def __init__(self) -> None:
        self._inside: AbstractContextManager[None] | None = None

    @override
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Refuse what would evaluate or load the last iterate."""
        optimizer = _unwrap(given["optimizer"])
        if not isinstance(optimizer, Untuned):
            raise TypeError(f"EvaluateAverage: the optimizer must be an Untuned; got {type(optimizer).__name__}.")
        if args.load_best_model_at_end:
            raise ValueError(
                "EvaluateAverage: load_best_model_at_end must be False, since a checkpoint is of the last iterate; got "
                "True. Load the folder average of the best checkpoint."
            )

    @override
    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Put the average into the parameters if an evaluation follows."""
        if control.should_evaluate and self._inside is None:
            self._inside = _unwrap(given["optimizer"]).averaged()
            self._inside.__enter__()

    on_epoch_end = on_step_end

    @override
    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Put the last iterate back."""
        if self._inside is not None:
            self._inside.__exit__(None, None, None)
            self._inside = None

    @override
    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Save the average in the folder of the checkpoint."""
        model, folder = given["model"], Path(args.output_dir) / f"checkpoint-{state.global_step}" / "average"
        with _unwrap(given["optimizer"]).averaged():
            if state.is_world_process_zero and hasattr(model, "save_pretrained"):
                model.save_pretrained(folder)
            elif state.is_world_process_zero:
                folder.mkdir(parents=True, exist_ok=True)
                torch.save(model.state_dict(), folder / "pytorch_model.bin")

    @override
    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Leave the average in the parameters."""
        params = list(given["model"].parameters())
        with _unwrap(given["optimizer"]).averaged():
            average = [p.detach().clone() for p in params]
        with torch.no_grad():
            for p, mean in zip(params, average, strict=True):
                p.copy_(mean)


class TwoPointTrainer(Trainer):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """A Trainer whose optimizer is an NSTORM.

    With the last micro-batch of a step it makes the step, with a closure that evaluates all of them: at the previous
    point and, with the same dropout, at the new one. The `max_grad_norm` of the training arguments, 1 by default,
    becomes NSTORM's, which clips at both points, unless NSTORM has its own. The reported loss is that before the step.
    """

    def __init__(self, *positional: Any, **named: Any) -> None:
        super().__init__(*positional, **named)
        self._waiting: list[tuple[dict[str, Any], tuple[Any, ...]]] = []
        own: Any = copy.copy(vars(self)["args"])
        if own.fp16:
            raise ValueError("TwoPointTrainer: fp16 must be False, a GradScaler takes no closure; got True. Use bf16.")
        self._max_grad_norm = own.max_grad_norm
        own.max_grad_norm = 0.0  # the Trainer's own would come after the step
        self.args = own

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *rest: Any) -> torch.Tensor:
        """The loss of all micro-batches with the last of them; 0 with the others."""
        self._waiting.append((inputs, rest))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        batches, self._waiting = self._waiting, []
        train = super().training_step

        def closure() -> Any:
            losses = [train(model, dict(inputs), *rest) for inputs, rest in batches]  # some losses take the labels out
            return torch.stack(losses).sum()

        loss: Any = self._nstorm().step(closure)
        return cast(torch.Tensor, loss)

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> None:
        """Log no norm: the step is made, and its gradients are cleared."""

    def _nstorm(self) -> NSTORM:
        optimizer: NSTORM = _unwrap(self.optimizer)
        if optimizer.max_grad_norm is None and self._max_grad_norm:
            optimizer.max_grad_norm = self._max_grad_norm
        if _skip_without_closure not in optimizer._optimizer_step_pre_hooks.values():
            optimizer.register_step_pre_hook(_skip_without_closure)
        return optimizer


def _skip_without_closure(optimizer: torch.optim.Optimizer, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A hook that lets the Trainer's own `step()` do nothing, since the step is made."""
    closure = given[1] if len(given) > 1 else named.get("closure")
    return (optimizer, closure or _nothing), {}


def _nothing() -> None:
    """A closure that computes nothing, so that NSTORM makes no step."""


def _unwrap(optimizer: Any) -> Any:
    """The optimizer that Accelerate has wrapped."""
    return getattr(optimizer, "optimizer", optimizer)
