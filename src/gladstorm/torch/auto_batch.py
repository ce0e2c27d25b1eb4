"""`AutoBatch`: a training whose batches grow as its noise allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from gladstorm.core.batch_control import BatchControl, RunningMean, begin
from gladstorm.core.rules import COUNT
from gladstorm.torch.batch_gradients import reduced_over, refuse_sharded
from gladstorm.torch.gradient_records import GradientRecorder
from gladstorm.torch.norms import cut_as, inner_of, norm_of, whole
from gladstorm.torch.options import processes
from gladstorm.torch.scale_batch import RULES, scale_batch


class AutoBatch:
    """Lets the batches of a training grow by accumulation, as soon as the noise of its gradients allows it.

    The optimizer and its schedule are those that you tuned for small batches. The loop gives micro-batches, and a step
    is made when there are enough of them::

        auto = AutoBatch(optimizer, budget=len(data) * epochs, micro=8)
        for inputs, targets in micro_batches:
            (loss_of(model(inputs), targets) * auto.share).backward()
            if auto.due():
                auto.step(scheduler)

    A step has two micro-batches at first: their gradients are compared with each other, and with those of the step
    before. When the noise is so large that twice as many would not cost samples, they become twice as many, and
    `scale_batch` changes the optimizer with them. Until then the training keeps its bits. Everything is counted in
    samples: the schedule is stepped once for each step of the first size. Clip gradients, if you do, between `due` and
    `step`. With DistributedDataParallel every process has an AutoBatch, and all decide the same.

    It makes fewer steps of the same samples: that saves time where a larger batch is computed in parallel, by several
    processes, or where steps cost more than samples. It does not choose a better batch than the one it starts with, and
    losses that compare the samples of a batch, or BatchNorm, see micro-batches only.

    Args:
        optimizer: One that `scale_batch` has a rule for, as it is or as Accelerate prepares it.
        budget: The samples that the training will see, in all processes.
        micro: Samples in a micro-batch of one process.
        accumulate: Micro-batches of a process in a step of the first size: at least 2, or 1 with several processes.
        pace: "safe" keeps batches at a quarter of the critical size or below it; "fast" lets them pass it.
        largest: The factor that batches grow by at most, a power of two.
        dry_run: Decide and report, and change nothing.
        model: The model, if FSDP2's `fully_shard` has cut it: micro-batches are then compared over all processes.
        on_reading: Called after every step with a dict of numbers for a dashboard, and the reason.

    >>> slope = torch.nn.Parameter(torch.zeros(3))
    >>> auto = AutoBatch(torch.optim.SGD([slope], lr=0.01), budget=800, micro=2)
    >>> data = 1 + 10 * torch.randn(400, 2, 3, generator=torch.Generator().manual_seed(0))  # noise, mostly
    >>> for batch in data:
    ...     ((batch @ slope).mean() * auto.share).backward()
    ...     if auto.due():
    ...         auto.step()
    >>> auto.samples, auto.steps < 200
    (800, True)
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        budget: int,
        micro: int,
        accumulate: int = 2,
        pace: str = "safe",
        largest: int = 32,
        dry_run: bool = False,
        model: torch.nn.Module | None = None,
        on_reading: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        own = getattr(optimizer, "optimizer", optimizer)  # Accelerate wraps it
        if type(own) not in RULES:
            kinds = ", ".join(kind.__name__ for kind in RULES)
            raise ValueError(f"AutoBatch: optimizer must be one of {kinds}; got {type(own).__name__}.")
        if getattr(optimizer, "scaler", None) is not None:
            raise ValueError("AutoBatch: precision must need no GradScaler, which skips steps; got fp16. Use bf16.")
        if (divides := getattr(getattr(optimizer, "gradient_state", None), "num_steps", 1)) != 1:
            raise ValueError(
                "AutoBatch: the Accelerator's gradient_accumulation_steps must be 1, since its backward divides by it "
                f"as auto.share does; got {divides}. Give accumulate={divides} here."
            )
        counts = {"budget": budget, "micro": micro, "accumulate": accumulate}
        budget, micro, accumulate = (COUNT.whole("AutoBatch", *each) for each in counts.items())
        self._params = [p for group in own.param_groups for p in group["params"] if p.requires_grad]
        if model is None:
            refuse_sharded("AutoBatch", self._params, "Give the model that fully_shard has cut, model=….")
        self._reduced = model is not None and reduced_over("AutoBatch", model, self._params) > 1
        if accumulate * self._pieces < 2:
            raise ValueError(
                "AutoBatch: accumulate must be at least 2 in one process and with FSDP2, since gradients of two "
                f"micro-batches are compared; got accumulate={accumulate}. Halve the micro-batch."
            )
        self._first = micro * accumulate * processes()  # samples of a step of the first size
        sgd = type(own) is torch.optim.SGD
        self._control, self._every = begin("AutoBatch", budget / self._first, pace, largest, sgd=sgd)
        self.optimizer, self.micro, self.accumulate, self.dry_run = own, micro, accumulate, dry_run
        self.samples = self.steps = 0  #: so far, of all processes
        self._first_rate = self._rate() or math.nan
        self._on_reading = on_reading
        self._have = 0  # micro-batches of this step
        self._previous: list[Tensor] | None = None  # the mean gradient of the step before, if it was looked at
        self._recorder: GradientRecorder | None = None
        self._listen()

    @property
    def factor(self) -> int:
        """How many times larger batches are than at first."""
        return 1 if self.dry_run else self._control.factor

    def _rate(self) -> float:
        """The learning rate of the first group, before its schedule."""
        group = self.optimizer.param_groups[0]
        return float(group.get("initial_lr", group["lr"]))

    @property
    def _pieces(self) -> int:
        """How many gradients of a step one micro-batch is: one for each process that has a gradient of its own."""
        return 1 if self._reduced else processes()

    @property
    def share(self) -> float:
        """Factor of a micro-batch's mean loss: one over the number of micro-batches in a step."""
        return 1 / (self.accumulate * self.factor)

    @property
    def finished(self) -> bool:
        """Whether the budget is spent."""
        return bool(self._control.progress >= self._control.budget)

    def due(self) -> bool:
        """Count a micro-batch after its `backward`, and return whether a step is due."""
        self._have += 1
        if self._recorder is not None and self._reduced:
            self._recorder.hear()
        if self._have < self.accumulate * self.factor:
            return False
        if self._recorder is not None:
            self._look(self._recorder)
        return True

    def step(self, scheduler: LRScheduler | None = None) -> None:
        """Make a step of the optimizer, clear gradients, and let the batch grow if it may.

        Args:
            scheduler: The optimizer's schedule over steps of the first size. It is stepped as many times as this step
                is worth, half of them before it: the step then has the rate of the middle of its samples.
        """
        self.begin_step(scheduler)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()
        self.end_step(scheduler)

    def begin_step(self, scheduler: LRScheduler | None = None) -> None:
        """Prepare a step that a trainer makes: of the optimizer, then once of the schedule, then `end_step`.

        Args:
            scheduler: The optimizer's schedule over steps, not one over epochs.
        """
        if self._have < self.accumulate * self.factor:
            raise RuntimeError(
                f"AutoBatch: step() must follow due() that returned True; got {self._have} micro-batches of "
                f"{self.accumulate * self.factor}."
            )
        for _ in range(self.factor // 2 if scheduler is not None else 0):
            scheduler.step()  # type: ignore[union-attr]

    def end_step(self, by_step: LRScheduler | None = None, by_epoch: LRScheduler | None = None) -> None:
        """Count a step that a trainer made, and let the batch grow if it may.

        Args:
            by_step: The optimizer's schedule over steps, which the trainer has stepped once.
            by_epoch: The optimizer's schedule over epochs, if that is what it has.
        """
        worth = self.factor
        for _ in range(worth - worth // 2 - 1 if by_step is not None else 0):
            by_step.step()  # type: ignore[union-attr]
        self.samples += worth * self._first
        self.steps += 1
        self._have = 0
        before, self._control = self._control, self._control.advance(worth)
        change = self._control.factor / before.factor
        if change != 1 and not self.dry_run:
            scale_batch(self.optimizer, change, before.usable(), scheduler=by_step or by_epoch)
        if self._on_reading is not None:
            self._on_reading(self.reading())
        self._listen()

    def refuse_uneven(self, name: str, batches: float) -> None:
        """Raise a ValueError for a trainer that ends an epoch after so many micro-batches, inside of a step.

        Args:
            name: The trainer's argument that sets their number.
            batches: How many there are; infinite if that is not known.
        """
        largest = self._control.largest
        if batches % (self.accumulate * largest):
            raise ValueError(
                f"AutoBatch: {name} must give a multiple of {self.accumulate} · {largest} micro-batches, accumulation "
                f"times largest, since an epoch's end makes a step; got {batches}. Drop the rest, or lower largest."
            )

    def reading(self) -> dict[str, Any]:
        """Numbers for a dashboard: batch and critical batch in samples, and why the batch is what it is."""
        return self._control.reading(self._first, self.steps, self._rate() / self._first_rate)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed training needs beside the states of optimizer and scheduler; between steps only."""
        if self._have:
            raise RuntimeError(f"AutoBatch: state_dict must be taken between steps; got {self._have} micro-batches.")
        counts = {name: getattr(self, name) for name in ("samples", "steps", "_first", "_first_rate")}
        # NaN where there is none: torch's distributed checkpoints want the same tensors in every state.
        previous = self._previous or [torch.full_like(p, math.nan) for p in self._params]
        control = {name: tuple(x) if isinstance(x, tuple) else x for name, x in self._control._asdict().items()}
        return {**counts, "_previous": [whole(g) for g in previous], "control": control}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, with as many samples in a step as there were.

        Args:
            state: What `state_dict` returned, here or with another number of processes.

        Raises:
            ValueError: If micro-batches of this size, on so many processes, do not make steps of that size.
        """
        by_all = self.micro * processes()
        if state["_first"] % by_all or state["_first"] // by_all * self._pieces < 2:
            raise ValueError(
                f"AutoBatch: steps must have the {state['_first']} samples that they had at first; got {by_all} in a "
                "micro-batch of all processes, which does not divide them."
            )
        self.accumulate = state["_first"] // by_all
        self.samples, self.steps = state["samples"], state["steps"]
        self._first, self._first_rate = state["_first"], state["_first_rate"]
        control = {name: RunningMean(*x) if isinstance(x, tuple | list) else x for name, x in state["control"].items()}
        self._control = BatchControl(**control)
        self._previous = [cut_as(p, g.to(p.device)) for g, p in zip(state["_previous"], self._params, strict=True)]
        self._listen()

    def _listen(self) -> None:
        """Record the next step's gradients if it is looked at: two steps running, of so many."""
        if self._recorder is not None:
            self._recorder.stop()
        looked_at = self.steps % self._every in (0, self._every - 1)
        self._recorder = GradientRecorder(self._params, reduced=self._reduced) if looked_at else None
        if not looked_at:
            self._previous = None

    def _look(self, recorder: GradientRecorder) -> None:
        recorder.stop()
        count, noise, gradient2 = recorder.spread(samples=1)
        gradient = recorder.mean()
        agreement = math.nan
        if self._previous is not None:
            norms = norm_of(gradient).item() * norm_of(self._previous).item()
            agreement = inner_of(gradient, self._previous, norms)
        if math.isfinite(noise) and math.isfinite(gradient2):
            self._control = self._control.look(noise * self.factor / count, gradient2, agreement)
            self._previous = gradient
        else:
            self._previous = None
