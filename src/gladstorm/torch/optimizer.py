"""The base class of all optimizers here: the conventions of `torch.optim`, and errors for what would fail silently."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Never, cast, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gladstorm.core.rules import Rule
from gladstorm.torch import norms
from gladstorm.torch.norms import ORDINARY, SHORT, plain, plains
from gladstorm.torch.options import (
    NON_NEGATIVE_NUMBER,
    check_implementation,
    check_number,
    refuse_other_optimizer,
    refuse_shards,
)


@dataclass
class ParamBlock:
    """Parameters of one group that move together, and one state tensor of each, as the kernels want them."""

    group: dict[str, Any]
    params: list[Tensor]
    estimates: list[Tensor]  # v
    plain_params: list[Tensor] = field(init=False)
    plain_estimates: list[Tensor] = field(init=False)
    foreach: bool = field(init=False)  # what the group asks for; if it does not, fused kernels where they are faster

    def __post_init__(self) -> None:
        self.plain_params, self.plain_estimates = plains(self.params), plains(self.estimates)
        asked: bool | None = self.group["foreach"]
        self.foreach = all(map(_suits_foreach, self.params)) if asked is None else asked

    @property
    def is_readable(self) -> bool:
        """Whether every estimate is whole here, and Python may read its values."""
        return all(type(v) in ORDINARY and norms.readable(v) for v in self.estimates)

    @property
    def grads(self) -> list[Tensor]:
        """The gradients in the precision of v; 0 for a parameter that has none."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.params]
        pairs = zip(gradients, self.estimates, strict=True)
        return [g if g.dtype is v.dtype else g.to(v.dtype) for g, v in pairs]

    @property
    def plain_grads(self) -> list[Tensor]:
        """The gradients as the kernels want them."""
        return plains(self.grads)


def _suits_foreach(p: Tensor) -> bool:
    """On a CPU fused kernels are loops that cost less than Python's; but a long tensor is better done with in cache."""
    return p.numel() <= SHORT if p.is_cpu else p.device.type in ("cuda", "xpu")


