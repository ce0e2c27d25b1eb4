"""One step of `Untuned` on lists of tensors, in two passes: the memory of gradients first, then the points.

`gladstorm.core.equations` has the equations of its numbers. Where Python may read them they are floats, and elsewhere
tensors without dimensions, so that nothing waits for a device. Both go through the same lines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gladstorm.core import equations
from gladstorm.torch import norms
from gladstorm.torch.norms import factors, plains, sharding, total_norm
from gladstorm.torch.optimizer import ParamBlock

CHUNK = 2**18  # entries that a CPU works on together, so that they stay in its cache
BUFFERS = ("squares", "motion", "average", "start")

Number = Any  # a float, or a tensor without dimensions


class RunNumbers(NamedTuple):
    """Numbers that a run has learnt, beside the tensors."""

    k: Number  # gradients seen
    size: Number  # s, the usual ‖g‖
    r: Number  # how far it has come
    way: Number  # ‖x̄ − x⁰‖
    spread: Number  # √V
    z: Number  # ‖x − x̄‖²/V
    clock: Number  # τ


class Lengths:
    """‖v‖ over tensors that come one chunk after another."""

    def __init__(self) -> None:
        self._norms: defaultdict[Any, list[Tensor]] = defaultdict(list)

    def add(self, cut: Any, vs: Sequence[Tensor]) -> None:
        """Take the norms of tensors that are cut in this way now, while they are in the processor's cache."""
        key = cut, vs[0].device
        if torch.compiler.is_compiling():  # which cannot fuse a norm of a list
            self._norms[key] += [torch.linalg.vector_norm(v) for v in vs]
        else:
            self._norms[key] += torch._foreach_norm(list(vs))

    def value(self, like: Number) -> Number:
        """The norm, the other processes' shards included, as a number like the others."""
        return as_number(total_norm(self._norms), like)


def first_numbers(norm: Tensor) -> Tensor:
    """r = ρ(1 + ‖x⁰‖), z = 1, and nothing learnt."""
    zero = torch.zeros_like(norm)
    return torch.stack(RunNumbers(zero, zero, equations.FIRST * (1 + norm), zero, zero, zero + 1, zero))


def advance(
    numbers: RunNumbers,
    size: Number,
    good: bool | Tensor,
    moving: list[ParamBlock],
    resting: list[ParamBlock],
    state: Any,
    horizon: float,
) -> RunNumbers:
    """Make a step of all tensors in place, and return the numbers after it.

    Args:
        numbers: The numbers before the step.
        size: ‖g‖. Where it is 0, nothing moves but the count.
        good: Whether it is finite; if not, x goes half the way back to x̄, and nothing is remembered.
        moving: The parameters that have a gradient.
        resting: Those that have none now: they stay, and x̄ comes closer to them.
        state: The optimizer's state, by parameter.
        horizon: K.
    """
    xp: Any = torch if isinstance(size, Tensor) else np
    k, K = numbers.k, horizon
    moves = (size > 0) & good

    def masked(new: Number, old: Number) -> Number:
        return new if moves is True else xp.where(moves, new, old)

    size = masked(size, 1.0)
    usual = equations.usual_size(numbers.size, size, k, xp)
    r = equations.farthest(numbers.r, numbers.way, k, K, xp)
    tau = equations.clock(numbers.clock, numbers.z, k, K, xp)
    root_d = math.sqrt(sum(p.numel() * (2 if p.is_complex() else 1) for block in moving for p in block.params))
    scale = r * equations.shortened(tau, K) / root_d
    *first, by = factors(size, equations.relative_size(size, usual, k, xp))  # u/g, in numbers that float32 holds
    by, w = masked(by, 0.0), masked(equations.average_weight(k), 0.0)
    forgotten, keep, back = masked((numbers.r / r) ** 4, 1.0), masked(1 - equations.SHARE, 1.0), 0.0
    if good is not True:
        keep, back = xp.where(good, keep, 0.0), xp.where(good, 0.0, 0.5)
    if xp is torch:  # one tensor, or a compiler computes all numbers again for every few entries
        by, w, forgotten, keep, scale = torch.stack([n.to(size) for n in (by, w, forgotten, keep, scale)]).unbind()

    lrs = [as_number(block.group["lr"], size) for block in moving]
    directions = []
    for block, lr in zip(moving, lrs, strict=True):
        total = Lengths()
        signed = -by if block.group["maximize"] else by
        gs = block.plain_grads
        if good is not True:
            gs = [torch.where(torch.as_tensor(good, device=g.device), g, 0) for g in gs]
        for cut, (us, squares, motions) in together(block, gs, *buffers(state, block, "squares", "motion")):
            renew_(cut, us, squares, motions, [*first, signed], forgotten, keep, equations.SHARE * lr * scale, total)
        directions.append(total.value(size))
    step = scale * sum((lr * n) ** 2 for lr, n in zip(lrs, directions, strict=True)) ** 0.5  # ‖δ‖
    typical = scale * sum(n**2 for n in directions) ** 0.5 / root_d  # how far a coordinate moves, at lr = 1

    off, way = Lengths(), Lengths()
    for block, lr in [*zip(moving, lrs, strict=True), *((block, None) for block in resting)]:
        decay = block.group["weight_decay"] * typical
        lists = buffers(state, block, "motion", "average", "start")
        for cut, (xs, motions, averages, starts) in together(block, block.plain_params, *lists):
            if lr is not None:
                move_(xs, motions, averages, moves, decay * lr if block.group["weight_decay"] else 0, back)
            average_(cut, xs, averages, starts, w, off, way)
    spread = (numbers.spread**2 + step**2) ** 0.5
    z = equations.agreement(off.value(size), spread, xp)
    after = RunNumbers(k + 1, usual, r, way.value(size), (1 - w) * spread, z, tau)
    return RunNumbers(*(masked(new, old) for new, old in zip(after, numbers, strict=True)))._replace(k=k + 1)


