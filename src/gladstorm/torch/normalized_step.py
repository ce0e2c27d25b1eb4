"""The normalized step x ← x − γ v/‖v‖ on lists of tensors: no state, no groups, no wait for the device.

`foreach` asks for torch's horizontally fused kernels, one launch for many tensors; the equations are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

# Entries per dot product. In float32 one of a million entries is good to 1e-6, while torch's norm on a CPU keeps so few
# running sums that of ten million it is 4e-4 too small, and every step would be 4e-4 too long.
PIECE = 2**20

ORDINARY = (Tensor, torch.nn.Parameter)  # types that need no asking; a step asks often


def normalized_step_(
    params: Sequence[Tensor],
    estimates: Sequence[Tensor],
    norm: Tensor,
    lr: float | Tensor,
    *,
    weight_decay: float = 0.0,
    maximize: bool = False,
    foreach: bool = False,
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
    per_unit = torch.where(norm == 0, 0.0, lr / norm)  # γ/‖v‖
    if maximize:
        per_unit = -per_unit
    for device, (xs, vs) in alike(params, estimates):
        if weight_decay:
            torch._foreach_mul_(xs, (torch.ones_like(norm) - lr * weight_decay).to(device))
        scale = per_unit.to(device)
        if foreach:
            torch._foreach_sub_(xs, torch._foreach_mul(vs, scale))
        else:
            for x, v in zip(xs, vs, strict=True):
                x.addcmul_(v, scale, value=-1)


class Squares:
    """Sums of squares, each taken right after its tensor was written, while that is in the processor's cache.

    A sum counts only while its tensor is not written again.
    """

    def __init__(self) -> None:
        self._taken: dict[int, tuple[Tensor, int, Tensor]] = {}  # tensor, its version, its sum

    def take(self, v: Tensor) -> None:
        """Take the sum now, on a CPU; an accelerator takes all at once later, a compiler as it sees fit."""
        if v.device.type == "cpu" and not torch.compiler.is_compiling():
            self._taken[id(v)] = (v, v._version, _square(v))

    def of(self, v: Tensor) -> Tensor:
        """The sum, taken anew if need be."""
        if not self._taken:
            return _square(v)
        tensor, version, square = self._taken.get(id(v), (None, 0, None))
        return square if square is not None and tensor is v and version == v._version else _square(v)


def norm_of(estimates: Iterable[Tensor], *, foreach: bool = False, squares: Squares | None = None) -> Tensor:
    """‖v‖ over all entries of all tensors, the other processes' shards included; no dimensions, on the first's device.

    Squares are taken in the tensors' own precision: for float32 entries between about 1e-19 and 1e19.

    >>> norm_of([torch.tensor([3.0]), torch.tensor([0.0, 4.0])])
    tensor(5.)
    """
    kinds: defaultdict[Any, list[Tensor]] = defaultdict(list)
    for estimate in estimates:
        v = plain(estimate)
        kinds[_sharding(estimate), v.device, v.dtype].append(v)
    if not kinds:
        return torch.zeros(())
    _, device, _ = next(iter(kinds))
    dtype = torch.float64 if any(dtype is torch.float64 for *_, dtype in kinds) else torch.float32
    totals = []
    for (sharding, *_), vs in kinds.items():
        total = _total(vs, foreach, squares or Squares())
        totals.append((total if sharding is None else _over_all_processes(total, *sharding)).to(device, dtype))
    return torch.stack(totals).sum().sqrt()


def plain(tensor: Tensor) -> Tensor:
    """The tensor's entries on this process as real numbers, in the same memory: a DTensor's shard, complex as pairs."""
    local: Tensor = tensor.to_local() if _sharding(tensor) else tensor  # type: ignore[attr-defined]  # a DTensor's
    return torch.view_as_real(local) if local.is_complex() else local


def alike(*lists: Sequence[Tensor]) -> Iterator[tuple[torch.device, tuple[list[Tensor], ...]]]:
    """The lists cut into runs of equal device and types, as the foreach kernels want them."""
    kinds: defaultdict[Any, list[tuple[Tensor, ...]]] = defaultdict(list)
    for row in zip(*lists, strict=True):
        kinds[row[0].device, *(tensor.dtype for tensor in row)].append(row)
    for (device, *_), rows in kinds.items():
        yield device, tuple(list(column) for column in zip(*rows, strict=True))


def _total(vs: list[Tensor], foreach: bool, squares: Squares) -> Tensor:
    """The sum of all squares of tensors of one kind."""
    if foreach and vs[0].device.type != "cpu":
        return torch.stack(torch._foreach_norm(vs)).square().sum()
    return torch.stack([squares.of(v) for v in vs]).sum()


def _square(v: Tensor) -> Tensor:
    pieces = [torch.dot(piece, piece) for piece in _pieces(v)]
    return pieces[0] if len(pieces) == 1 else torch.stack(pieces).sum()


def _pieces(v: Tensor) -> Sequence[Tensor]:
    """All entries in the order of memory, in pieces: no copy of a dense tensor, whatever its memory format."""
    in_order = v if v.is_contiguous() else v.permute(sorted(range(v.dim()), key=v.stride, reverse=True)).contiguous()
    flat = in_order.view(-1)
    return torch.split(flat, PIECE) if flat.numel() > PIECE else (flat,)


def _sharding(tensor: Tensor) -> tuple[Any, tuple[bool, ...]] | None:
    """A DTensor's mesh and along which of its dimensions the tensor is cut; None for an ordinary tensor."""
    if type(tensor) in ORDINARY:
        return None
    mesh = getattr(tensor, "device_mesh", None)  # asked this way, torch.distributed.tensor (1 s) need not be imported
    if mesh is None:
        return None
    return mesh, tuple(not p.is_replicate() for p in tensor.placements)  # type: ignore[attr-defined]  # a DTensor's


def _over_all_processes(squares: Tensor, mesh: Any, cut: tuple[bool, ...]) -> Tensor:
    from torch.distributed.tensor import DTensor, Partial, Replicate

    placements = [Partial() if here else Replicate() for here in cut]
    return DTensor.from_local(squares, mesh, placements).full_tensor()