class Optimizer(torch.optim.Optimizer, ABC):
    """An optimizer of dense parameters. A subclass writes `_step`, and says the rest in its class attributes."""

    needs_closure: ClassVar[bool] = False  # whether a step evaluates the loss itself, more than once
    supports_weight_decay: ClassVar[bool] = True
    rules: ClassVar[dict[str, Rule]] = {"lr": NON_NEGATIVE_NUMBER, "weight_decay": NON_NEGATIVE_NUMBER}
    _required: ClassVar[tuple[str, ...]] = ("lr",)  # options that every checkpoint has
    _copied: ClassVar[tuple[str, ...]] = ("skip_nonfinite", "_skipped")  # torch's copies and pickles would lose these
    skip_nonfinite: bool | None = None
    _skipped: int | Tensor = 0

    def __init__(
        self,
        params: ParamsT,
        defaults: dict[str, Any],
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,  # noqa: ARG002 - every step is
        differentiable: bool = False,
        fused: bool | None = None,
        skip_nonfinite: bool | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:  # torch's sentence, under the name the caller knows
            raise TypeError(f"{self._name}.__init__() got an unexpected keyword argument {name!r}")
        check_implementation(self._name, foreach, differentiable, fused)
        self.skip_nonfinite = skip_nonfinite
        if not isinstance(params, Tensor):  # torch has a sentence of its own for a bare tensor
            listed = list(params)
            if not listed:
                raise ValueError(f"{self._name}: params must hold at least one tensor; got params=[].")
            params = cast(ParamsT, listed)
        super().__init__(params, {**defaults, "maximize": maximize, "foreach": foreach})

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def skipped(self) -> int:
        """How many steps were not taken, because a gradient was not finite or a two-phase step was not finished."""
        return int(self._skipped)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, with its own options where it gives them; they obey the rules of the constructor."""
        super().add_param_group(param_group)  # torch alone reads `params`, which may be an iterator
        try:
            self._check_group(self.param_groups[-1])
        except BaseException:
            self.param_groups.pop()
            raise

    def _check_group(self, group: dict[str, Any]) -> None:
        """Raise a ValueError for the first option of a group that breaks its rule."""
        for key, rule in self.rules.items():
            check_number(self._name, key, rule, group[key])
        refuse_shards(self._name, group["params"], group.get("norm"))

    def _refuse_saving(self, what: str) -> None:
        """Raise a RuntimeError while parameters and state are not those of a run between steps."""

    def state_dict(self) -> dict[str, Any]:
        """As in torch; not in the middle of a step or inside `averaged`, where it would not be that of the run."""
        self._refuse_saving("state_dict")
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state as torch does, except that one wider than its parameter stays wide, where torch would round it.

        Args:
            state_dict: What `state_dict` returned; NSGDM and NSTORM can continue from each other's. Options that it
                does not have take their defaults.

        Raises:
            ValueError: If it is another optimizer's, whose learning rate and state mean something else.
        """
        known = chain(self.defaults, *self.param_groups)
        refuse_other_optimizer(self._name, state_dict["param_groups"], self._required, known)
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        for key, p in zip(saved, self._all_params(), strict=True):
            for name, value in state_dict["state"].get(key, {}).items():
                dtype = self._state_dtype(p, name)
                if dtype is not p.dtype and isinstance(value, Tensor):
                    self.state[p][name] = value.to(p.device, dtype, copy=True)

    @abstractmethod
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        """The type of the state tensor of this name; the parameter's for names that are not ours."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # which gives the defaults a "differentiable" that groups do not have
        options = {key: default for key, default in self.defaults.items() if key != "differentiable"}
        for group in self.param_groups:
            for key, default in options.items():
                group.setdefault(key, default)

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_saving("a copy")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in self._copied}}

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one step along the gradients.

        Args:
            closure: Evaluates the loss, calls `backward` and returns the loss.

        Returns:
            The closure's loss, before the step.
        """
        return self._step(closure)

    @abstractmethod
    def _step(self, closure: Callable[[], float] | None) -> float | None: ...

    def _loss(self, closure: Callable[[], float] | None) -> float | None:
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    def _all_params(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def _with_gradients(self) -> list[Tensor]:
        """The parameters that have a gradient, which must be dense."""
        params = []
        for p in self._all_params():
            if (gradient := p.grad) is not None:
                if gradient.layout is not torch.strided:
                    raise ValueError(
                        f"{self._name}: gradients must be dense; got {gradient.layout}. Give the embedding "
                        "sparse=False."
                    )
                params.append(p)
        if self.needs_closure and not params:
            raise ValueError(f"{self._name}: an evaluation must compute gradients, by loss.backward(); got none.")
        return params

    def _blocks(self, name: str, *, resting: bool = False) -> list[ParamBlock]:
        """Parameters with this state tensor and a gradient, or without one: a block for each group that has any."""
        blocks = []
        for group in self.param_groups:
            params = [p for p in group["params"] if (p.grad is None) is resting and name in self.state.get(p, ())]
            if params:
                blocks.append(ParamBlock(group, params, [self.state[p][name] for p in params]))
        return blocks

    def _is_state_init(self) -> bool:
        """Whether this step only creates state: torch's DCP makes one with lr 0 along gradients of 0."""
        if torch.compiler.is_compiling() or any(float(group["lr"]) for group in self.param_groups):
            return False
        gradients = [p.grad for p in self._all_params() if p.grad is not None]
        return bool(gradients) and not any(plain(g).any() for g in gradients)

    def _is_good(self, norm: Tensor) -> bool | Tensor:
        """Whether the norm is finite, so that a step may be taken; else it is counted. A tensor on a device."""
        readable = norms.readable(norm)
        if self.skip_nonfinite is False or (self.skip_nonfinite is None and not readable):
            return True
        good = math.isfinite(norm.item()) if readable else norm.isfinite()
        self._skipped = self._skipped + (not good if isinstance(good, bool) else ~good)
        return good
