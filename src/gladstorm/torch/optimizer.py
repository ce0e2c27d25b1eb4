"""The base class of all optimizers here: the conventions of `torch.optim`, and errors for what would fail silently."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, cast, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gladstorm.core.rules import Rule
from gladstorm.torch import norms
from gladstorm.torch.norms import ORDINARY, cut_like, is_zero, plains, sharding
from gladstorm.torch.options import NON_NEGATIVE_NUMBER, check_number, refuse_flattened, refuse_other_optimizer


@dataclass
class ParamBlock:
    """Parameters of one group that move together, and one state tensor of each, as torch's kernels want them."""

    group: dict[str, Any]
    params: list[Tensor]
    estimates: list[Tensor]  # v
    plain_params: list[Tensor] = field(init=False)
    plain_estimates: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.plain_params, self.plain_estimates = plains(self.params), plains(self.estimates)

    @property
    def plain_grads(self) -> list[Tensor]:
        """Gradients in the precision of v, as the kernels want them; 0 for a parameter that has none."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.params]
        pairs = zip(gradients, self.estimates, strict=True)
        return plains(g if g.dtype is v.dtype else g.to(v.dtype) for g, v in pairs)


class Optimizer(torch.optim.Optimizer, ABC):
    """An optimizer of dense parameters. A subclass writes `_step`, and says the rest in its class attributes."""

    needs_closure: ClassVar[bool] = False  # whether a step evaluates the loss itself, more than once
    rules: ClassVar[dict[str, Rule]] = {"lr": NON_NEGATIVE_NUMBER, "weight_decay": NON_NEGATIVE_NUMBER}
    _required: ClassVar[tuple[str, ...]] = ("norm",)  # options that every checkpoint has, and no other optimizer's
    _copied: ClassVar[tuple[str, ...]] = ("skip_nonfinite", "_skipped", "_state_is_empty")  # copies would lose these
    _inside: str = ""  # the method inside which parameters are not those of the run, if any
    _state_is_empty = False  # whether it was made only so that a checkpoint has its shapes
    _skipped: int | Tensor = 0

    def __init__(self, params: ParamsT, defaults: dict[str, Any], skip_nonfinite: bool | None = None) -> None:
        self.skip_nonfinite = skip_nonfinite
        model: object = params  # to mypy, nothing is both an iterable of parameters and a module
        if isinstance(model, torch.nn.Module) and not isinstance(model, torch.nn.ParameterList):
            raise ValueError(f"{self._name}: params must be by_layer(model) or model.parameters(); got a model.")
        if not isinstance(params, Tensor):  # torch has a sentence of its own for a bare tensor
            listed = list(params)
            if not listed:
                raise ValueError(f"{self._name}: params must hold at least one tensor; got params=[].")
            params = cast(ParamsT, listed)
        super().__init__(params, defaults)

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def skipped(self) -> int:
        """How many steps were not taken, because a gradient was not finite."""
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
        refuse_flattened(self._name, group["params"])

    @contextmanager
    def _holding(self, name: str, method: str) -> Iterator[None]:
        """Put state tensors of this name into the parameters while a public method's block lasts."""
        self._refuse_inside(method)
        with torch.no_grad():
            held = [(p, p.clone()) for p in self._having(name)]
            for p, _ in held:
                p.copy_(self.state[p][name])
        self._inside = method
        try:
            yield
        finally:
            self._inside = ""
            with torch.no_grad():
                for p, before in held:
                    p.copy_(before)

    def _refuse_inside(self, what: str) -> None:
        """Raise a RuntimeError while parameters are not those of the run."""
        if self._inside:
            raise RuntimeError(
                f"{self._name}: {what} must stand outside {self._inside}, where the parameters are those of the run; "
                "got it inside. Save the model alone there, to use it, and a checkpoint to resume from outside."
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the state as torch does; refused where parameters are not those of the run, as inside `averaged`."""
        self._refuse_inside("state_dict")
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state as torch does, except that one wider than its parameter stays wide, where torch would round it.

        Args:
            state_dict: What `state_dict` returned; NSGDM and NSTORM can continue from each other's. Options that it
                does not have take their defaults.

        Raises:
            ValueError: If it is of another kind, whose learning rate and state mean something else.
        """
        self._refuse_inside("load_state_dict")
        refuse_other_optimizer(self._name, state_dict["param_groups"], self._required)
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        for key, p in zip(saved, self._all_params(), strict=True):
            for name, value in state_dict["state"].get(key, {}).items():
                dtype = self._state_dtype(p, name)
                if dtype is not p.dtype and isinstance(value, Tensor):
                    self.state[p][name] = value.to(p.device, dtype, copy=True)
        learnt = [self.state[p][name] for name in ("momentum_buffer", "squares") for p in self._having(name)]
        self._state_is_empty = is_zero(learnt)

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
        self._refuse_inside("a copy")
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
        self._refuse_inside("step()")
        if self._state_is_empty:
            self.state.clear()
        self._state_is_empty = closure is None and self._is_state_init()
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

    def _having(self, name: str) -> list[Tensor]:
        """The parameters whose state has this tensor."""
        return [p for p in self._all_params() if name in self.state.get(p, ())]

    def _with_gradients(self) -> list[Tensor]:
        """The parameters that have a gradient, which must be dense, and is cut as they are."""
        params = []
        for p in self._all_params():
            if (gradient := p.grad) is not None:
                if gradient.layout is not torch.strided:
                    raise ValueError(
                        f"{self._name}: gradients must be dense; got {gradient.layout}. Give the embedding "
                        "sparse=False."
                    )
                if type(gradient) not in ORDINARY and sharding(p):
                    p.grad = cut_like(gradient, p)
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
        if torch.compiler.is_compiling() or self.state or any(float(group["lr"]) for group in self.param_groups):
            return False
        gradients = [p.grad for p in self._all_params() if p.grad is not None]
        return bool(gradients) and is_zero(gradients)

    def _is_good(self, norm: Tensor) -> bool | Tensor:
        """Whether the norm is finite, so that a step may be taken; else it is counted. A tensor on a device."""
        readable = norms.readable(norm)
        if self.skip_nonfinite is False or (self.skip_nonfinite is None and not readable):
            return True
        good = math.isfinite(norm.item()) if readable else norm.isfinite()
        self._skipped = self._skipped + (not good if isinstance(good, bool) else ~good)
        return good
