"""Callbacks that log the noise of a training and evaluate an average; Trainers for NSTORM and for batches that grow.

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
    from transformers.trainer_callback import DefaultFlowCallback

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis import arrange_charts
from gladstorm.torch import NSTORM, AutoBatch, NoiseProbe, Untuned
from gladstorm.torch.batch_gradients import is_sharded, size_of

__all__ = ["AutoBatchTrainer", "EvaluateAverage", "NoiseMonitor", "TwoPointTrainer"]

STATE = "auto_batch.pt"  # of AutoBatch, in the folder of a checkpoint


class NoiseMonitor(TrainerCallback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """Logs the noise of a training's gradients with the Trainer's own logs: `log_history`, TensorBoard, W&B and others.

    Callbacks see gradients only after clipping. So with accumulation or several processes it hears those of the
    micro-batches as they come, at no cost; otherwise, and with FSDP2, it evaluates the model's loss on two parts of
    every 20th mini-batch again. It measures in the norms of the optimizer's steps, as `NoiseProbe` does. Parameters,
    buffers and random states are left as they are, to the bit. The newest reading goes into the next log, as often as
    `logging_steps` says. Names: `gladstorm.diagnosis.READINGS`.

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
            self.probe = NoiseProbe(model, self.every, norms=optimizer, **options)
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


class AutoBatchTrainer(Trainer):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """A Trainer whose batches grow by accumulation, as `gladstorm.torch.AutoBatch` decides.

    A step begins with `gradient_accumulation_steps`, 2 or more in one process, for which optimizer and schedule are
    tuned. Between steps that number is doubled or halved, as the noise allows, and the optimizer is scaled. All that
    the Trainer counts in steps, it counts in steps of the first size: `global_step`, `max_steps`, the schedule and its
    warm-up, and when to log, evaluate and save. So a checkpoint resumes where its samples end. The readings are in the
    Trainer's logs. In front of another Trainer it is a mixin: `class Mine(AutoBatchTrainer, YourTrainer)`.

    Args:
        positional: Arguments of the Trainer.
        pace: "safe" keeps batches at a quarter of the critical size or below it; "fast" lets them pass it.
        largest: The factor that batches grow by at most, a power of two.
        dry_run: Decide and log, and change nothing.
        named: Arguments of the Trainer.
    """

    def __init__(
        self, *positional: Any, pace: str = "safe", largest: int = 32, dry_run: bool = False, **named: Any
    ) -> None:
        super().__init__(*positional, **named)
        self.auto: AutoBatch | None = None  #: what decides, once the training has begun
        self._options: dict[str, Any] = {"pace": pace, "largest": largest, "dry_run": dry_run}
        self._resumed_from: str | None = None
        handler: Any = vars(self)["callback_handler"]
        handler.callbacks.insert(0, _GrowAtStepEnd(self))

    def train(self, *positional: Any, **named: Any) -> Any:
        """Train, and leave `gradient_accumulation_steps` as it was."""
        arguments: Any = self.args
        first = arguments.gradient_accumulation_steps
        try:
            return super().train(*positional, **named)
        finally:
            arguments.gradient_accumulation_steps, self._resumed_from = first, None

    def training_step(self, *positional: Any, **named: Any) -> torch.Tensor:
        """The loss of a micro-batch, times the steps that its step counts for, since the Trainer divides by these."""
        loss: torch.Tensor = super().training_step(*positional, **named)
        assert self.auto is not None  # since the training began
        if self.auto.due():
            self.auto.begin_step(self.lr_scheduler)
        return loss * self.auto.factor

    def log(self, logs: dict[str, Any], *positional: Any, **named: Any) -> None:
        """Log, and with a loss the readings."""
        if "loss" in logs and self.auto is not None:
            reading = self.auto.reading()
            logs |= {name: x for name, x in reading.items() if isinstance(x, str) or math.isfinite(x)}
        super().log(logs, *positional, **named)

    def begin(self, dataloader: Any, max_steps: int) -> None:
        """Begin with the first size, or with that of the checkpoint; refuse a training whose steps cannot grow.

        Args:
            dataloader: The Trainer's, of one epoch.
            max_steps: The steps of the first size in all epochs.
        """
        arguments: Any = self.args
        own: Any = self
        if own.is_deepspeed_enabled or own.is_fsdp_enabled:
            raise ValueError("AutoBatch: gradients must be whole; got deepspeed or fsdp. Use DistributedDataParallel.")
        if not hasattr(own.lr_scheduler, "base_lrs"):
            raise ValueError(
                "AutoBatch: lr_scheduler must have base_lrs, as LambdaLR; got "
                f"{type(own.lr_scheduler).__name__}. Write it as a LambdaLR."
            )
        micro, accumulate = own._train_batch_size, arguments.gradient_accumulation_steps
        samples = max_steps * micro * accumulate * arguments.world_size
        self.auto = AutoBatch(own.optimizer, budget=samples, micro=micro, accumulate=accumulate, **self._options)
        if self._resumed_from is not None:
            self.auto.load_state_dict(torch.load(Path(self._resumed_from) / STATE, weights_only=True))
        self.auto.refuse_uneven("train_dataset", len(dataloader) if hasattr(dataloader, "__len__") else math.inf)
        self.auto.refuse_uneven("max_steps", max_steps * accumulate)
        self._accumulate()

    def grow(self) -> None:
        """Let the next step be larger if it may."""
        assert self.auto is not None  # since the training began
        self.auto.end_step(self.lr_scheduler)
        self._accumulate()

    def _accumulate(self) -> None:
        assert self.auto is not None  # since the training began
        arguments: Any = self.args
        arguments.gradient_accumulation_steps = self.auto.accumulate * self.auto.factor

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """Save what decides beside them."""
        super()._save_optimizer_and_scheduler(output_dir)
        arguments: Any = self.args
        if arguments.should_save and self.auto is not None:
            torch.save(self.auto.state_dict(), Path(output_dir) / STATE)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Keep the checkpoint's folder until the training begins."""
        super()._load_optimizer_and_scheduler(checkpoint)
        self._resumed_from = checkpoint


class _GrowAtStepEnd(TrainerCallback):  # type: ignore[misc]  # mypy does not see the package's types where it is not installed
    """A callback that counts steps of the first size, before the Trainer's own decide what to do after them."""

    def __init__(self, trainer: AutoBatchTrainer) -> None:
        self._trainer = trainer

    @override
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._trainer.begin(given["train_dataloader"], state.max_steps)

    @override
    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        assert self._trainer.auto is not None  # since the training began
        for _ in range(self._trainer.auto.factor - 1):
            DefaultFlowCallback().on_step_end(args, state, control)
            state.global_step += 1
        self._trainer.grow()


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
