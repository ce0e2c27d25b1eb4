"""The equations of `Steered`: the length of a step, from a few numbers of the run; and the step on lists of tensors.

They are those of `gladstorm.methods.steps.Steered`, which says why; nothing here waits for the device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gladstorm.torch import normalized_step
from gladstorm.torch.normalized_step import (
    RowNorms,
    alike,
    factors,
    plains,
    sharding,
    shorter,
    whole_sum,
    widest,
)

FIRST = 0.1  # ρ
WIDTH, WIDENING = 1.5, 0.25  # w, q
CALM = 10.0  # what Σ cos² begins with
DOUBLED = 2.0  # the growth of r at which the reversals so far are forgotten
DEGREE = 4  # of the weights of the average


class Course(NamedTuple):
    """What a run has learnt: tensors without dimensions."""

    calls: Tensor  # of `step`, those included that found no finite gradient
    k: Tensor  # steps taken
    r: Tensor  # the largest distance from x⁰
    mark: Tensor  # r when the reversals were last forgotten
    n: Tensor  # reversals since, each counted twice
    certainty: Tensor  # Σ cos²
    log_length: Tensor  # log ℓ
    size: Tensor  # s, the running mean of ‖v‖


def first_course(norm: Tensor) -> Course:
    """r = ℓ = ρ(1 + ‖x⁰‖), nothing learnt."""
    zero = torch.zeros_like(norm)
    r = FIRST * (1 + norm)
    return Course(zero, zero, r, r, zero, zero + CALM, r.log(), zero)


def steer(course: Course, size: Tensor, distance: Tensor, cos: Tensor) -> tuple[Course, Tensor]:
    """The course after a step along v, with size = ‖v‖, distance = ‖x − x⁰‖ and cos = cos(v, m); and v/u, a number."""
    r = torch.maximum(course.r, distance)
    doubled = r > DOUBLED * course.mark
    n = torch.where(doubled, 0.0, course.n + 2.0 * (cos < 0))
    certainty = course.certainty + cos**2
    doubt, log_r = n.log1p(), r.log()
    log_length = torch.clamp(course.log_length + cos / certainty.sqrt(), log_r - doubt, log_r - doubt / 2)
    usual = course.size + share(course) * (size - course.size)
    by = torch.maximum(WIDTH * usual, size / (n + 1) ** WIDENING)
    mark = torch.where(doubled, r, course.mark)
    return Course(course.calls + 1, course.k + 1, r, mark, n, certainty, log_length, usual), by


def share(course: Course) -> Tensor:
    """Of the next step in running means."""
    return 1 / (course.k + 1).sqrt()


def weight(course: Course) -> Tensor:
    """Of x^k in the average of x⁰..x^k, where k counts calls: x^j weighs about j⁴."""
    return (DEGREE + 1) / (course.calls + DEGREE + 1)


def steered_step_(
    params: Sequence[Tensor],
    means: Sequence[Tensor],
    gradients: Sequence[Tensor],
    by: Tensor,
    share: Tensor,
    length: Tensor,
    *,
    maximize: bool = False,
    foreach: bool = False,
    rows: RowNorms,
) -> None:
    """m ← m + share (u − m), x ← x − length · u in place; u = v/by, or 0 where by = 0, and v = g, or −g to maximize.

    The norm of m, which the next step asks for, is taken at once, while m is in the cache. That of x − x⁰ is not: by
    then somebody may have moved x.
    """
    sign = -1.0 if maximize else 1.0
    for device, (xs, ms, gs) in alike(params, means, gradients):
        dtype = ms[0].dtype
        *before, last = (f if isinstance(f, float) else f.to(device, dtype) for f in factors(by, sign))
        if isinstance(last, float):
            past, new, step = 1 - share.item(), share.item() * last, -length.item() * last
            for x, m, g in zip(xs, ms, gs, strict=True):
                u = g * before[0] if before else g
                m.mul_(past).add_(u, alpha=new)
                rows.take(m)
                x.add_(u, alpha=step)
            continue
        keep, take, move = (t.to(device, dtype) for t in (1 - share, share * last, -length * last))
        if foreach:
            us = list(torch._foreach_mul(gs, before[0]))
            torch._foreach_mul_(ms, keep)
            torch._foreach_add_(ms, torch._foreach_mul(us, take))
            torch._foreach_add_(xs, torch._foreach_mul(us, move))
        else:
            for x, m, g in zip(xs, ms, gs, strict=True):
                u = g * before[0]
                m.mul_(keep).addcmul_(u, take)
                x.addcmul_(u, move)


def average_(averages: Iterable[Tensor], params: Iterable[Tensor], weight: Tensor) -> None:
    """x̄ ← x̄ + weight (x − x̄) in place."""
    for mean, x in zip(averages, params, strict=True):
        mean.lerp_(
            x.to(mean.dtype), weight.item() if normalized_step.readable(weight) else weight.to(mean.device, mean.dtype)
        )


def distance_of(params: Sequence[Tensor], starts: Sequence[Tensor]) -> Tensor:
    """‖x − x⁰‖ over all tensors and processes."""
    vectors: defaultdict[Any, list[Tensor]] = defaultdict(list)
    for p, x, start in zip(params, plains(params), plains(starts), strict=True):
        vectors[sharding(p), x.device] += shorter(x - start)
    wide = {key: torch.cat(parts).to(widest(parts[0].device)) for key, parts in vectors.items()}
    return _over_all({key: vector @ vector for key, vector in wide.items()}).sqrt()


def inner_of(these: Sequence[Tensor], others: Sequence[Tensor], rows: RowNorms) -> Tensor:
    """⟨a, b⟩ over all tensors and processes; the norms of these are taken on the way, while they are in the cache."""
    products: defaultdict[Any, list[Tensor]] = defaultdict(list)
    for tensor, a, b in zip(these, plains(these), plains(others), strict=True):
        products[sharding(tensor), a.device].append(_inner(a, b))
        rows.take(a)
    return _over_all({key: torch.stack(its).to(widest(its[0].device)).sum() for key, its in products.items()})


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩; without a third tensor where both lie in memory alike, and Python rather than a compiler asks."""
    if normalized_step.readable(a) and a.is_contiguous() and b.is_contiguous():
        return torch.dot(a, b) if a.dim() == 1 else torch.dot(a.view(-1), b.view(-1))
    return (a * b).sum()


def _over_all(numbers: dict[Any, Tensor]) -> Tensor:
    """Their sum, the other processes' included; a number for each way tensors are cut and each device they are on."""
    first = next(iter(numbers.values()))
    return torch.stack([whole_sum(number, where).to(first) for (where, _), number in numbers.items()]).sum()
