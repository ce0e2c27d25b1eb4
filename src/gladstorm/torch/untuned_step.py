"""The equations of `Untuned`: numbers of the run, and a step on lists of tensors.

They are those of `gladstorm.methods.steps.Untuned`, which says why. Numbers are NumPy's where Python may read them, and
tensors elsewhere, so that nothing waits for a device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gladstorm.torch import norms
from gladstorm.torch.norms import sharding, total_norm

FIRST = 0.01  # ρ
RECENT = 4.0
WIDTH, WIDENING = 2.0, 0.25
FASTEST = 4.0
GROWTH = 8.0
DECAY = 0.4  # a
SHARE = 0.5  # β
AVERAGED = 6.0
CHUNK = 2**18  # entries that a CPU works on together, so that they stay in its cache

Number = Any  # a NumPy number, or a tensor without dimensions


class Run(NamedTuple):
    """What a run has learnt, beside the tensors."""

    k: Number  # gradients seen
    size: Number  # s, the usual ‖g‖
    r: Number  # how far it has come
    way: Number  # ‖x̄ − x⁰‖
    spread: Number  # √V
    z: Number  # ‖x − x̄‖²/V
    clock: Number  # τ


class Batch(NamedTuple):
    """Tensors of some parameters that a kernel takes together: real, on one device, of one type each."""

    cut: Any  # how a mesh of devices holds them
    x: list[Tensor]
    g: list[Tensor]
    squares: list[Tensor]
    motion: list[Tensor]
    average: list[Tensor]
    start: list[Tensor]

    @property
    def key(self) -> tuple[Any, torch.device]:
        """What they are summed by."""
        return self.cut, self.x[0].device


class Lengths:
    """‖v‖ over tensors that come one batch after another."""

    def __init__(self) -> None:
        self._norms: defaultdict[Any, list[Tensor]] = defaultdict(list)

    def add(self, key: tuple[Any, torch.device], vs: Sequence[Tensor]) -> None:
        """Take their norms now, while they are in the processor's cache."""
        if torch.compiler.is_compiling():  # which cannot fuse a norm of a list
            self._norms[key] += [torch.linalg.vector_norm(v) for v in vs]
        else:
            self._norms[key] += torch._foreach_norm(list(vs))

    def total(self) -> Tensor:
        """The norm, the other processes' shards included."""
        return total_norm(self._norms)


def first_run(norm: Tensor) -> Run:
    """r = ρ(1 + ‖x⁰‖), z = 1, nothing learnt."""
    zero = torch.zeros_like(norm)
    return Run(zero, zero, FIRST * (1 + norm), zero, zero, zero + 1, zero)


def plan(run: Run, size: Number, horizon: int) -> tuple[Run, Number, Number]:
    """From size = ‖g‖: the run with its new s, r and τ; u/g, a number; and ‖δ‖ if ‖p‖ = 1 and lr = 1."""
    xp: Any = torch if isinstance(size, Tensor) else np
    k = run.k + 1
    cut = WIDTH * k**WIDENING
    later = run.size + (xp.minimum(size, cut * run.size) - run.size) * RECENT / (run.k + RECENT)
    usual = xp.where(run.size == 0, size, later)
    by = xp.minimum(size / usual, cut) / size
    r = xp.maximum(run.r, xp.minimum(run.way, run.r * (1 + GROWTH / (horizon * k) ** 0.5)))
    hurry = xp.clip(0.5 / xp.clip(run.z, 0.5 / FASTEST, None), 1.0, FASTEST)
    counts = hurry * xp.clip(run.z, 1.0, None) ** -4
    rate = xp.clip((1 - run.clock) / xp.clip(horizon - run.k, 1.0, None), 1 / horizon, None)
    clock = run.clock + counts * rate
    return run._replace(k=k, size=usual, r=r, clock=clock), by, r * horizon ** (-DECAY * clock)


def weight(k: Number) -> Number:
    """Of the point after gradient k + 1 in the average."""
    return (AVERAGED + 1) / (k + AVERAGED + 2)


