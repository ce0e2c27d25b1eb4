"""Mini-batches cut into groups: whatever holds tensors with the samples along the first dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor


def size_of(batch: Any) -> int:
    """The number of samples: the first dimension of the first tensor that has one.

    >>> import torch
    >>> size_of({"input_ids": torch.zeros(8, 128, dtype=torch.long), "labels": torch.zeros(8)})
    8
    """
    for tensor in _tensors(batch):
        if tensor.dim():
            return len(tensor)
    raise ValueError(
        f"diagnose: a mini-batch must hold tensors with its samples along the first dimension; got {batch!r}."
    )


def cut(batch: Any, groups: int, samples: int | None = None) -> list[Any]:
    """So many groups of equal size; samples that are left over are dropped.

    >>> import torch
    >>> [x.tolist() for x, scale in cut((torch.arange(5), 2.0), 2)]
    [[0, 1], [2, 3]]
    """
    size = size_of(batch)
    n = (samples or size) // groups
    return [_rows(batch, size, slice(i * n, (i + 1) * n)) for i in range(groups)]


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from _tensors(value)


def _rows(batch: Any, size: int, rows: slice) -> Any:
    """The same structure with these rows of every tensor that has a row for each sample; the rest as it is."""
    if isinstance(batch, Tensor):
        return batch[rows] if batch.dim() and len(batch) == size else batch
    if isinstance(batch, Mapping):
        return {name: _rows(value, size, rows) for name, value in batch.items()}
    if isinstance(batch, list | tuple):
        inner = [_rows(value, size, rows) for value in batch]
        return type(batch)(*inner) if hasattr(batch, "_fields") else type(batch)(inner)
    return batch