def renew_(
    cut: Any,
    gs: list[Tensor],
    squares: list[Tensor],
    motions: list[Tensor],
    by: Sequence[Number],
    forgotten: Number,
    keep: Number,
    take: Number,
    total: Lengths,
) -> None:
    """E ← forgotten·E + u², m ← keep·m + take·u/√E in place, with u = g times all `by`; adds u/√E to the total."""
    us = gs
    for n in by:
        us = list(torch._foreach_mul(us, _factor(n, us[0])))
    forgotten, keep, take = (_factor(n, us[0]) for n in (forgotten, keep, take))
    if isinstance(forgotten, Tensor) or forgotten != 1:
        torch._foreach_mul_(squares, forgotten)
    torch._foreach_addcmul_(squares, us, us)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, torch.finfo(us[0].dtype).tiny ** 0.5)  # where u² is below the smallest number, E is 0
    torch._foreach_div_(us, roots)
    total.add(cut, us)
    torch._foreach_mul_(motions, keep)
    _add_(motions, us, take)


def move_(
    xs: list[Tensor],
    motions: list[Tensor],
    averages: list[Tensor],
    moves: bool | Tensor,
    shrink: Number,
    back: Number,
) -> None:
    """x ← (1 − shrink)x − m in place where it moves; x ← x + back(x̄ − x) where a gradient was not finite."""
    if not isinstance(shrink, int):
        torch._foreach_mul_(xs, _factor(1 - shrink, xs[0]))
    steps = motions if moves is True else torch._foreach_mul(motions, _factor(moves, motions[0]))
    torch._foreach_sub_(xs, steps)
    if not isinstance(back, float):
        offs = torch._foreach_sub(xs, averages)
        torch._foreach_sub_(xs, torch._foreach_mul(offs, _factor(back, offs[0])))


def average_(
    cut: Any, xs: list[Tensor], averages: list[Tensor], starts: list[Tensor], w: Number, off: Lengths, way: Lengths
) -> None:
    """x̄ ← x̄ + w(x − x̄) in place; adds x − x̄ to `off`, and the new x̄ − x⁰ to `way`."""
    offs = list(torch._foreach_sub(xs, averages))
    off.add(cut, offs)
    _add_(averages, offs, _factor(w, averages[0]))
    way.add(cut, torch._foreach_sub(averages, starts))


def _add_(vs: list[Tensor], us: list[Tensor], factor: float | Tensor) -> None:
    """v ← v + factor·u in place; one pass where Python knows the factor. May overwrite u."""
    if isinstance(factor, Tensor):
        torch._foreach_mul_(us, factor)
        torch._foreach_add_(vs, us)
    else:
        torch._foreach_add_(vs, us, alpha=factor)


def buffers(state: Any, block: ParamBlock, *names: str) -> list[list[Tensor]]:
    """Lists of the state tensors with these names, as the kernels want them."""
    return [plains(state[p][name] for p in block.params) for name in names]


def together(block: ParamBlock, *lists: list[Tensor]) -> Iterator[tuple[Any, list[list[Tensor]]]]:
    """Lists that kernels take together: tensors that are alike, and on a CPU pieces that fit its cache."""
    kinds: defaultdict[Any, list[tuple[Tensor, ...]]] = defaultdict(list)
    for p, row in zip(block.params, zip(*lists, strict=True), strict=True):
        kinds[sharding(p), p.device, p.dtype] += _pieces(row) if norms.readable(row[0]) else [row]
    for (cut, *_), rows in kinds.items():
        begin, entries = 0, 0
        for i, row in enumerate(rows):
            if norms.readable(row[0]) and i > begin and entries + row[0].numel() > CHUNK:
                yield cut, [list(column) for column in zip(*rows[begin:i], strict=True)]
                begin, entries = i, 0
            entries += row[0].numel()
        yield cut, [list(column) for column in zip(*rows[begin:], strict=True)]


def _pieces(row: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    if row[0].numel() <= CHUNK or not all(t.is_contiguous() for t in row):
        return [row]
    return list(zip(*(t.view(-1).split(CHUNK) for t in row), strict=True))


def as_number(n: float | Tensor, like: Number) -> Number:
    """The number as the others are: a float, or a tensor where they are."""
    if not isinstance(like, Tensor):
        return float(n)
    return n.to(like.device, like.dtype).reshape(()) if isinstance(n, Tensor) else n


def _factor(n: Number, like: Tensor) -> float | Tensor:
    return n.to(like.device, like.dtype) if isinstance(n, Tensor) else float(n)
