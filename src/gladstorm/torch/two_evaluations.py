"""The two evaluations of an NSTORM step: a step in two halves that can be undone, and what must not happen in between.

Gradients modified between the two spoil the estimate. The usual causes are clipping between `backward` and `step`, and
gradient accumulation around the optimizer.
"""

from __future__ import annotations

import math
import sys
import traceback
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from gladstorm.torch import norms
from gladstorm.torch.norms import RowNorms, norm_of, plain
from gladstorm.torch.optimizer import ParamBlock

AGREEMENT = 0.05  # of two gradients of one sample at one point, as a part of their length: half precision rounds


class GradientRecord(NamedTuple):
    """A gradient as a backward pass has left it."""

    gradient: Tensor
    writes: int  # as torch counts them
    address: int
    total: float  # of its entries, where Python may read: torch does not count writes through .data or NumPy

    @classmethod
    def of(cls, gradient: Tensor) -> GradientRecord:
        """Record what is known without waiting for the device."""
        entries = plain(gradient)
        total = entries.detach().sum().item() if norms.readable(entries) else 0.0
        return cls(gradient, gradient._version + entries._version, entries.data_ptr(), total)

    def is_in(self, p: Tensor, *, unscaled: bool = False) -> bool:
        """Whether the parameter still has it, unwritten; `unscaled` allows what torch's GradScaler does, uncounted."""
        if p.grad is not self.gradient:
            return False
        now = GradientRecord.of(p.grad)
        same = unscaled or now.total == self.total or (math.isnan(now.total) and math.isnan(self.total))
        return same and (now.writes, now.address) == (self.writes, self.address)


class WriteDetector:
    """Finds gradients that are written after the backward pass that made them, until `stop` is called.

    Whatever runs inside `backward`, such as hooks and DDP's and FSDP2's reductions, belongs to it.
    """

    def __init__(self, params: Iterable[Tensor]) -> None:
        self._made: dict[Tensor, GradientRecord] = {}
        self._written: set[Tensor] = set()  # found before another backward pass added to them
        self._hooks = []
        for p in params:
            if p.requires_grad:
                self._hooks.append(p.register_hook(partial(self._before, p)))
                self._hooks.append(p.register_post_accumulate_grad_hook(self._after))

    def stop(self) -> None:
        """Look at no further backward pass."""
        for hook in self._hooks:
            hook.remove()

    def written(self, *, unscaled: bool = False) -> list[Tensor]:
        """The parameters whose gradient was written, replaced or dropped."""
        changed = (p for p, made in self._made.items() if not made.is_in(p, unscaled=unscaled))
        return list({*self._written, *changed})

    def _before(self, p: Tensor, _: Tensor) -> None:
        made = self._made.pop(p, None)
        if made is not None and p.grad is not None and not made.is_in(p) and bool(plain(p.grad).any()):  # not cleared
            self._written.add(p)

    def _after(self, p: Tensor) -> None:
        self._note(p)
        queue = torch.autograd.Variable._execution_engine.queue_callback
        queue(partial(queue, partial(self._note, p)))  # the end of the pass, after what DDP does there

    def _note(self, p: Tensor) -> None:
        if p.grad is not None:
            self._made[p] = GradientRecord.of(p.grad)


def refuse_written(owner: str, written: list[Tensor]) -> None:
    """Raise a RuntimeError if gradients were written between `backward` and `step`."""
    if written:
        raise RuntimeError(
            f"{owner}: gradients must reach step() as backward() made them; got those of {len(written)} parameter(s) "
            f"written in between. Clip with {owner}(max_grad_norm=…), which clips at both points; measure with "
            "torch.nn.utils.get_total_norm; do anything else in a hook, p.register_hook, which runs at both points."
        )


def refuse_disagreement(owner: str, first: dict[Tensor, Tensor]) -> None:
    """Raise a RuntimeError unless the gradients now are those that were computed before at the same point."""
    if not first or any(p.grad is None for p in first):
        return
    difference = norm_of([cast(Tensor, p.grad).detach() - g for p, g in first.items()])
    size = norm_of(list(first.values()))
    if difference > AGREEMENT * size:  # False if either is not finite: that is another matter
        raise RuntimeError(
            f"{owner}: both gradients of the first step are taken at one point and must agree; got some that differ by "
            f"{float(difference / size):.0%}. Evaluate one mini-batch twice, with the same dropout; "
            f"clip with {owner}(max_grad_norm=…) and nothing else."
        )


class LeftoverGradients:
    """The gradients that a step leaves behind, to tell them from gradients that somebody has computed since."""

    def __init__(self, params: Iterable[Tensor]) -> None:
        gradients = [p.grad for p in params if p.grad is not None]
        self._versions = {id(g): (weakref.ref(g), g._version) for g in gradients}

    def replaced(self, params: Iterable[Tensor]) -> list[Tensor]:
        """The parameters that have another gradient now, and not 0."""
        return [p for p in params if (g := p.grad) is not None and not self._has(g) and bool(plain(g).any())]

    def _has(self, g: Tensor) -> bool:
        reference, version = self._versions.get(id(g), (lambda: None, 0))
        return reference() is g and version == g._version


@contextmanager
def refusing_accumulation(owner: str, params: Iterable[Tensor]) -> Iterator[None]:
    """Raise a RuntimeError if a closure inside adds to the gradients that these parameters had before, now dropped.

    NaN in their place shows whether the closure clears or keeps what is there.
    """
    markers = {p: torch.full_like(p, torch.nan) for p in params}
    for p, marker in markers.items():
        p.grad = marker
    try:
        with torch.enable_grad():
            yield
    finally:
        kept = [p for p, marker in markers.items() if p.grad is marker and bool(plain(marker).isnan().any())]
        added = [p for p in kept if markers[p]._version > 0]
        for p in kept:
            p.grad = None
        if added:
            raise RuntimeError(
                f"{owner}: the closure must compute all gradients of a step; got some computed before it, as an "
                "accumulation of gradients does. Loop over the micro-batches in the closure, or call zero_grad() first."
            )


def refuse_accelerate_accumulation(owner: str) -> None:
    """Raise a RuntimeError if the caller is Accelerate's optimizer and drops the closures of other micro-batches."""
    accelerate = sys.modules.get("accelerate.optimizer")
    if accelerate is None:
        return
    stepping = accelerate.AcceleratedOptimizer.step.__code__
    for frame, _ in traceback.walk_stack(sys._getframe()):
        if frame.f_code is stepping and (micro_batches := frame.f_locals["self"].gradient_state.num_steps) > 1:
            raise RuntimeError(
                f"{owner}: gradient_accumulation_steps of the Accelerator must be 1, or it drops all micro-batches "
                f"of a step but the last; got {micro_batches}. Loop over the micro-batches inside the closure."
            )


def add_gradients(blocks: list[ParamBlock]) -> RowNorms:
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
    blocks: list[ParamBlock]
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
