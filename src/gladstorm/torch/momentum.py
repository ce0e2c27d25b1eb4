"""The base classes of optimizers that average gradients, and step along the average in the norm that a group names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm import theory
from gladstorm.core.rules import COUNT
from gladstorm.torch import norms
from gladstorm.torch.norms import norm_of, normalized_step_
from gladstorm.torch.optimizer import Optimizer, ParamBlock
from gladstorm.torch.options import (
    MOMENTUM,
    POSITIVE_NUMBER,
    estimate_dtype,
    warn_of_fast_decay,
    warn_of_swallowed_steps,
)
from gladstorm.torch.unit_steps import OF_MATRICES, UNIT_STEPS, entries_of_one, layer_steps_


class MomentumOptimizer(Optimizer):
    """x ← (1 − γλ) x − γ s d(v), d(v) the unit step along v = `state[p]["momentum_buffer"]` in a group's norm."""

    rules = {**Optimizer.rules, "scale": POSITIVE_NUMBER, "stack": COUNT}
    _norms: ClassVar[tuple[str | None, ...]] = ("global", "group", "tensor", *UNIT_STEPS)

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

    def _first_moves(self) -> Iterator[tuple[Tensor, float]]:
        """Parameters that are trained, and how far the first step moves an entry: the root of the mean square."""
        for group in self.param_groups:
            norm, length = group["norm"], self._first_length(group)
            with_it = [other for other in self.param_groups if other is group or other["norm"] == norm != "group"]
            together = sum(p.numel() for other in with_it for p in other["params"])
            for p in group["params"]:
                if p.requires_grad and p.numel():
                    apart = entries_of_one(p, norm, group["stack"]) if norm in UNIT_STEPS else p.numel()
                    yield p, length / (together if norm in (None, "global", "group") else apart) ** 0.5

    def _first_length(self, group: dict[str, Any]) -> float:
        """γ s of the first step of a group."""
        return float(group["lr"]) * float(group["scale"])

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        return estimate_dtype(p) if name == "momentum_buffer" else p.dtype

    def _start_estimates(self, params: Iterable[Tensor]) -> None:
        """v⁰ = g⁰, a copy, where there is no estimate yet."""
        for p in params:
            if "momentum_buffer" not in self.state.get(p, ()):
                gradient = cast(Tensor, p.grad).detach()
                self.state[p]["momentum_buffer"] = gradient.to(estimate_dtype(p), copy=True)

    def _drop_estimates(self, params: Iterable[Tensor]) -> None:
        """Forget v, and nothing that others keep in the state."""
        for p in params:
            if p in self.state:
                self.state[p].pop("momentum_buffer", None)
            if not self.state.get(p, True):
                self.state.pop(p)

    def _move(self, blocks: list[ParamBlock], share: float | Tensor = 1.0) -> None:
        """x ← (1 − γλ) x − γ s d(v) with γ = lr · share; where v is not finite it is dropped, and x stays."""
        for block in blocks:
            if block.group["norm"] in UNIT_STEPS and (part := self._finite_part(block)):
                layer_steps_(part.params, part.estimates, block.group["lr"] * share, part.group)
        for unit in with_one_norm(blocks):
            norm = norm_of([v for block in unit for v in block.estimates])
            good = self._is_good(norm)
            if good is False:
                self._drop_estimates(p for block in unit for p in block.params)
                continue
            for block in unit:
                if good is not True:  # known on the device only: a bad step has length 0, and v is 0 after it
                    norm = torch.where(good, norm, 0)
                    set_to_zero_unless(good, block.plain_estimates)
                scale, decay, maximize = (block.group[key] for key in ("scale", "weight_decay", "maximize"))
                lr = block.group["lr"] * share * scale
                normalized_step_(
                    block.plain_params, block.plain_estimates, norm, lr, weight_decay=decay / scale, maximize=maximize
                )

    def _finite_part(self, block: ParamBlock) -> ParamBlock | None:
        """Tensors of a block whose estimates are finite; where only the device knows, bad estimates become 0."""
        if not (norms.readable(block.estimates[0]) if self.skip_nonfinite is None else self.skip_nonfinite):
            return block
        good = [self._is_good(norm_of([v])) for v in block.estimates]
        for v, finite in zip(block.plain_estimates, good, strict=True):
            if isinstance(finite, Tensor):
                set_to_zero_unless(finite, [v])
        rows = [(p, v) for p, v, finite in zip(block.params, block.estimates, good, strict=True) if finite is not False]
        if len(rows) == len(block.params):
            return block
        self._drop_estimates(p for p, finite in zip(block.params, good, strict=True) if finite is False)
        return ParamBlock(block.group, [p for p, _ in rows], [v for _, v in rows]) if rows else None


