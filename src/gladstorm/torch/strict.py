"""What every optimizer here shares: torch's manners, and refusal of what would be wrong without anybody noticing."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, ClassVar, cast, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gladstorm.torch import normalized_step
from gladstorm.torch.options import check_implementation, refuse_foreign


class StrictOptimizer(torch.optim.Optimizer, ABC):
    """An optimizer of dense parameters that a subclass moves; `options` are the defaults of its groups."""

    skip_nonfinite: bool | None = None
    _skipped: int | Tensor = 0
    _own: ClassVar[tuple[str, ...]] = ("skip_nonfinite", "_skipped")  # torch's copies and pickles would lose these
    _marks: ClassVar[tuple[str, ...]] = ("lr",)  # options that every checkpoint has

    def __init__(
        self,
        params: ParamsT,
        options: dict[str, Any],
        *,
        differentiable: bool,
        fused: bool | None,
        skip_nonfinite: bool | None,
        unknown: Iterable[str],
    ) -> None:
        for name in unknown:  # torch's sentence, under the name the caller knows
            raise TypeError(f"{self._name}.__init__() got an unexpected keyword argument {name!r}")
        check_implementation(self._name, options["foreach"], differentiable, fused)
        self.skip_nonfinite = skip_nonfinite
        if not isinstance(params, Tensor):  # torch has a sentence of its own for a bare tensor
            params = cast(ParamsT, list(params))
            if not params:
                raise ValueError(f"{self._name}: params must hold at least one tensor; got params=[].")
        super().__init__(params, options)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, with its own options where it gives them; refused as the constructor would refuse them."""
        super().add_param_group(param_group)  # torch alone reads `params`, which may be an iterator
        try:
            self._check_group(self.param_groups[-1])
        except BaseException:
            self.param_groups.pop()
            raise

    @abstractmethod
    def _check_group(self, group: dict[str, Any]) -> None:
        """Raise for the first option of a group that breaks its rule."""

    @property
    def skipped(self) -> int:
        """How many steps were not taken, because a gradient was not finite or a two-phase step was not finished."""
        return int(self._skipped)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch; but a state wider than its parameter stays wide, where torch would round it.

        Options that an older checkpoint does not have take their defaults.

        Args:
            state_dict: What `state_dict` returned; NSGDM and NSTORM can continue from each other's.

        Raises:
            ValueError: If it is another optimizer's, whose learning rate and state mean something else.
        """
        known = chain(self.defaults, *self.param_groups)
        refuse_foreign(self._name, state_dict["param_groups"], self._marks, known)
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        for key, p in zip(saved, self._all_params(), strict=True):
            for name, value in state_dict["state"].get(key, {}).items():
                dtype = self._state_dtype(p, name)
                if dtype is not p.dtype and isinstance(value, Tensor):
                    self.state[p][name] = value.to(p.device, dtype, copy=True)

    @abstractmethod
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        """The type of what is kept under this name; the parameter's for names that are not ours."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # which gives the defaults a "differentiable" that groups do not have
        options = {key: default for key, default in self.defaults.items() if key != "differentiable"}
        for group in self.param_groups:
            for key, default in options.items():
                group.setdefault(key, default)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **{name: getattr(self, name) for name in self._own}}

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
        """Move by the gradients; return the closure's loss, if there is one."""

    def _all_params(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def _with_gradients(self) -> list[Tensor]:
        """The parameters that have a gradient, which must be dense."""
        params = []
        for p in self._all_params():
            if (gradient := p.grad) is not None:
                if gradient.layout is not torch.strided:
                    raise ValueError(f"{self._name}: gradients must be dense; got {gradient.layout}.")
                params.append(p)
        return params

    def _is_a_trial(self) -> bool:
        """Whether this step is none: DCP takes one, along 0 by 0, to see what a state looks like."""
        if torch.compiler.is_compiling() or any(float(group["lr"]) for group in self.param_groups):
            return False
        gradients = [p.grad for p in self._all_params() if p.grad is not None]
        return bool(gradients) and not any(normalized_step.plain(g).any() for g in gradients)

    def _is_good(self, norm: Tensor) -> bool | Tensor:
        """Whether a step may be taken; a bad one is counted. A tensor where only the device knows."""
        readable = normalized_step.readable(norm)
        if self.skip_nonfinite is False or (self.skip_nonfinite is None and not readable):
            return True
        good = math.isfinite(norm.item()) if readable else norm.isfinite()
        self._skipped = self._skipped + (not good if isinstance(good, bool) else ~good)
        return good
