"""NSTORM's step in two halves: its estimate, and a step without a closure that can be undone in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from gladstorm.torch.gradient_writes import WriteDetector, refuse_disagreement, refuse_written
from gladstorm.torch.norms import RowNorms
from gladstorm.torch.optimizer import Block


def add_gradients(blocks: list[Block]) -> RowNorms:
    """v ← g(xᵏ⁺¹; ξ) + (1 − η) v, the second half of vᵏ⁺¹ = g(xᵏ⁺¹; ξ) + (1 − η) (vᵏ − g(xᵏ; ξ)).

    Returns what is then known of ‖v‖.
    """
    rows = RowNorms()
    for block in blocks:
        momentum = block.group["momentum"]  # 1 − η
        if block.foreach:
            torch._foreach_mul_(block.plain_estimates, momentum)
            torch._foreach_add_(block.plain_estimates, block.plain_grads)
        else:
            for v, g in zip(block.plain_estimates, block.plain_grads, strict=True):
                torch.add(g, v, alpha=momentum, out=v)  # in place, and one pass over memory
                rows.take(v)
    return rows


@dataclass
class TwoPhaseStep:
    """What it takes to finish a step from (xᵏ, vᵏ), or to undo it."""

    param_groups: list[dict[str, Any]]  # so that GradScaler.unscale_ takes this for an optimizer
    scaler: GradScaler | None
    blocks: list[Block]
    first: dict[Tensor, Tensor] = field(default_factory=dict)  # gradients at xᵏ, if the next ones are at xᵏ too
    writes: WriteDetector = field(default_factory=lambda: WriteDetector([]))  # of the gradients at xᵏ⁺¹
    _copies: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # each tensor that will change, and a copy

    def __post_init__(self) -> None:
        if self.scaler is not None:
            self.scaler.unscale_(cast(torch.optim.Optimizer, self))

    def save(self) -> None:
        """Copy xᵏ and vᵏ."""
        changing = [tensor for block in self.blocks for tensor in block.plain_params + block.plain_estimates]
        self._copies = [(tensor, tensor.clone()) for tensor in changing]

    def check_gradients(self, optimizer: torch.optim.Optimizer) -> Tensor:
        """Refuse gradients at xᵏ⁺¹ that were written, and unscale them if a GradScaler called `step`.

        Returns:
            Whether the scaler found one that is not finite.
        """
        name = type(optimizer).__name__
        unscaled = vars(optimizer).get("grad_scale", self) is None  # by the user
        refuse_written(name, self.writes.written(unscaled=unscaled))
        overflow = self._unscale(optimizer, name)
        refuse_disagreement(name, self.first)
        return overflow

    def _unscale(self, optimizer: torch.optim.Optimizer, name: str) -> Tensor:
        found_inf: Tensor | None = vars(optimizer).get("found_inf")
        if found_inf is not None and self.scaler is None:
            raise RuntimeError(f"{name}: previous_point must be given the GradScaler that calls step; got none.")
        if found_inf is None and self.scaler is not None:
            raise RuntimeError(f"{name}: with a GradScaler call scaler.step(optimizer); got optimizer.step().")
        if self.scaler is None or found_inf is None:
            return torch.zeros(())
        if vars(optimizer)["grad_scale"] is not None:  # None once the user has called unscale_
            self.scaler.unscale_(optimizer)
        return found_inf

    @torch.no_grad()
    def settle(self, good: Tensor) -> None:
        """Leave everything as it is if the step is good, else restore (xᵏ, vᵏ); without waiting for the device."""
        for tensor, before in self._copies:
            tensor.copy_(torch.where(good.to(tensor.device), tensor, before))
