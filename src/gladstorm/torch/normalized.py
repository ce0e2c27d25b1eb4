"""The base class of NSGDM and NSTORM: an estimate of each parameter's gradient, and the normalized step along it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Self, Unpack, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm import theory
from gladstorm.torch.norms import RowNorms, norm_of, normalized_step_, normalized_steps_, norms_of, plain
from gladstorm.torch.optimizer import Optimizer, ParamBlock
from gladstorm.torch.options import (
    MOMENTUM,
    NORMS,
    SharedOptions,
    estimate_dtype,
    warn_of_fast_decay,
    warn_of_swallowed_steps,
)


class NormalizedOptimizer(Optimizer):
    """x ← x − γ v/‖v‖ with γ = lr; a subclass says how v, `state[p]["momentum_buffer"]`, follows the gradients.

    It writes `_step`, as NSGDM does, and says in `method` whose schedule `from_theory` takes. An optimizer without an
    estimate to normalize inherits `Optimizer`. A method has three forms: write it in the simulator first, then here and
    in `gladstorm.optax`; one test compares them step by step, in float64.
    """

    method: ClassVar[str]  # its name in gladstorm.theory
    rules = {**Optimizer.rules, "momentum": MOMENTUM}
    _required = ("lr", "momentum", "norm")
    _copied = (*Optimizer._copied, "_state_is_empty")
    _state_is_empty = False  # whether the estimates are 0 only so that a checkpoint has their shapes
    _rows: RowNorms | None = None  # of the estimates as they were last renewed

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        norm: str = "global",
        **options: Unpack[SharedOptions],
    ) -> None:
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "norm": norm}, **options
        )
        warn_of_swallowed_steps(self._name, self.param_groups)
        warn_of_fast_decay(self._name, self.param_groups)

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

    @override
    def _check_group(self, group: dict[str, Any]) -> None:
        if group["norm"] not in NORMS:
            raise ValueError(f"{self._name}: norm must be one of {', '.join(NORMS)}; got norm={group['norm']!r}.")
        super()._check_group(group)

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

    def _move(self, blocks: list[ParamBlock], *, subtract: bool = False) -> list[ParamBlock]:
        """x ← x − γ v/‖v‖, then v ← v − g if that is to follow; returns what has moved.

        One norm over all blocks of norm="global", one for each block of "group", one for each parameter of "tensor".
        """
        pool = [block for block in blocks if block.group["norm"] == "global"]
        moved = []
        units = [pool] if pool else []
        for block in blocks:
            if block.group["norm"] == "group":
                units.append([block])
            elif block.group["norm"] == "tensor" and block.is_readable:
                moved += self._move_each(block, subtract)
            elif block.group["norm"] == "tensor":
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
                lr = block.group["lr"]
                if good is not True:  # known on the device only: a bad step has length 0, and v is 0 after it
                    lr = lr * good.to(norm.dtype)
                    for v in block.plain_estimates:
                        v.copy_(torch.where(good.to(v.device), v, 0))
                normalized_step_(
                    block.plain_params,
                    block.plain_estimates,
                    norm if good is True else torch.where(good, norm, 0),
                    lr,
                    weight_decay=block.group["weight_decay"],
                    maximize=block.group["maximize"],
                    foreach=block.foreach,
                    subtracted=block.plain_grads if subtract else None,
                )
            moved += unit
        return moved

    def _move_each(self, block: ParamBlock, subtract: bool) -> list[ParamBlock]:
        """The same with a norm for each parameter, whose values Python may read."""
        norms = norms_of(block.plain_estimates, self._rows or RowNorms())
        if self.skip_nonfinite is not False and not all(map(math.isfinite, norms)):
            bad = [p for p, norm in zip(block.params, norms, strict=True) if not math.isfinite(norm)]
            self._skipped += len(bad)
            self._drop_estimates(bad)
            good = [(p, v) for p, v in zip(block.params, block.estimates, strict=True) if self._estimate(p) is not None]
            block = ParamBlock(block.group, [p for p, _ in good], [v for _, v in good])
            norms = [norm for norm in norms if math.isfinite(norm)]
            if not norms:
                return []
        normalized_steps_(
            block.plain_params,
            block.plain_estimates,
            norms,
            float(block.group["lr"]),
            weight_decay=block.group["weight_decay"],
            maximize=block.group["maximize"],
            subtracted=block.plain_grads if subtract else None,
        )
        return [block]


def first_estimate(p: Tensor) -> Tensor:
    """v⁰ = g⁰, a copy."""
    return cast(Tensor, p.grad).detach().to(estimate_dtype(p), copy=True)
