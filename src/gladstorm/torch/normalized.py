"""What NSGDM and NSTORM share as torch optimizers: options and their rules, an estimate of each parameter, the step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gladstorm import theory
from gladstorm.rules import NON_NEGATIVE, POSITIVE, Rule
from gladstorm.torch.normalized_step import Squares, norm_of, normalized_step_, plain

RULES = {
    "lr": Rule("one number, finite and > 0", lambda v: v.ndim == 0 and POSITIVE.holds(v)),
    "momentum": Rule("one number in [0, 1)", lambda v: v.ndim == 0 and (v >= 0) & (v < 1)),
    "weight_decay": Rule("one number, finite and ≥ 0", lambda v: v.ndim == 0 and NON_NEGATIVE.holds(v)),
}
NORMS = ("global", "group", "tensor")


@dataclass
class Block:
    """Parameters of one group that move together, and an estimate for each."""

    group: dict[str, Any]
    params: list[Tensor]
    estimates: list[Tensor]  # v
    plain_params: list[Tensor] = field(init=False)  # both as the kernels want them
    plain_estimates: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.plain_params = [plain(p) for p in self.params]
        self.plain_estimates = [plain(v) for v in self.estimates]

    @property
    def foreach(self) -> bool:
        """What the group asks for; unless it does, fused kernels where they are the faster ones."""
        asked: bool | None = self.group["foreach"]
        return all(p.device.type in ("cuda", "xpu") for p in self.params) if asked is None else asked

    @property
    def plain_grads(self) -> list[Tensor]:
        """The gradients in the precision of v; 0 for a parameter that has none."""
        gradients = [p.grad for p in self.params]
        pairs = zip(gradients, self.plain_estimates, strict=True)
        return [
            torch.zeros_like(v) if g is None else plain(g) if g.dtype is v.dtype else plain(g).to(v.dtype)
            for g, v in pairs
        ]


class NormalizedOptimizer(torch.optim.Optimizer):
    """x ← x − γ v/‖v‖ with γ = lr; a subclass says how v, `state[p]["momentum_buffer"]`, follows the gradients."""

    method: ClassVar[str]  # its name in gladstorm.theory
    _squares: Squares | None = None  # of the estimates as they were last renewed

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        norm: str = "global",
        maximize: bool = False,
        foreach: bool | None = None,
    ) -> None:
        if not isinstance(params, Tensor):  # torch has a sentence of its own for a bare tensor
            params = cast(ParamsT, list(params))
            if not params:
                raise ValueError(f"{self._name}: params must hold at least one tensor; got params=[].")
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "norm": norm}
        super().__init__(params, {**options, "maximize": maximize, "foreach": foreach})
        self._warn_where_rounding_swallows_the_step()

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

    @property
    def _name(self) -> str:
        return type(self).__name__

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, with its own options where it gives them; refused as the constructor would refuse them."""
        if isinstance(param_group, dict):
            options = {**self.defaults, **param_group}
            for key, rule in RULES.items():
                value = options[key]
                if isinstance(value, Tensor):
                    value = value.item() if value.numel() == 1 else value.tolist()
                rule.require(self._name, key, value)
            if options["norm"] not in NORMS:
                wrong = options["norm"]
                raise ValueError(f"{self._name}: norm must be one of {', '.join(NORMS)}; got norm={wrong!r}.")
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch; but an estimate wider than its parameter stays wide, where torch would round it."""
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        for key, p in zip(saved, self._all_params(), strict=True):
            dtype = estimate_dtype(p)
            if dtype is not p.dtype and "momentum_buffer" in (state := state_dict["state"].get(key, {})):
                self.state[p]["momentum_buffer"] = state["momentum_buffer"].to(p.device, dtype, copy=True)

    def _all_params(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def _estimate(self, p: Tensor) -> Tensor | None:
        """v, if there is one yet."""
        estimate: Tensor | None = self.state[p].get("momentum_buffer") if p in self.state else None
        return estimate

    def _with_gradients(self) -> list[Tensor]:
        """The parameters that have a gradient, which must be dense."""
        params = []
        for p in self._all_params():
            if (gradient := p.grad) is not None:
                if gradient.layout is not torch.strided:
                    raise ValueError(f"{self._name}: gradients must be dense; got {gradient.layout}.")
                params.append(p)
        return params

    def _blocks(self) -> list[Block]:
        """Parameters that have a gradient and an estimate, grouped as they will move; one by one for norm="tensor"."""
        blocks = []
        for group in self.param_groups:
            pairs = [(p, v) for p in group["params"] if p.grad is not None and (v := self._estimate(p)) is not None]
            for together in [[pair] for pair in pairs] if group["norm"] == "tensor" else [pairs] if pairs else []:
                blocks.append(Block(group, [p for p, _ in together], [v for _, v in together]))
        return blocks

    def _move(self, blocks: list[Block]) -> None:
        """x ← x − γ v/‖v‖, one norm over all blocks of norm="global" and one for each other."""
        pool = [block for block in blocks if block.group["norm"] == "global"]
        for together in [pool, *([block] for block in blocks if block.group["norm"] != "global")]:
            if not together:
                continue
            norm = norm_of(
                (v for b in together for v in b.estimates),
                foreach=all(b.foreach for b in together),
                squares=self._squares,
            )
            for block in together:
                normalized_step_(
                    block.plain_params,
                    block.plain_estimates,
                    norm,
                    block.group["lr"],
                    weight_decay=block.group["weight_decay"],
                    maximize=block.group["maximize"],
                    foreach=block.foreach,
                )

    def _warn_where_rounding_swallows_the_step(self) -> None:
        total = sum(p.numel() for p in self._all_params())
        swallowed = []
        for group in self.param_groups:
            in_group = sum(p.numel() for p in group["params"])
            for p in group["params"]:
                d = {"global": total, "group": in_group, "tensor": p.numel()}[group["norm"]]
                if p.numel() and rounding_swallows(float(group["lr"]) / math.sqrt(d), p.detach()):
                    swallowed.append(p)
        if swallowed:
            kinds = ", ".join(sorted({str(p.dtype) for p in swallowed}))
            warnings.warn(
                f"{self._name}: a step moves an entry by lr/√d on average, which is below half an ulp of "
                f"{len(swallowed)} parameter tensor(s) of {kinds}, and rounding swallows it; "
                "keep the parameters in float32 (autocast computes in half precision) or raise lr.",
                stacklevel=3,
            )


def rounding_swallows(movement: float, p: Tensor) -> bool:
    """Whether it is below half the distance from a typical entry of p to the next number of its type.

    >>> x = torch.tensor([1.5, 1.5])
    >>> rounding_swallows(0.003, x), rounding_swallows(0.003, x.bfloat16())
    (False, True)
    """
    if p.is_meta:
        return False
    size = norm_of([p.to(estimate_dtype(p))]).item() / math.sqrt(p.numel())
    return 0 < size < math.inf and movement < torch.finfo(p.dtype).eps * 2.0 ** math.floor(math.log2(size)) / 2


def estimate_dtype(p: Tensor) -> torch.dtype:
    """The parameter's type, float32 at least.

    >>> estimate_dtype(torch.zeros(1, dtype=torch.bfloat16))
    torch.float32
    """
    return torch.promote_types(p.dtype, torch.float32)


def first_estimate(p: Tensor) -> Tensor:
    """v⁰ = g⁰, a copy."""
    return cast(Tensor, p.grad).detach().to(estimate_dtype(p), copy=True)
