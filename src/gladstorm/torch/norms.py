"""Norms over lists of tensors, the shards of other processes included, and the normalized step x ← x − γ v/‖v‖.

No state, no groups, no wait for the device.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

# Entries to a running sum. How many of them a dot product keeps depends on the processor: on some, one of 2²⁰ float32
# entries is 2e-4 off, since equal squares are all rounded the same way. So sums are short, and one kernel takes many.
ROW, SHORT = 2**9, 2**11

WITHOUT_FLOAT64 = ("mps", "xpu")  # devices, or some of their kind, that cannot compute in it

ORDINARY = (Tensor, torch.nn.Parameter)  # types that need no asking; a step asks often


def norm_of(tensors: Sequence[Tensor]) -> Tensor:
    """‖v‖ over all entries of all tensors, the other processes' shards included; no dimensions, on the first's device.

    In float64 where the device has it, whatever the tensors are in: the norm of float32 entries can exceed float32.

    >>> norm_of([torch.tensor([3e25]), torch.tensor([0.0, 4e25])])
    tensor(5.0000e+25, dtype=torch.float64)
    """
    kinds: defaultdict[Any, list[Tensor]] = defaultdict(list)
    for v in tensors:
        kinds[sharding(v), v.device, v.dtype].append(plain(v))
    if not kinds:
        return torch.zeros((), dtype=torch.float64)
    _, device, _ = next(iter(kinds))
    lengths = []
    for (where, *_), vs in kinds.items():
        length = _norm_of_kind(vs)
        lengths.append((length if where is None else _gather(length, *where)).to(device, widest(device)))
    return lengths[0] if len(lengths) == 1 and lengths[0].dim() == 0 else _scaled_norm(lengths)


def is_zero(tensors: Sequence[Tensor]) -> bool:
    """Whether all entries are 0, the other processes' shards included: a process may have none and must know."""
    return not norm_of(tensors).item()


def inner_of(us: Sequence[Tensor], vs: Sequence[Tensor], size: float) -> float:
    """⟨u, v⟩ over all entries of all tensors, which are cut alike, the other processes' shards included.

    In float64 if the tensors' type does not hold the size ‖u‖‖v‖ or is narrower than float32, where the device has it.

    >>> inner_of([torch.tensor([1e-30, 2e-30])], [torch.tensor([3e-20, -1e-20])], size=1e-49)
    9.999999714365993e-51
    """
    products: defaultdict[Any, list[Tensor]] = defaultdict(list)
    for u, v in zip(us, vs, strict=True):
        pair = [plain(u).reshape(-1), plain(v).reshape(-1)]
        if u.dtype.itemsize < 4 or not _in_range(size, u.dtype) or size > torch.finfo(u.dtype).max:
            pair = [flat.to(widest(u.device)) for flat in pair]
        products[sharding(u), u.device].append(torch.dot(*pair))
    return _total({key: torch.stack(each).to(widest(key[1])).sum() for key, each in products.items()}).item()


def plain(tensor: Tensor) -> Tensor:
    """Entries of a tensor on this process as real numbers, in the same memory: a DTensor's shard, complex as pairs."""
    if type(tensor) not in ORDINARY and sharding(tensor):
        tensor = tensor.to_local()  # type: ignore[attr-defined]  # a DTensor's
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def plains(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Entries of each tensor on this process as real numbers, at a third of the price for ordinary ones."""
    return [t if type(t) in ORDINARY and not t.is_complex() else plain(t) for t in tensors]


def total_norm(lengths: Mapping[Any, Sequence[Tensor]]) -> Tensor:
    """The norm of what has these lengths, the other processes' included; keys are a `sharding` and a device."""
    wide = {key: torch.stack(list(parts)).to(widest(parts[0].device)) for key, parts in lengths.items()}
    return _total({key: vector @ vector for key, vector in wide.items()}).sqrt()


def _total(numbers: dict[Any, Tensor]) -> Tensor:
    """Sum of numbers, the other processes' included; one for each way tensors are cut and each device they are on."""
    first = next(iter(numbers.values()))
    whole = (n if where is None else _gather(n, *where).sum() for (where, _), n in numbers.items())
    return torch.stack([n.to(first) for n in whole]).sum()


def readable(tensor: Tensor) -> bool:
    """Whether Python may read its value: it is on a CPU, and no compiler is at work."""
    return tensor.is_cpu and not torch.compiler.is_compiling()


def widest(device: torch.device) -> torch.dtype:
    """The widest floating-point type of a device."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def _norm_of_kind(vs: list[Tensor]) -> Tensor:
    """‖v‖ over tensors of one kind: by their squares where those stay in range, else by wider or by smaller numbers."""
    dtype, wide = vs[0].dtype, widest(vs[0].device)
    if readable(vs[0]):
        square = _square(torch.cat([vector for v in vs for vector in row_norms(v)]))
        if _in_range(square.item(), dtype):
            return square.to(wide).sqrt()
    if dtype is wide:
        return _scaled_norm(vs)
    if torch.compiler.is_compiling():  # which cannot fuse a norm of a list
        return _combine([_norm(v, dtype=wide) for v in vs])
    return _combine(torch._foreach_norm(vs, dtype=wide))


def _in_range(square: float, dtype: torch.dtype) -> bool:
    """Whether a sum of squares has neither overflowed nor lost any that count."""
    return _smallest_square(dtype) < square < math.inf


@cache
def _smallest_square(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps ** 2


def _scaled_norm(vs: list[Tensor]) -> Tensor:
    """‖v‖ with the largest entry divided out, so that squares neither overflow nor vanish."""
    largest = torch.stack([v.abs().amax() for v in vs if v.numel()] or [vs[0].new_zeros(())]).amax()
    divisor = torch.where((largest == 0) | largest.isinf(), 1.0, largest)
    return divisor * _combine([_norm(v / divisor) for v in vs])


def _combine(lengths: Sequence[Tensor]) -> Tensor:
    """The length of what has these lengths."""
    return _norm(torch.stack(list(lengths)))


def _norm(v: Tensor, **options: Any) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(v, **options)
    return length


def _square(v: Tensor) -> Tensor:
    """The sum of squares of a vector."""
    return torch.dot(v, v) if v.numel() <= SHORT else _square(torch.cat(row_norms(v)))


def row_norms(v: Tensor) -> list[Tensor]:
    """Vectors that together have the norm of v: the norms of its rows and what no row holds, or v if it is short."""
    if not v.is_contiguous():  # in the order of memory: no copy of a dense tensor, whatever its memory format
        v = v.permute(sorted(range(v.dim()), key=v.stride, reverse=True)).contiguous()
    flat = v.view(-1)
    if flat.numel() <= SHORT:
        return [flat]
    in_rows = flat.numel() // ROW * ROW
    return [torch.linalg.vector_norm(flat[:in_rows].view(-1, ROW), 2, 1), flat[in_rows:]]


def sharding(tensor: Tensor) -> tuple[Any, tuple[bool, ...]] | None:
    """A DTensor's mesh and along which of its dimensions the tensor is cut; None for an ordinary tensor."""
    if type(tensor) in ORDINARY:
        return None
    mesh = getattr(tensor, "device_mesh", None)  # asked this way, torch.distributed.tensor (1 s) need not be imported
    if mesh is None:
        return None
    return mesh, tuple(not p.is_replicate() for p in tensor.placements)  # type: ignore[attr-defined]  # a DTensor's


def cut_like(gradient: Any, p: Any) -> Any:
    """A gradient as its DTensor is cut: sequence parallelism leaves the processes' parts for others to add."""
    return gradient if gradient.placements == p.placements else gradient.redistribute(placements=p.placements)


def whole(tensor: Any) -> Any:
    """All of a tensor, the other processes' shards included."""
    return tensor if sharding(tensor) is None else tensor.full_tensor()


def cut_as(p: Any, tensor: Tensor) -> Tensor:
    """A whole tensor, the same in all processes, cut as another is."""
    if sharding(p) is None:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, p.device_mesh, p.placements)


