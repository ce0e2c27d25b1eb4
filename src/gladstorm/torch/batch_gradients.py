"""Gradients of a user's loss on parts of a mini-batch, as `diagnose` and `NoiseProbe` need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gladstorm.diagnosis.design import NotFinite
from gladstorm.torch.norms import norm_of, sharding

LossOf = Callable[[torch.nn.Module, Any], Tensor]  # the mean loss over the samples of a mini-batch


class SampledLoss:
    """A loss of a model, and its gradients with regard to some parameters; `where` they are is said in errors."""

    def __init__(
        self, owner: str, loss_of: LossOf, model: torch.nn.Module, params: list[Tensor], where: str = ""
    ) -> None:
        self.owner, self.loss_of, self.model, self.params, self.where = owner, loss_of, model, params, where

    def loss(self, batch: Any) -> Tensor:
        """The loss, refused unless it is one finite number."""
        loss: Any = self.loss_of(self.model, batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise ValueError(f"{self.owner}: loss_of must return a tensor with one number, the mean loss; got {got}.")
        if not bool(loss.isfinite()):
            raise NotFinite(
                f"{self.owner}: loss_of must return a finite loss; got {loss.item()}{self.where}. Look less far, with "
                "radius=…, or start where the loss is finite."
            )
        return loss

    def gradients(self, batch: Any) -> tuple[list[Tensor], float]:
        """Gradients of the loss, 0 for parameters it does not depend on; and their norm."""
        with torch.enable_grad():
            loss = self.loss(batch)
            if not loss.requires_grad:
                raise ValueError(
                    f"{self.owner}: the loss must depend on the model's parameters; got one without gradients."
                )
            gradients: Any = torch.autograd.grad(loss.sum(), self.params, allow_unused=True)
        return self._finite(gradients)

    def reduced_gradients(self, batch: Any) -> tuple[list[Tensor], float]:
        """Gradients of the mean of all processes' losses, in FSDP2's shards: only `backward` reduces them.

        No process refuses a loss of its own: the others would wait for it.
        """
        own = [p.grad for p in self.params]
        for p in self.params:
            p.grad = None
        try:
            with torch.enable_grad():
                self.loss_of(self.model, batch).backward()
            return self._finite([p.grad for p in self.params])
        finally:
            for p, gradient in zip(self.params, own, strict=True):
                p.grad = gradient

    def _finite(self, computed: Sequence[Tensor | None]) -> tuple[list[Tensor], float]:
        gradients = [
            torch.zeros_like(p) if g is None else g.to_dense() for p, g in zip(self.params, computed, strict=True)
        ]
        norm = norm_of(gradients).item()
        if not math.isfinite(norm):
            raise NotFinite(
                f"{self.owner}: gradients must be finite; got some that are not{self.where}. Under autocast in float16 "
                "compute in bfloat16 or float32 here, and return the loss unscaled."
            )
        return gradients, norm


def squared(norm: float) -> float:
    """norm²; inf where that exceeds the range of floats, where `norm**2` is an OverflowError."""
    return norm**2 if norm < 1e154 else norm * norm


def is_sharded(params: Iterable[Tensor]) -> bool:
    """Whether only a part of some parameters is here."""
    return any(hasattr(p, "full_tensor") or getattr(p, "_fsdp_flattened", False) for p in params)


def refuse_sharded(owner: str, params: Iterable[Tensor], instead: str) -> None:
    """Raise a ValueError for parameters of which only a part is here: their groups' gradients are nowhere whole."""
    if is_sharded(params):
        raise ValueError(f"{owner}: parameters must be whole; got a part of some. {instead}")


def reduced_over(owner: str, model: torch.nn.Module, params: Sequence[Tensor]) -> int:
    """Over how many processes FSDP2 takes the mean of gradients: 1 where parameters are whole."""
    if not is_sharded(params):
        return 1
    from torch.distributed.fsdp import FSDPModule

    cuts = [sharding(p) for p in params]
    if not any(isinstance(module, FSDPModule) for module in model.modules()) or any(
        cut is None or sum(cut[1]) > 1 for cut in cuts
    ):
        raise ValueError(
            f"{owner}: parameters must be whole, or all be cut by fully_shard and by nothing else; got others. Probe "
            "the model before it is sharded."
        )
    assert cuts[0] is not None  # checked
    size: int = cuts[0][0].size()
    return size


def size_of(batch: Any) -> int:
    """The number of samples: the first dimension of the first tensor that has one.

    >>> size_of({"input_ids": torch.zeros(8, 128, dtype=torch.long), "labels": torch.zeros(8)})
    8
    """
    for tensor in _tensors(batch):
        if tensor.dim():
            return len(tensor)
    raise ValueError(
        f"diagnose: a mini-batch must hold tensors with its samples along the first dimension; got {batch!r}."
    )


def split(batch: Any, groups: int, samples: int | None = None) -> list[Any]:
    """Split a mini-batch into groups of equal size; samples that are left over are dropped.

    >>> [x.tolist() for x, scale in split((torch.arange(5), 2.0), 2)]
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
    """Some rows of every tensor of a mini-batch that has a row for each sample; the rest as it is."""
    if isinstance(batch, Tensor):
        return batch[rows] if batch.dim() and len(batch) == size else batch
    if isinstance(batch, Mapping):
        return {name: _rows(value, size, rows) for name, value in batch.items()}
    if isinstance(batch, list | tuple):
        inner = [_rows(value, size, rows) for value in batch]
        return type(batch)(*inner) if hasattr(batch, "_fields") else type(batch)(inner)
    return batch


def layer_notes(model: torch.nn.Module) -> tuple[str, ...]:
    """A sentence for each kind of layer that matters.

    >>> layer_notes(torch.nn.Sequential(torch.nn.Dropout(0.1)).eval())
    ('Dropout is switched off and not part of the noise; call model.train() before to count it.',)
    """
    notes = []
    norms = [layer.training for layer in model.modules() if isinstance(layer, _BatchNorm)]
    drops = [layer.training for layer in model.modules() if isinstance(layer, _DropoutNd) and layer.p > 0]
    if any(norms):
        notes.append(
            "BatchNorm normalizes every group by itself: f is that of batches of the size of a group. Put these layers "
            "into eval mode to diagnose f with fixed statistics, or compare reports with fewer groups."
        )
    elif norms:
        notes.append("BatchNorm is in eval mode: f is that with the running statistics, not the one trained on.")
    if any(drops):
        notes.append("Dropout is part of the noise; call model.eval() before to leave it out.")
    elif drops:
        notes.append("Dropout is switched off and not part of the noise; call model.train() before to count it.")
    if not (model.training or norms or drops):
        notes.append("The model is in eval mode; call model.train() before to diagnose the loss that is trained on.")
    return tuple(notes)


def min_group_size(model: torch.nn.Module) -> int:
    """How many samples a group must have: BatchNorm in training mode normalizes two or more.

    >>> min_group_size(torch.nn.Sequential(torch.nn.BatchNorm1d(3)))
    2
    """
    return 1 + any(isinstance(layer, _BatchNorm) and layer.training for layer in model.modules())
