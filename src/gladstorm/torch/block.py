"""The parameters of a group, as the kernels want them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gladstorm.torch import normalized_step
from gladstorm.torch.normalized_step import ORDINARY, SHORT, plains


@dataclass
class Block:
    """Parameters of one group that move together, and an estimate for each."""

    group: dict[str, Any]
    params: list[Tensor]
    estimates: list[Tensor]  # v
    plain_params: list[Tensor] = field(init=False)  # both as the kernels want them
    plain_estimates: list[Tensor] = field(init=False)
    foreach: bool = field(init=False)  # what the group asks for; unless it does, fused kernels where they are faster

    def __post_init__(self) -> None:
        self.plain_params, self.plain_estimates = plains(self.params), plains(self.estimates)
        asked: bool | None = self.group["foreach"]
        self.foreach = all(map(_suits_foreach, self.params)) if asked is None else asked

    @property
    def is_readable(self) -> bool:
        """Whether every estimate is whole here, and Python may look at it."""
        return all(type(v) in ORDINARY and normalized_step.readable(v) for v in self.estimates)

    def one_by_one(self) -> list[Block]:
        """A block for each parameter."""
        return [Block(self.group, [p], [v]) for p, v in zip(self.params, self.estimates, strict=True)]

    @property
    def grads(self) -> list[Tensor]:
        """The gradients in the precision of v; 0 for a parameter that has none."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.params]
        pairs = zip(gradients, self.estimates, strict=True)
        return [g if g.dtype is v.dtype else g.to(v.dtype) for g, v in pairs]

    @property
    def plain_grads(self) -> list[Tensor]:
        """The same, as the kernels want them."""
        return plains(self.grads)

    @property
    def sign(self) -> int:
        """1, or −1 to maximize."""
        return -1 if self.group["maximize"] else 1


def _suits_foreach(p: Tensor) -> bool:
    """On a CPU fused kernels are loops that cost less than Python's; but a long tensor is better done with in cache."""
    return p.numel() <= SHORT if p.is_cpu else p.device.type in ("cuda", "xpu")
