"""Optimizers that keep an estimate of each parameter's gradient, and step along it in the norm that its group names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from typing_extensions import override

from gladstorm.core.rules import COUNT
from gladstorm.torch import norms
from gladstorm.torch.norms import RowNorms, norm_of, normalized_step_, normalized_steps_, norms_of, plain
from gladstorm.torch.optimizer import Optimizer, ParamBlock
from gladstorm.torch.options import NORMS, POSITIVE_NUMBER, estimate_dtype
from gladstorm.torch.unit_steps import OF_MATRICES, UNIT_STEPS, layer_steps_


class MomentumOptimizer(Optimizer):
    """x ← x − γ d(v), d(v) the unit step along v = `state[p]["momentum_buffer"]` in a norm of the group's choice."""

    rules = {**Optimizer.rules, "scale": POSITIVE_NUMBER, "stack": COUNT}
    _copied = (*Optimizer._copied, "_state_is_empty")
    _state_is_empty = False  # whether the estimates are 0 only so that a checkpoint has their shapes
    _rows: RowNorms | None = None  # of the estimates as they were last renewed
    _norms: ClassVar[tuple[str | None, ...]] = NORMS

    @override
    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        norm, stack = group["norm"], group["stack"]
        if norm not in self._norms:
            names = ", ".join(map(str, self._norms))
            raise ValueError(f"{self._name}: norm must be one of {names}; got norm={norm!r}.")
        for p in group["params"] if norm in OF_MATRICES else ():
            shape = tuple(p.shape)
            if p.dim() < 2 or p.is_complex() or not p.numel():
                raise ValueError(
                    f"{self._name}: norm={norm!r} must be for real tensors of two dimensions or more; got {p.dtype} of "
                    f"shape {shape}. gladstorm.torch.by_layer(model) gives each tensor a norm that it can have."
                )
            if len(p) % stack:
                raise ValueError(
                    f"{self._name}: stack must divide the first dimension of each tensor of its group; got "
                    f"stack={stack} for shape {shape}."
                )

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        estimates = [v for p in self._all_params() if (v := self._estimate(p)) is not None]
        self._state_is_empty = bool(estimates) and not any(plain(v).any() for v in estimates)

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        return estimate_dtype(p) if name == "momentum_buffer" else p.dtype

    def _estimate(self, p: Tensor) -> Tensor | None:
        """v, if there is one yet."""
        state: dict[str, Tensor] | None = self.state.get(p)
        return None if state is None else state.get("momentum_buffer")

    def _start_estimates(self, params: Iterable[Tensor]) -> None:
        """v⁰ = g⁰, a copy, where there is no estimate yet."""
        for p in params:
            if "momentum_buffer" not in self.state.get(p, ()):
                self.state[p]["momentum_buffer"] = first_estimate(p)

    def _average_gradients_into(self, blocks: list[ParamBlock], momentum: float | None = None) -> None:
        """v ← (1 − η) v + η g with 1 − η = momentum, the group's if None."""
        self._rows = RowNorms()
        for block in blocks:
            eta = 1 - (block.group["momentum"] if momentum is None else momentum)
            vs, gs = block.plain_estimates, block.plain_grads
            if block.foreach:
                torch._foreach_lerp_(vs, gs, eta)
            else:
                for v, g in zip(vs, gs, strict=True):
                    v.lerp_(g, eta)
                    self._rows.take(v)

    def _init_state_only(self) -> bool:
        """Create estimates of 0 if that is what this step is for."""
        if self.state or not self._is_state_init():
            return False
        self._start_estimates(self._with_gradients())
        self._state_is_empty = True
        return True

    def _drop_empty_state(self) -> None:
        if self._state_is_empty:
            self._drop_estimates(self._all_params())
            self._state_is_empty = False

    def _drop_estimates(self, params: Iterable[Tensor]) -> None:
        for p in params:
            if self._estimate(p) is not None:
                self.state[p].pop("momentum_buffer")  # and nothing that others keep there
            if not self.state.get(p, True):
                self.state.pop(p)

    def _move(
        self, blocks: list[ParamBlock], share: float | Tensor = 1.0, *, subtract: bool = False
    ) -> list[ParamBlock]:
        """x ← (1 − γλ) x − γ s d(v) with γ = lr · share, then v ← v − g if that is to follow; returns what has moved.

        One norm over all blocks of norm="global", one for each block of "group", one for each parameter of all others.
        """
        pool = [block for block in blocks if block.group["norm"] == "global"]
        moved = []
        units = [pool] if pool else []
        for block in blocks:
            if block.group["norm"] == "group":
                units.append([block])
            elif block.group["norm"] != "global" and block.is_readable:
                moved += self._move_each(block, share, subtract)
            elif block.group["norm"] in UNIT_STEPS and not self._checks(block):
                self._step_along(block, block.group["lr"] * share, None, subtract)
                moved.append(block)
            elif block.group["norm"] != "global":
                pairs = zip(block.params, block.estimates, strict=True)
                units += [[ParamBlock(block.group, [p], [v])] for p, v in pairs]
        for unit in units:
            norm = norm_of(
                [v for b in unit for v in b.estimates],
                foreach=all(b.foreach for b in unit),
                rows=self._rows,
            )
            good = self._is_good(norm)
            if good is False:
                self._drop_estimates(p for block in unit for p in block.params)
                continue
            for block in unit:
                lr = block.group["lr"] * share
                if good is not True:  # known on the device only: a bad step has length 0, and v is 0 after it
                    lr = lr * good.to(norm.dtype)
                    for v in block.plain_estimates:
                        v.copy_(torch.where(good.to(v.device), v, 0))
                self._step_along(block, lr, norm if good is True else torch.where(good, norm, 0), subtract)
            moved += unit
        return moved

    def _checks(self, block: ParamBlock) -> bool:
        """Whether a step must ask if the estimates of a block are finite."""
        return norms.readable(block.estimates[0]) if self.skip_nonfinite is None else self.skip_nonfinite

    def _move_each(self, block: ParamBlock, share: float | Tensor, subtract: bool) -> list[ParamBlock]:
        """Move each parameter by a norm of its own, where Python may read its values."""
        lengths = norms_of(block.plain_estimates, self._rows or RowNorms())
        if self.skip_nonfinite is not False and not all(map(math.isfinite, lengths)):
            bad = [p for p, length in zip(block.params, lengths, strict=True) if not math.isfinite(length)]
            self._skipped += len(bad)
            self._drop_estimates(bad)
            good = [(p, v) for p, v in zip(block.params, block.estimates, strict=True) if self._estimate(p) is not None]
            block = ParamBlock(block.group, [p for p, _ in good], [v for _, v in good])
            lengths = [length for length in lengths if math.isfinite(length)]
            if not lengths:
                return []
        self._step_along(block, float(block.group["lr"] * share), lengths, subtract)
        return [block]

    def _step_along(
        self, block: ParamBlock, lr: float | Tensor, norm: Tensor | list[float] | None, subtract: bool
    ) -> None:
        """One block's step, and v ← v − g if that is to follow; `norm` is that of all its estimates, or of each."""
        group, subtracted = block.group, block.plain_grads if subtract else None
        kind, scale, decay, maximize = (group[key] for key in ("norm", "scale", "weight_decay", "maximize"))
        if kind in UNIT_STEPS:
            layer_steps_(
                block.params,
                block.estimates,
                lr,
                kind,
                stack=group["stack"],
                scale=scale,
                weight_decay=decay,
                maximize=maximize,
            )
            if subtracted is not None:
                torch._foreach_sub_(block.plain_estimates, subtracted)
            return
        tensors, options = (block.plain_params, block.plain_estimates), {"maximize": maximize, "subtracted": subtracted}
        if isinstance(norm, list):
            normalized_steps_(*tensors, norm, float(lr) * scale, weight_decay=decay / scale, **options)
        elif norm is not None:
            normalized_step_(*tensors, norm, lr * scale, weight_decay=decay / scale, foreach=block.foreach, **options)


def first_estimate(p: Tensor) -> Tensor:
    """v⁰ = g⁰, a copy."""
    return cast(Tensor, p.grad).detach().to(estimate_dtype(p), copy=True)
