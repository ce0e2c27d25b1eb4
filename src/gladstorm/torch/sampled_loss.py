"""The gradients of a user's loss on some samples, taken without touching `p.grad`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from gladstorm.torch.normalized_step import norm_of

LossOf = Callable[[torch.nn.Module, Any], Tensor]  # the mean loss over the samples of a mini-batch


class NotFinite(ValueError):
    """A loss or a gradient is infinite or not a number."""


class SampledLoss:
    """A loss of a model, and its gradients with regard to some parameters; `where` they are is said in errors."""

    def __init__(
        self, owner: str, loss_of: LossOf, model: torch.nn.Module, params: list[torch.nn.Parameter], where: str = ""
    ) -> None:
        self.owner, self.loss_of, self.model, self.params, self.where = owner, loss_of, model, params, where

    def loss(self, batch: Any) -> Tensor:
        """The loss, refused unless it is one finite number."""
        loss = self.loss_of(self.model, batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise ValueError(f"{self.owner}: loss_of must return a tensor with one number, the mean loss; got {got}.")
        if not bool(loss.isfinite()):
            raise NotFinite(
                f"{self.owner}: loss_of must return a finite loss; got {loss.item()}{self.where}. Look less far, with "
                "radius=…, or start where the loss is finite."
            )
        return loss

    def gradients(self, batch: Any) -> list[Tensor]:
        """Of the loss, 0 for parameters it does not depend on."""
        with torch.enable_grad():
            loss = self.loss(batch)
            if not loss.requires_grad:
                raise ValueError(
                    f"{self.owner}: the loss must depend on the model's parameters; got one without gradients."
                )
            found = torch.autograd.grad(loss.sum(), self.params, allow_unused=True)
        gradients = [
            torch.zeros_like(p) if g is None else g.to_dense() for p, g in zip(self.params, found, strict=True)
        ]
        if not math.isfinite(norm_of(gradients).item()):
            raise NotFinite(
                f"{self.owner}: gradients must be finite; got some that are not{self.where}. Under autocast in float16 "
                "compute in bfloat16 or float32 here, and return the loss unscaled."
            )
        return gradients


def refuse_sharded(owner: str, params: Iterable[Tensor]) -> None:
    """Raise a ValueError for parameters of which only a part is here: their groups' gradients are nowhere whole."""
    if any(hasattr(p, "full_tensor") or getattr(p, "_fsdp_flattened", False) for p in params):
        raise ValueError(
            f"{owner}: parameters must be whole; got a part of some. Diagnose the model before it is sharded."
        )
