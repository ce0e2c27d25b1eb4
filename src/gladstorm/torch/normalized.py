"""What NSGDM and NSTORM share as torch optimizers: options and their rules, an estimate of each parameter, the step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Never, Self, cast, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gladstorm import theory
from gladstorm.torch import normalized_step
from gladstorm.torch.normalized_step import (
    ORDINARY,
    SHORT,
    RowNorms,
    norm_of,
    normalized_step_,
    normalized_steps_,
    norms_of,
    plain,
    plains,
)
from gladstorm.torch.options import (
    check_implementation,
    check_options,
    estimate_dtype,
    refuse_parts,
    warn_of_fast_decay,
    warn_of_swallowed_steps,
)


@dataclass
class Block:
    """Parameters of one group that move together, and an estimate for each."""

    group: dict[str, Any]
    params: list[Tensor]
    estimates: list[Tensor]  # v
    plain_params: list[Tensor] = field(init=False)  # both as the kernels want them
    plain_estimates: list[Tensor] = field(init=False)
    foreach: bool = field(init=False)  # what the group asks for; unless it does, fused kernels where they are faster

    def __post_init__(self) -> None:
        self.plain_params, self.plain_estimates = plains(self.params), plains(self.estimates)
        asked: bool | None = self.group["foreach"]
        self.foreach = all(map(_suits_foreach, self.params)) if asked is None else asked

    @property
    def is_readable(self) -> bool:
        """Whether every estimate is whole here, and Python may look at it."""
        return all(type(v) in ORDINARY and normalized_step.readable(v) for v in self.estimates)

    def one_by_one(self) -> list[Block]:
        """A block for each parameter."""
        return [Block(self.group, [p], [v]) for p, v in zip(self.params, self.estimates, strict=True)]

    @property
    def plain_grads(self) -> list[Tensor]:
        """The gradients in the precision of v; 0 for a parameter that has none."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.params]
        pairs = zip(plains(gradients), self.plain_estimates, strict=True)
        return [g if g.dtype is v.dtype else g.to(v.dtype) for g, v in pairs]


class NormalizedOptimizer(torch.optim.Optimizer, ABC):
    """x ← x − γ v/‖v‖ with γ = lr; a subclass says how v, `state[p]["momentum_buffer"]`, follows the gradients."""

    method: ClassVar[str]  # its name in gladstorm.theory
    skip_nonfinite: bool | None = None
    _skipped: int | Tensor = 0
    _blank = False  # whether the estimates are none yet, and 0 only so that a checkpoint has their shapes
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
        if unknown:  # torch's sentence, under the name the caller knows
            raise TypeError(f"{self._name}.__init__() got an unexpected keyword argument {next(iter(unknown))!r}")
        check_implementation(self._name, foreach, differentiable, fused)
        self.skip_nonfinite = skip_nonfinite
        if not isinstance(params, Tensor):  # torch has a sentence of its own for a bare tensor
            params = cast(ParamsT, list(params))
            if not params:
                raise ValueError(f"{self._name}: params must hold at least one tensor; got params=[].")
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "norm": norm}
        super().__init__(params, {**options, "maximize": maximize, "foreach": foreach})
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

    @property
    def _name(self) -> str:
        return type(self).__name__

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, with its own options where it gives them; refused as the constructor would refuse them."""
        if isinstance(param_group, dict):
            options = {**self.defaults, **param_group}
            check_options(self._name, options)
            given = options.get("params", ())
            refuse_parts(self._name, [given] if isinstance(given, Tensor) else list(given), options["norm"])
        super().add_param_group(param_group)

    @property
    def skipped(self) -> int:
        """How many steps were not taken, because a gradient was not finite or a two-phase step was not finished."""
        return int(self._skipped)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch; but an estimate wider than its parameter stays wide, where torch would round it.

        Options that the checkpoint does not have, another optimizer's or an older one's, take their defaults.
        """
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        for key, p in zip(saved, self._all_params(), strict=True):
            dtype, v = estimate_dtype(p), state_dict["state"].get(key, {}).get("momentum_buffer")
            if dtype is not p.dtype and v is not None:
                self.state[p]["momentum_buffer"] = v.to(p.device, dtype, copy=True)
        estimates = [v for p in self._all_params() if (v := self._estimate(p)) is not None]
        self._blank = bool(estimates) and not any(plain(v).any() for v in estimates)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # which gives the defaults a "differentiable" that groups do not have
        options = {key: default for key, default in self.defaults.items() if key != "differentiable"}
        for group in self.param_groups:
            for key, default in options.items():
                group.setdefault(key, default)

    def __getstate__(self) -> dict[str, Any]:
        own = ("skip_nonfinite", "_skipped", "_blank")  # torch's own copies and pickles would lose these
        return {**super().__getstate__(), **{name: getattr(self, name) for name in own}}

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step along the gradients; with a closure, which evaluates them, return its loss before the step."""
        return self._step(closure)

    @abstractmethod
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        """Let v follow the gradients and move; return the closure's loss, if there is one."""

    def _all_params(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def _estimate(self, p: Tensor) -> Tensor | None:
        """v, if there is one yet."""
        state: dict[str, Tensor] | None = self.state.get(p)
        return None if state is None else state.get("momentum_buffer")

    def _with_gradients(self) -> list[Tensor]:
        """The parameters that have a gradient, which must be dense."""
        params = []
        for p in self._all_params():
            if (gradient := p.grad) is not None:
                if gradient.layout is not torch.strided:
                    raise ValueError(f"{self._name}: gradients must be dense; got {gradient.layout}.")
                params.append(p)
        return params

    def _only_shows_its_shapes(self) -> bool:
        """Make estimates of 0 if this step is none: DCP takes one, along 0 by 0, to see what a state looks like."""
        if torch.compiler.is_compiling() or any(float(group["lr"]) for group in self.param_groups):
            return False
        params = [p for p in self._all_params() if p.grad is not None]
        if not params or any(plain(cast(Tensor, p.grad)).any() for p in params):
            return False
        for p in params:
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

    def _is_good(self, norm: Tensor) -> bool | Tensor:
        """Whether a step may be taken; a bad one is counted. A tensor where only the device knows."""
        readable = normalized_step.readable(norm)
        if self.skip_nonfinite is False or (self.skip_nonfinite is None and not readable):
            return True
        good = math.isfinite(norm.item()) if readable else norm.isfinite()
        self._skipped = self._skipped + (not good if isinstance(good, bool) else ~good)
        return good


def _suits_foreach(p: Tensor) -> bool:
    """On a CPU fused kernels are loops that cost less than Python's; but a long tensor is better done with in cache."""
    return p.numel() <= SHORT if p.is_cpu else p.device.type in ("cuda", "xpu")


def first_estimate(p: Tensor) -> Tensor:
    """v⁰ = g⁰, a copy."""
    return cast(Tensor, p.grad).detach().to(estimate_dtype(p), copy=True)
