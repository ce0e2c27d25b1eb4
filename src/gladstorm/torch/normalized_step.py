"""The normalized step x ← x − γ v/‖v‖ on lists of tensors: no state, no groups, no wait for the device.

`foreach` asks for torch's horizontally fused kernels, one launch for many tensors; the equations are the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gladstorm.torch import norms


def normalized_step_(
    params: Sequence[Tensor],
    estimates: Sequence[Tensor],
    norm: Tensor,
    lr: float | Tensor,
    *,
    weight_decay: float = 0.0,
    maximize: bool = False,
    foreach: bool = False,
    subtracted: Sequence[Tensor] | None = None,
) -> None:
    """x ← (1 − γλ) x − γ v/‖v‖ in place, with γ = lr and λ = weight_decay; where ‖v‖ = 0 the second term is 0.

    Plain real tensors; each x may be narrower than its v, and is then rounded once. What is to be `subtracted` from
    each v afterwards is so at once, while v is in the processor's cache.

    >>> x, v = torch.tensor([1.0, 1.0]), torch.tensor([3.0, -4.0])
    >>> normalized_step_([x], [v], norms.norm_of([v]), lr=0.5)
    >>> x
    tensor([0.7000, 1.4000])
    """
    if isinstance(lr, Tensor):
        lr = lr.to(norm.device).reshape(())
    numbers = factors(norm, -lr if maximize else lr)
    lists = (params, estimates) if subtracted is None else (params, estimates, subtracted)
    for device, (xs, vs, *gs) in alike(*lists):
        if weight_decay:
            torch._foreach_mul_(xs, (torch.ones_like(norm) - lr * weight_decay).to(device, vs[0].dtype))
        *before, last = (f if isinstance(f, float) else f.to(device, vs[0].dtype) for f in numbers)
        if gs and isinstance(last, float) and not before and not foreach:
            for x, v, g in zip(xs, vs, *gs, strict=True):
                x.add_(v, alpha=-last)
                v.sub_(g)
            continue
        scaled = vs
        for factor in before:
            scaled = list(torch._foreach_mul(scaled, factor))
        if isinstance(last, float):  # backwards: the estimates written last are in the processor's cache
            torch._foreach_add_(xs[::-1], scaled[::-1], alpha=-last)
        elif foreach:
            torch._foreach_sub_(xs, torch._foreach_mul(scaled, last))
        else:
            for x, v in zip(xs, scaled, strict=True):
                x.addcmul_(v, last, value=-1)
        if gs:
            torch._foreach_sub_(vs, *gs)


def normalized_steps_(
    params: Sequence[Tensor],
    estimates: Sequence[Tensor],
    norms: Sequence[float],
    lr: float,
    *,
    weight_decay: float = 0.0,
    maximize: bool = False,
    subtracted: Sequence[Tensor] | None = None,
) -> None:
    """As `normalized_step_`, with a norm for each tensor; on a CPU.

    >>> x, y, v = torch.zeros(1), torch.zeros(1), torch.tensor([3.0])
    >>> normalized_steps_([x, y], [v, -v], [3.0, 6.0], lr=1.0)
    >>> x, y
    (tensor([-1.]), tensor([0.5000]))
    """
    if weight_decay:
        torch._foreach_mul_(list(params), 1 - lr * weight_decay)
    for i, (x, v, norm) in enumerate(zip(params, estimates, norms, strict=True)):
        *before, last = factors_of(norm, -lr if maximize else lr)
        x.add_(v * before[0] if before else v, alpha=-last)
        if subtracted is not None:
            v.sub_(subtracted[i])


def alike(*lists: Sequence[Tensor]) -> Iterator[tuple[torch.device, tuple[list[Tensor], ...]]]:
    """The lists cut into runs of equal device and types, as the foreach kernels want them."""
    if all(len({(tensor.device, tensor.dtype) for tensor in column}) == 1 for column in lists):
        yield lists[0][0].device, tuple(list(column) for column in lists)
        return
    kinds: defaultdict[Any, list[tuple[Tensor, ...]]] = defaultdict(list)
    for row in zip(*lists, strict=True):
        kinds[row[0].device, *(tensor.dtype for tensor in row)].append(row)
    for (device, *_), rows in kinds.items():
        yield device, tuple(list(column) for column in zip(*rows, strict=True))


def factors(norm: Tensor, lr: float | Tensor) -> list[Tensor] | list[float]:
    """Numbers whose product is γ/‖v‖, or 0 where ‖v‖ = 0, and that float32 holds, as it may not hold γ/‖v‖."""
    if norms.readable(norm):  # a dozen operations on tensors of no dimensions would cost more than a small model's step
        return factors_of(norm.item(), float(lr))
    close = torch.exp2(-norm.log2().round().clamp(-127, 126))  # to 1/‖v‖, if float32 holds that
    return [close, torch.where(norm == 0, 0.0, lr / (norm * close))]


def factors_of(norm: float, lr: float) -> list[float]:
    """The same in Python's numbers; one is enough, or they are two."""
    per_unit = lr / norm if norm else 0.0
    if not (0 < abs(per_unit) <= 1e-30 or abs(per_unit) >= 1e30):
        return [per_unit]
    close = 2.0 ** -min(max(round(math.log2(norm)), -127), 126)
    return [close, lr / (norm * close)]