class NormalizedOptimizer(MomentumOptimizer):
    """x ← x − γ v/‖v‖ with γ = lr; a subclass says how v, `state[p]["momentum_buffer"]`, follows the gradients.

    It writes `_step`, as NSGDM does, and says in `method` whose schedule `from_theory` takes. An optimizer without an
    estimate to normalize inherits `Optimizer`. A method has three forms: write it in the simulator first, then here and
    in `gladstorm.optax`; one test compares them step by step, in float64.
    """

    method: ClassVar[str]  # its name in gladstorm.theory
    rules = {**MomentumOptimizer.rules, "momentum": MOMENTUM}
    _required = ("momentum", "norm")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        norm: str = "global",
        scale: float = 1.0,
        stack: int = 1,
        maximize: bool = False,
        skip_nonfinite: bool | None = None,
    ) -> None:
        numbers = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "scale": scale, "stack": stack}
        super().__init__(params, {**numbers, "norm": norm, "maximize": maximize}, skip_nonfinite)
        warn_of_fast_decay(self._name, self.param_groups)
        warn_of_swallowed_steps(self._name, self._first_moves())

    @classmethod
    def from_theory(
        cls,
        params: ParamsT,
        *,
        horizon: int,
        alpha: float,
        gamma0: float,
        G: float,
        B: float = 1.0,
        eta0: float = 1.0,
        **options: Any,
    ) -> Self:
        """Make the optimizer with lr, momentum and NSTORM's n_init as the theorem sets them.

        `gladstorm.theory.plan` says what the theorem asks of gamma0, and what it then guarantees.

        Args:
            params: As in the constructor.
            horizon: T, the number of iterates.
            alpha: α in [0, 1] of f ∈ L*_sym(α) for NSGDM, of E L*_sym(α) for NSTORM.
            gamma0: γ0 of the theorem's schedule.
            G: The standard deviation of a mini-batch's gradient at the start.
            B: Only its sign matters: with B > 0 the noise grows with the distance, with B = 0 it does not; B = G = 0
                means no noise.
            eta0: η0 of the theorem's schedule.
            **options: Any other options of the constructor.

        >>> import torch
        >>> from gladstorm.torch import NSTORM
        >>> x = torch.nn.Parameter(torch.zeros(2))
        >>> optimizer = NSTORM.from_theory([x], horizon=10**4, alpha=0, gamma0=1.0, G=0.7)
        >>> optimizer.defaults["lr"], optimizer.defaults["momentum"], optimizer.n_init  # T^(−3/4), 1 − 1/T, G² T^(1/2)
        (0.001, 0.9999, 49)
        """
        statement = theory.for_schedule(cls.method, alpha=alpha, gamma0=gamma0, B=B, G=G, eta0=eta0)
        eta, gamma, n_init, _ = statement.schedule(horizon)
        if n_init > 1:  # NSTORM only: NSGDM's theorems start from one sample
            options = {"n_init": n_init, **options}
        return cls(params, lr=gamma, momentum=1 - eta, **options)


def average_gradients_into(blocks: Iterable[ParamBlock], momentum: float | None = None) -> None:
    """v ← (1 − η) v + η g with 1 − η = momentum, the group's if None."""
    for block in blocks:
        eta = 1 - (block.group["momentum"] if momentum is None else momentum)
        torch._foreach_lerp_(block.plain_estimates, block.plain_grads, eta)


def with_one_norm(blocks: list[ParamBlock]) -> Iterator[list[ParamBlock]]:
    """Lists of blocks with one Euclidean norm together: all of "global", each of "group", each tensor of "tensor"."""
    if together := [block for block in blocks if block.group["norm"] == "global"]:
        yield together
    for block in blocks:
        if block.group["norm"] == "group":
            yield [block]
        elif block.group["norm"] == "tensor":
            yield from ([ParamBlock(block.group, [p], [v])] for p, v in zip(block.params, block.estimates, strict=True))


def set_to_zero_unless(good: Tensor, vs: list[Tensor]) -> None:
    """v ← 0 in place where a number on the device says that v is not good."""
    for v in vs:
        v.copy_(torch.where(good.to(v.device), v, 0))