def renew_(batch: Batch, by: Number, forgotten: Number, keep: Number, take: Number, lengths: Lengths) -> None:
    """E ← forgotten·E + u², m ← keep·m + take·u/√E in place, with u = by·g; adds u/√E to the lengths."""
    by, forgotten, keep, take = (_number(n, batch.motion[0]) for n in (by, forgotten, keep, take))
    us = list(torch._foreach_mul(batch.g, by))
    if isinstance(forgotten, Tensor) or forgotten != 1:
        torch._foreach_mul_(batch.squares, forgotten)
    torch._foreach_addcmul_(batch.squares, us, us)
    roots = torch._foreach_sqrt(batch.squares)
    torch._foreach_add_(roots, torch.finfo(us[0].dtype).tiny ** 0.5)  # where u² is below the smallest number, E is 0
    torch._foreach_div_(us, roots)
    lengths.add(batch.key, us)
    torch._foreach_mul_(batch.motion, keep)
    _add_(batch.motion, us, take)


def move_(
    batch: Batch, moves: bool | Tensor, shrink: Number, w: Number, back: Number, off: Lengths, way: Lengths
) -> None:
    """x ← (1 − shrink)x − m, x̄ ← x̄ + w(x − x̄) in place, and x ← x + back(x̄ − x) where a gradient was not finite.

    Adds x − x̄, with the new x, to `off`, and the new x̄ − x⁰ to `way`.
    """
    like = batch.motion[0]
    if not isinstance(shrink, int):
        torch._foreach_mul_(batch.x, _number(1 - shrink, batch.x[0]))
    steps = batch.motion if moves is True else torch._foreach_mul(batch.motion, _number(moves, like))
    torch._foreach_sub_(batch.x, steps)
    offs = list(torch._foreach_sub(batch.x, batch.average))
    off.add(batch.key, offs)
    if isinstance(back, Tensor):
        torch._foreach_sub_(batch.x, torch._foreach_mul(offs, _number(back, like)))
    _add_(batch.average, offs, _number(w, like))
    way.add(batch.key, torch._foreach_sub(batch.average, batch.start))


def _add_(vs: list[Tensor], us: list[Tensor], factor: float | Tensor) -> None:
    """v ← v + factor·u in place; one pass where Python knows the factor. May overwrite u."""
    if isinstance(factor, Tensor):
        torch._foreach_mul_(us, factor)
        torch._foreach_add_(vs, us)
    else:
        torch._foreach_add_(vs, us, alpha=factor)


def go_back_(batch: Batch) -> None:
    """x ← x + (x̄ − x)/2, m ← 0 in place."""
    torch._foreach_sub_(batch.x, torch._foreach_div(torch._foreach_sub(batch.x, batch.average), 2.0))
    torch._foreach_zero_(batch.motion)


def batches(tensors: Sequence[Tensor], lists: Sequence[Sequence[Tensor]], foreach: bool) -> Iterator[Batch]:
    """What kernels take together: on a CPU pieces that fit its cache, elsewhere all tensors of a kind or each alone."""
    kinds: defaultdict[Any, list[tuple[Tensor, ...]]] = defaultdict(list)
    kind: Any
    for tensor, row in zip(tensors, zip(*lists, strict=True), strict=True):
        if norms.readable(row[0]):
            kind, rows = (sharding(tensor), tensor.device, tensor.dtype), _pieces(row)
        else:
            kind, rows = (sharding(tensor), tensor.device, tensor.dtype, None if foreach else id(tensor)), [row]
        kinds[kind] += rows
    for (cut, *_), rows in kinds.items():
        begun, entries = 0, 0
        for i, row in enumerate(rows):
            if norms.readable(row[0]) and i > begun and entries + row[0].numel() > CHUNK:
                yield Batch(cut, *map(list, zip(*rows[begun:i], strict=True)))
                begun, entries = i, 0
            entries += row[0].numel()
        yield Batch(cut, *map(list, zip(*rows[begun:], strict=True)))


def _pieces(row: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    if row[0].numel() <= CHUNK or not all(t.is_contiguous() for t in row):
        return [row]
    return list(zip(*(t.view(-1).split(CHUNK) for t in row), strict=True))


def _number(n: Number, like: Tensor) -> float | Tensor:
    return n.to(like.device, like.dtype) if isinstance(n, Tensor) else float(n)