def _gather(length: Tensor, mesh: Any, cut: tuple[bool, ...]) -> Tensor:
    """The lengths of all shards. Their squares could be added on the way; but those may be out of range."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    placements = [Shard(0) if here else Replicate() for here in cut]
    return DTensor.from_local(length.reshape(1), mesh, placements).full_tensor()


def normalized_step_(
    params: Sequence[Tensor],
    estimates: Sequence[Tensor],
    norm: Tensor,
    lr: float | Tensor,
    *,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """x ← (1 − γλ) x − γ v/‖v‖ in place, with γ = lr and λ = weight_decay; where ‖v‖ = 0 the second term is 0.

    Plain real tensors; each x may be narrower than its v, and is then rounded once.

    >>> x, v = torch.tensor([1.0, 1.0]), torch.tensor([3.0, -4.0])
    >>> normalized_step_([x], [v], norm_of([v]), lr=0.5)
    >>> x
    tensor([0.7000, 1.4000])
    """
    if isinstance(lr, Tensor):
        lr = lr.to(norm.device).reshape(())
    numbers = factors(norm, -lr if maximize else lr)
    for (device, *_), (xs, vs) in alike(params, estimates):
        if weight_decay:
            torch._foreach_mul_(xs, (torch.ones_like(norm) - lr * weight_decay).to(device, vs[0].dtype))
        *before, last = (f.to(device, vs[0].dtype) if isinstance(f, Tensor) else f for f in numbers)
        for factor in before:
            vs = list(torch._foreach_mul(vs, factor))
        if isinstance(last, Tensor):
            torch._foreach_sub_(xs, torch._foreach_mul(vs, last))
        else:
            torch._foreach_add_(xs, vs, alpha=-last)


def alike(*lists: Sequence[Tensor]) -> Iterator[tuple[tuple[Any, ...], list[list[Tensor]]]]:
    """Runs of equal device and types of these lists, as torch's kernels for lists want them."""
    kinds: defaultdict[Any, list[tuple[Tensor, ...]]] = defaultdict(list)
    for row in zip(*lists, strict=True):
        kinds[row[0].device, *(tensor.dtype for tensor in row)].append(row)
    for kind, rows in kinds.items():
        yield kind, [list(column) for column in zip(*rows, strict=True)]


def factors(norm: float | Tensor, lr: float | Tensor) -> list[Any]:
    """Numbers whose product is γ/‖v‖, or 0 where ‖v‖ = 0, and that float32 holds, as it may not hold γ/‖v‖."""
    if isinstance(norm, Tensor) and not readable(norm):
        near = torch.exp2(-norm.log2().round().clamp(-127, 126))  # to 1/‖v‖, if float32 holds that
        return [near, torch.where(norm == 0, 0.0, lr / (norm * near))]
    length = float(norm)  # a dozen operations on tensors of no dimensions would cost more than a small model's step
    per_unit = float(lr) / length if length else 0.0
    if not (0 < abs(per_unit) <= 1e-30 or abs(per_unit) >= 1e30):
        return [per_unit]
    close = 2.0 ** -min(max(round(math.log2(length)), -127), 126)
    return [close, float(lr) / (length * close)]
