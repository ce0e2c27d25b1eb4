"""A Hugging Face Trainer for NSTORM: every mini-batch at two points, also accumulated, clipped and in half precision.

For example::

    optimizer = NSTORM(model.parameters(), lr=0.1, model=model)
    trainer = TwoPointTrainer(model, arguments, train_dataset=data, optimizers=(optimizer, schedule))
    trainer.train()

NSGDM evaluates once and needs nothing: `Trainer(..., optimizers=(NSGDM(model.parameters(), lr=0.1), schedule))`.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.transformers"):
    from transformers import Trainer

from gladstorm.torch import NSTORM

__all__ = ["TwoPointTrainer"]


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
