"""Whether gradients reach NSTORM as its two evaluations left them: who changes one of a pair leaves no estimate.

Clipping between `backward` and `step` is the usual culprit, and accumulation around an optimizer that evaluates twice.
"""

from __future__ import annotations

import sys
import traceback
import weakref
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor

from gladstorm.torch.normalized_step import norm_of, plain

Sizes = tuple[float, float]

AGREEMENT = 0.05  # of two gradients of one sample at one point, as a part of their length: half precision rounds
CHANGED, SAME = 1e-3, 5e-6  # of sizes from step to step; clipping leaves 1e-6


def writes(params: Iterable[Tensor]) -> int:
    """How often the gradients were written since they were made, as torch counts it.

    Clipping writes even where it changes nothing. Views share the count of what they are views of, and are left out.

    >>> x = torch.ones(2, requires_grad=True)
    >>> (x @ x).backward()
    >>> before = writes([x])
    >>> _ = torch.nn.utils.clip_grad_norm_([x], max_norm=1e9)
    >>> writes([x]) - before
    1
    """
    gradients = [plain(p.grad) for p in params if p.grad is not None]
    return sum(g._version for g in gradients if not g._is_view())


class ClippingWatch:
    """Finds clipping between `backward` and `step`, which the first step may have been too small for.

    While nobody writes gradients there it looks at nothing. Who does may only measure, as the Hugging Face Trainer does
    by clipping to infinity. But clipping is seen in two sizes, the norm and the largest entry.
    """

    suspects = False

    def __init__(self) -> None:
        self._seen = SizesSeen(), SizesSeen()

    def compare(self, owner: str, first: Sizes | None, second: Sizes) -> None:
        """Raise a RuntimeError if the second gradients were cut to a size that the first gradients do not know."""
        if first is None:
            return
        for seen, before, after in zip(self._seen, first, second, strict=True):
            if seen.repeat(before, after):
                raise RuntimeError(
                    f"{owner}: gradients must reach step() as backward() made them; got some clipped in between, to "
                    f"{after:.4g} more than once. Clip with {owner}(max_grad_norm=…), which clips at both points, and "
                    "switch other clipping off."
                )


class SizesSeen:
    """A size of the gradients of both points, from step to step: what is cut has the same size again and again.

    Among thousands of steps two have one size by chance, but hardly the largest of all, and hardly three in a row.
    """

    def __init__(self) -> None:
        self._largest: Sizes = (0.0, 0.0)  # by the second
        self._last: Sizes = (0.0, 0.0)
        self._in_a_row = 0

    def repeat(self, first: float, second: float) -> bool:
        """Whether the second size was there before, with another first one, and no chance."""
        now = first, second
        at_a_limit = _repeats(self._largest, now)
        self._in_a_row = self._in_a_row + 1 if _repeats(self._last, now) else 0
        self._largest, self._last = max(self._largest, now, key=lambda each: each[1]), now
        return at_a_limit or self._in_a_row > 1


def sizes(params: Iterable[Tensor]) -> Sizes:
    """Norm and largest entry of the gradients. Waits for the device."""
    gradients = [cast(Tensor, p.grad).detach() for p in params]
    return norm_of(gradients).item(), max((float(plain(g).abs().max()) for g in gradients if g.numel()), default=0.0)


def _repeats(before: Sizes, now: Sizes) -> bool:
    return _apart(before[0], now[0]) > CHANGED and _apart(before[1], now[1]) < SAME


def _apart(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b), sys.float_info.min)


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


class Left:
    """The gradients that a step leaves behind, to tell them from gradients that somebody has computed since."""

    def __init__(self, params: Iterable[Tensor]) -> None:
        gradients = [p.grad for p in params if p.grad is not None]
        self._versions = {id(g): (weakref.ref(g), g._version) for g in gradients}

    def others(self, params: Iterable[Tensor]) -> list[Tensor]:
        """The parameters that have another gradient now, and not 0."""
        return [p for p in params if (g := p.grad) is not None and not self._has(g) and bool(plain(g).any())]

    def _has(self, g: Tensor) -> bool:
        reference, version = self._versions.get(id(g), (lambda: None, 0))
        return reference() is g and version == g._version


def plant(params: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """Put NaN in the place of gradients, to see whether a closure clears or keeps what it finds."""
    planted = {p: torch.full_like(p, torch.nan) for p in params}
    for p, seed in planted.items():
        p.grad = seed
    return planted


def refuse_accumulated(owner: str, planted: dict[Tensor, Tensor]) -> None:
    """Raise a RuntimeError if a closure has added to gradients computed before it, which would be dropped."""
    kept = [p for p, seed in planted.items() if p.grad is seed and bool(plain(seed).isnan().any())]
    added = [p for p in kept if planted[p]._version > 0]
    for p in kept:
        p.grad = None
    if added:
        raise RuntimeError(
            f"{owner}: the closure must compute all gradients of a step; got some computed before it, as an "
            "accumulation of gradients does. Loop over the micro-batches in the closure, or call zero_grad() first."
        )


def refuse_accelerate_s_accumulation(owner: str) -> None:
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


def clip(params: Iterable[Tensor], max_norm: float | None) -> None:
    """g ← g · min(1, max_norm/‖g‖), if there is a max_norm."""
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(list(params), max_norm)
