"""What NSGDM and NSTORM share as torch optimizers: options and their rules, an estimate of each parameter, the step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Never, Self, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm import theory
from gladstorm.torch.block import Block
from gladstorm.torch.normalized_step import RowNorms, norm_of, normalized_step_, normalized_steps_, norms_of, plain
from gladstorm.torch.options import (
    check_options,
    estimate_dtype,
    refuse_parts,
    warn_of_fast_decay,
    warn_of_swallowed_steps,
)
from gladstorm.torch.strict import StrictOptimizer


class NormalizedOptimizer(StrictOptimizer):
    """x ← x − γ v/‖v‖ with γ = lr; a subclass says how v, `state[p]["momentum_buffer"]`, follows the gradients.

    It writes `_step`, as NSGDM does, and says in `method` whose schedule `from_theory` takes. An optimizer without an
    estimate to normalize inherits `StrictOptimizer`, as Steered does. A method has three forms: write it in the
    simulator first, then here and in `gladstorm.optax`; one test compares them step by step, in float64.
    """

    method: ClassVar[str]  # its name in gladstorm.theory
    _blank = False  # whether the estimates are none yet, and 0 only so that a checkpoint has their shapes
    _own = (*StrictOptimizer._own, "_blank")
    _marks = ("lr", "momentum", "norm")
    _rows: RowNorms | None = None  # of the estimates as they were last renewed

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        norm: str = "global",
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,  # noqa: ARG002 - every step is
        differentiable: bool = False,
        fused: bool | None = None,
        skip_nonfinite: bool | None = None,
        **unknown: Never,
    ) -> None:
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "norm": norm}
        super().__init__(
            params,
            {**options, "maximize": maximize, "foreach": foreach},
            differentiable=differentiable,
            fused=fused,
            skip_nonfinite=skip_nonfinite,
            unknown=unknown,
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
        """lr, momentum and NSTORM's n_init as the theorem sets them for `horizon` iterates, T.

        G is the standard deviation of a mini-batch's gradient at the start. Of B only the kind of noise enters: B > 0
        grows with the distance, B = 0 does not, B = G = 0 is none. `options` go to the constructor. What the theorem
        asks of gamma0 and what it then guarantees: `gladstorm.theory.plan`.

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
        check_options(self._name, group)
        refuse_parts(self._name, group["params"], group["norm"])

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        estimates = [v for p in self._all_params() if (v := self._estimate(p)) is not None]
        self._blank = bool(estimates) and not any(plain(v).any() for v in estimates)

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        return estimate_dtype(p) if name == "momentum_buffer" else p.dtype

    def _estimate(self, p: Tensor) -> Tensor | None:
        """v, if there is one yet."""
        state: dict[str, Tensor] | None = self.state.get(p)
        return None if state is None else state.get("momentum_buffer")

    def _only_shows_its_shapes(self) -> bool:
        """Make estimates of 0 if this step is none."""
        if not self._is_a_trial():
            return False
        for p in self._with_gradients():
            self.state[p]["momentum_buffer"] = first_estimate(p)
        self._blank = True
        return True

    def _forget_blanks(self) -> None:
        """Estimates that only show their shapes are none."""
        if self._blank:
            self._forget(self._all_params())
            self._blank = False

    def _forget(self, params: Iterable[Tensor]) -> None:
        for p in params:
            if self._estimate(p) is not None:
                self.state[p].pop("momentum_buffer")  # and nothing that others keep there
            if not self.state.get(p, True):
                self.state.pop(p)

    def _blocks(self) -> list[Block]:
        """Parameters that have a gradient and an estimate, a block for each group that has any."""
        blocks = []
        for group in self.param_groups:
            pairs = [(p, v) for p in group["params"] if p.grad is not None and (v := self._estimate(p)) is not None]
            if pairs:
                blocks.append(Block(group, [p for p, _ in pairs], [v for _, v in pairs]))
        return blocks

    def _move(self, blocks: list[Block], *, subtract: bool = False) -> list[Block]:
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
                units += [[one] for one in block.one_by_one()]
        for together in units:
            norm = norm_of(
                [v for b in together for v in b.estimates],
                foreach=all(b.foreach for b in together),
                rows=self._rows,
            )
            good = self._is_good(norm)
            if good is False:
                self._forget(p for block in together for p in block.params)
                continue
            for block in together:
                lr = block.group["lr"]
                if good is not True:  # the device knows, we do not: a bad step is one of length 0, and v is 0 after it
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
            moved += together
        return moved

    def _move_each(self, block: Block, subtract: bool) -> list[Block]:
        """The same with a norm for each parameter, whose values Python may look at."""
        norms = norms_of(block.plain_estimates, self._rows or RowNorms())
        if self.skip_nonfinite is not False and not all(map(math.isfinite, norms)):
            bad = [p for p, norm in zip(block.params, norms, strict=True) if not math.isfinite(norm)]
            self._skipped += len(bad)
            self._forget(bad)
            good = [(p, v) for p, v in zip(block.params, block.estimates, strict=True) if self._estimate(p) is not None]
            block = Block(block.group, [p for p, _ in good], [v for _, v in good])
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
