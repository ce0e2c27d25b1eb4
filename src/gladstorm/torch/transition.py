"""STORM's estimate in two halves, and a step that can be undone while it is between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from gladstorm.torch.block import Block
from gladstorm.torch.normalized_step import RowNorms
from gladstorm.torch.untouched import Watch


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
class Transition:
    """A two-phase step on the way from (xᵏ, vᵏ), and what it takes to be back there."""

    param_groups: list[dict[str, Any]]  # so that GradScaler.unscale_ takes a transition for an optimizer
    scaler: GradScaler | None
    blocks: list[Block] = field(default_factory=list)
    kept: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # each tensor that will change, and a copy
    first: dict[Tensor, Tensor] = field(default_factory=dict)  # those at xᵏ, if the next are of the same point
    watch: Watch = field(default_factory=lambda: Watch([]))  # of the gradients at xᵏ⁺¹

    def keep(self, blocks: list[Block]) -> None:
        """Copy xᵏ and vᵏ."""
        self.blocks = blocks
        changing = [tensor for block in blocks for tensor in block.plain_params + block.plain_estimates]
        self.kept = [(tensor, tensor.clone()) for tensor in changing]

    @torch.no_grad()
    def settle(self, good: Tensor) -> None:
        """Leave everything as it is if the step is good, else put (xᵏ, vᵏ) back; without waiting for the device."""
        for tensor, before in self.kept:
            tensor.copy_(torch.where(good.to(tensor.device), tensor, before))
