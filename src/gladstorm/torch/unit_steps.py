"""Unit steps d(v) in the norms that each tensor has of its own: the point of the unit ball that agrees most with v.

No state, no groups, no wait for the device. A tensor that is cut over processes is gathered for a norm of matrices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gladstorm.core.equations import newton_schulz, normalized, spectral_length
from gladstorm.torch.norms import plain, sharding, whole

BATCH, BATCH_ON_CPU = 2**24, 2**16  # entries of matrices of one shape that are computed with together
FAST_BFLOAT16 = torch.backends.cpu.get_cpu_capability().startswith(
    "AVX512"
)  # other CPUs multiply matrices slowly in it


def spectral(v: Tensor) -> Tensor:
    """√max{1, m/n} UVᵀ of each m × n matrix of a stack by Newton–Schulz, in bfloat16 unless v is in float64."""
    narrow = v if v.dtype is torch.float64 or (v.is_cpu and not FAST_BFLOAT16) else v.bfloat16()
    *_, m, n = v.shape
    wide = narrow.mT.contiguous() if m > n else narrow  # or each product would have to reorder its factors
    unit: Tensor = newton_schulz(wide, torch, add_product=_add_product)
    return (unit.mT if m > n else unit).to(v.dtype).mul_(spectral_length(m, n))


def _add_product(beta: float, z: Tensor, alpha: float, x: Tensor, y: Tensor) -> Tensor:
    return (torch.addmm if z.dim() == 2 else torch.baddbmm)(z, x, y, beta=beta, alpha=alpha)


def rows(v: Tensor) -> Tensor:
    """Rows of length 1."""
    unit: Tensor = normalized(v, -1, torch)
    return unit


def columns(v: Tensor) -> Tensor:
    """Columns of length 1."""
    unit: Tensor = normalized(v, -2, torch)
    return unit


def sign(v: Tensor) -> Tensor:
    """±1, 0 where v = 0, and NaN where v is not finite."""
    return v / v.abs().masked_fill_(v == 0, 1)


OF_MATRICES: dict[str, Callable[[Tensor], Tensor]] = {"spectral": spectral, "rows": rows, "columns": columns}
UNIT_STEPS = {**OF_MATRICES, "sign": sign}


def unit_steps(vs: Sequence[Tensor], norm: str, stack: int = 1) -> Iterator[tuple[list[int], list[Tensor]]]:
    """Indices of tensors, and d(v) of each, what of it is on this process; tensors of one shape are computed together.

    >>> for indices, units in unit_steps([torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0], [2.0]])], "rows"):
    ...     print(indices, *units)
    [0] tensor([[0.6000, 0.8000]])
    [1] tensor([[0.],
            [1.]])
    """
    if norm not in OF_MATRICES:
        yield list(range(len(vs))), [UNIT_STEPS[norm](plain(v)) for v in vs]
        return
    shapes: defaultdict[object, list[int]] = defaultdict(list)
    for i, v in enumerate(vs):
        shapes[v.shape, v.dtype, v.device].append(i)
    for alike in shapes.values():
        first = vs[alike[0]]
        together = max(1, (BATCH_ON_CPU if first.is_cpu else BATCH) // first.numel())
        for start in range(0, len(alike), together):
            indices = alike[start : start + together]
            stacks = [matrices(whole(vs[i]), stack) for i in indices]
            if len(stacks) == stack == 1:  # a product of two matrices, not of two stacks of one, which takes longer
                units = (OF_MATRICES[norm](stacks[0][0]),)
            else:
                units = OF_MATRICES[norm](torch.cat(stacks)).split(stack)
            yield indices, [part_of(unit.reshape(vs[i].shape), vs[i]) for i, unit in zip(indices, units, strict=True)]


def entries_of_one(v: Tensor, norm: str, stack: int = 1) -> int:
    """Over how many entries a unit step spreads a square of 1: one over the mean of its entries' squares.

    >>> v = torch.zeros(6, 4)
    >>> [entries_of_one(v, norm) for norm in UNIT_STEPS], entries_of_one(v, "columns", stack=3)
    ([4, 4, 6, 1], 2)
    """
    if norm == "sign":
        return 1
    *_, m, n = matrices(torch.empty(v.shape, device="meta"), stack).shape
    return m if norm == "columns" else n


def matrices(v: Tensor, stack: int) -> Tensor:
    """A tensor as a stack of matrices: equal pieces of its first dimension, each of its own first dimension × the rest.

    >>> shapes = [((6, 5), 1), ((6, 5), 3), ((6, 5, 3, 3), 1), ((4, 6, 5), 4)]  # plain, fused, a convolution, experts
    >>> [tuple(matrices(torch.zeros(shape), stack).shape) for shape, stack in shapes]
    [(1, 6, 5), (3, 2, 5), (1, 6, 45), (4, 6, 5)]
    """
    pieces = v.reshape(stack, v.shape[0] // stack, *v.shape[1:])
    return (pieces.squeeze(1) if stack > 1 and v.dim() > 2 else pieces).flatten(2)


def part_of(unit: Tensor, v: Tensor) -> Tensor:
    """A tensor cut as v is: the part on this process."""
    if sharding(v) is None:
        return unit
    from torch.distributed.tensor import DTensor, Replicate

    mesh, placements = v.device_mesh, v.placements  # type: ignore[attr-defined]  # a DTensor's
    everywhere = DTensor.from_local(unit, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return everywhere.redistribute(placements=placements).to_local()


def layer_steps_(
    params: Sequence[Tensor], estimates: Sequence[Tensor], lr: float | Tensor, group: Mapping[str, Any]
) -> None:
    """x ← (1 − γλ) x − γ s d(v) for each tensor, in place, with γ = lr, s = scale, λ = weight_decay of its group.

    >>> x, v = torch.tensor([1.0, 1.0]), torch.tensor([3.0, -4.0])
    >>> layer_steps_([x], [v], 0.5, {"norm": "sign", "stack": 1, "scale": 0.5, "weight_decay": 0.0, "maximize": False})
    >>> x
    tensor([0.7500, 1.2500])
    """
    length, decay = lr * (group["scale"] if group["maximize"] else -group["scale"]), 1 - lr * group["weight_decay"]
    for indices, units in unit_steps(estimates, group["norm"], group["stack"]):
        for i, unit in zip(indices, units, strict=True):
            x = plain(params[i])
            if group["weight_decay"]:
                x.mul_(_number(decay, unit))
            x.add_(unit.mul_(_number(length, unit)))


def _number(number: float | Tensor, like: Tensor) -> float | Tensor:
    """A number as kernels want it: if a tensor, then without dimensions and where the others are."""
    return number.to(like).reshape(()) if isinstance(number, Tensor) else number
