"""The method with nothing to tune, as a torch optimizer, in both its forms."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.rules import COUNT, warn_of_small_factor
from gladstorm.torch import norms
from gladstorm.torch.momentum import MomentumOptimizer, average_gradients_into
from gladstorm.torch.norms import norm_of, plain, widest
from gladstorm.torch.options import estimate_dtype, warn_of_swallowed_steps
from gladstorm.torch.unit_steps import UNIT_STEPS
from gladstorm.torch.untuned_step import BUFFERS, RunNumbers, advance, first_numbers


class Untuned(MomentumOptimizer):
    """Steps that find their length, and when to shorten it: nothing has to be tuned, only the number of steps be known.

        x ← x − m,  m ← m/2 + δ/2,  δ = lr · r · horizon^(−0.4 τ) · u/√(dE)

    u is the gradient divided by its usual size, E the sum of u² for each coordinate, as in AdaGrad, and d the number of
    coordinates; r is how far the average x̄ of late iterates has come from the start, 0.01 (1 + ‖x⁰‖) at first; and
    τ is a clock that goes from 0 to about 1, waits while steps agree, and hurries while they undo each other.
    `gladstorm.methods.steps.Untuned` has the equations and explains them; docs/evidence/untuned says how well it does.

    **By layer**, `Untuned(by_layer(model), horizon=K)`, nothing is adapted: a step has one length for all networks, in
    the norm of each layer (`by_layer` says which), which falls linearly to 0. k counts steps, d(v) is the unit step:

        x ← (1 − L·weight_decay) x − L·scale·d(v),  v ← 0.9 v + 0.1 g,  L = lr · 0.02 · (1 − k/horizon)

    Here the last iterate is reported: `averaged` changes nothing. For networks whose weights torch has drawn, or that
    are fine-tuned, take this form; without matrices the other.

    A parameter that has no gradient stays, and x̄ comes closer to it; one that gets its first gradient in mid run takes
    steps as if it had had such gradients all along.

    Memory: four buffers like the parameters, two more than Adam: `squares` (E), `motion` (m), `average` (x̄) and `start`
    (x⁰); the first three in float32 at least. `numbers`, seven of them, are shared by all parameters. The average also
    is a model to evaluate or save, so no exponential moving average has to be kept beside it. By layer one buffer,
    `momentum_buffer` (v), one less than Adam, and one shared number, `step` (k).
    Works under DDP, FSDP2, tensor parallelism, torch.amp.GradScaler and torch.compile.

    Args:
        params: Parameters or groups, as in `NSGDM`.
        lr: 1 is the method, for all groups or for each; a scheduler multiplies the length. Below 0.1 in all groups you
            get a warning: a learning rate of AdamW would make steps a thousand times too short.
        horizon: The number of steps there will be, or of samples if `batch` says how many a step has. It is saved with
            the groups.
        batch: The samples of a step, if the horizon counts samples. By layer it may be changed between steps, in
            `param_groups`; otherwise it stays.
        weight_decay: λ ≥ 0; a step multiplies x by 1 − λ‖δ‖/√d. A coordinate moves by about ‖δ‖/√d, and by lr in AdamW:
            so λ means here what it means there. The decay is decoupled: it enters neither E nor m. By layer it is that
            of `NSGDM`, and parameters stay within scale/λ of 0 in their norm; where data are few, try 0.1.
        maximize: Follow the gradient instead of its negative.
        skip_nonfinite: When to check that gradients are finite, as in `NSGDM`. One that is not is not remembered, and x
            goes half the way back to x̄, where gradients were finite. By layer its tensor rests for one step.

    >>> x = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = Untuned([x], horizon=200)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     (x @ x).backward()
    ...     optimizer.step()
    >>> with optimizer.averaged():
    ...     bool(x.norm() < 0.01)
    True

    >>> from gladstorm.torch import by_layer
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> optimizer = Untuned(by_layer(model), horizon=1000)
    """

    rules = {**MomentumOptimizer.rules, "batch": COUNT}
    _norms = (None, *UNIT_STEPS)
    _required = ("horizon", "norm")
    _warned_of_schedule = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        horizon: int,
        batch: int = 1,
        weight_decay: float = 0.0,
        maximize: bool = False,
        skip_nonfinite: bool | None = None,
    ) -> None:
        horizon = COUNT.whole(self._name, "horizon", horizon)
        defaults = {"lr": lr, "weight_decay": weight_decay, "maximize": maximize, "horizon": horizon, "batch": batch}
        super().__init__(params, {**defaults, "norm": None, "scale": 1.0, "stack": 1}, skip_nonfinite)
        warn_of_small_factor(self._name, "lr", max((float(group["lr"]) for group in self.param_groups), default=0.0))
        warn_of_swallowed_steps(self._name, self._first_moves())

    @property
    def horizon(self) -> int:
        """The number of steps of the run, or of samples, which all groups share."""
        horizon: int = self.param_groups[0]["horizon"]
        return horizon

    @override
    def _first_length(self, group: dict[str, Any]) -> float:
        if group["norm"] is not None:
            return equations.LAYER_LENGTH * super()._first_length(group)
        start = [p.detach().to(estimate_dtype(p)) for p in self._in_groups(by_layer=False) if not p.is_meta]
        return equations.FIRST * (1 + norm_of(start).item()) * float(group["lr"])

    @override
    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        if group["horizon"] != self.horizon:
            raise ValueError(
                f"{self._name}: horizon must be the same in all groups, {self.horizon}; got "
                f"horizon={group['horizon']!r}."
            )

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        if name in ("numbers", "step"):
            return widest(p.device)
        return estimate_dtype(p) if name in BUFFERS[:3] else super()._state_dtype(p, name)

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for state in state_dict["state"].values():
            for name in (*BUFFERS, "numbers") if isinstance(state, dict) and "numbers" in state else ():
                if not plain(state[name]).isfinite().all():
                    raise ValueError(
                        f"{self._name}: a saved state must be finite; got a {name} that is not. Resume from an earlier "
                        "checkpoint."
                    )
        before = self.horizon
        super().load_state_dict(state_dict)
        if self.horizon != before:
            warnings.warn(
                f"{self._name}: the checkpoint's horizon={self.horizon} takes the place of horizon={before}.",
                stacklevel=2,
            )
        for name in ("numbers", "step"):
            if having := self._having(name):
                self._share(name, self.state[having[0]][name], having)

    def averaged(self) -> AbstractContextManager[None]:
        """Inside, the parameters are the average x̄ of late iterates; afterwards they are what they were.

        Buffers stay as they are: for BatchNorm's statistics at x̄ see `torch.optim.swa_utils.update_bn`. Costs a copy of
        the parameters while it lasts.
        """
        return self._holding("average", "averaged()")

    @override
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        loss = self._loss(closure)
        if not self._with_gradients():  # before any state is read, or torch.compile compiles every step anew
            return loss
        self._warn_of_schedule()
        if others := [p for p in self._in_groups(by_layer=False) if p.grad is not None]:
            norm = norm_of([p.grad.to(estimate_dtype(p)) for p in others if p.grad is not None])
            self._start(others, norm)
            self._advance(norm)
        if layers := [p for p in self._in_groups(by_layer=True) if p.grad is not None]:
            self._step_by_layer(layers)
        return loss

    def _warn_of_schedule(self) -> None:
        """Warn once if a scheduler, such as the one that Hugging Face's Trainer adds, has changed an lr."""
        if self._warned_of_schedule or torch.compiler.is_compiling():
            return
        for lr, first in ((group["lr"], group.get("initial_lr")) for group in self.param_groups):
            if isinstance(lr, float) and isinstance(first, float) and lr not in (first, 0.0):
                self._warned_of_schedule = True
                warnings.warn(
                    f"{self._name}: a scheduler has changed lr from {first:g} to {lr:g}; {self._name} shortens its "
                    'steps itself. Use none, in the Hugging Face Trainer lr_scheduler_type="constant".',
                    stacklevel=3,
                )
                return

    @property
    def _steps(self) -> float:
        """The horizon counted in steps."""
        return self.horizon / int(self.param_groups[0]["batch"])

    def _warn_past_horizon(self, k: float) -> None:
        if k - 1 < self._steps <= k:
            warnings.warn(
                f"{self._name}: horizon={self.horizon} was reached; further steps only become shorter.", stacklevel=4
            )

    def _in_groups(self, *, by_layer: bool) -> list[Tensor]:
        """Parameters of the groups that name a norm, or of the others."""
        return [p for group in self.param_groups if (group["norm"] is not None) is by_layer for p in group["params"]]

    def _share(self, name: str, value: Tensor, params: list[Tensor]) -> list[Tensor]:
        """Give all parameters of a device the same tensor, and return one for each device."""
        on = {device: value.to(device) for device in dict.fromkeys(p.device for p in params)}
        for p in params:
            self.state[p][name] = on[p.device]
        return list(on.values())

    def _step_by_layer(self, params: list[Tensor]) -> None:
        """Move parameters whose groups name a norm: x ← (1 − Lλ) x − L s d(v), L = lr · 0.02 · max{1 − k/K, 1/(k + 1)}.

        v is the mean of gradients with momentum 0.9, K the horizon, and k, the steps before this one or their samples,
        a tensor `state[p]["step"]` that all these parameters share.
        """
        counted = self._having("step")
        count = self.state[counted[0]]["step"] if counted else params[0].new_zeros((), dtype=widest(params[0].device))
        counts = self._share("step", count, [*counted, *params])
        self._start_estimates(params)
        blocks = self._blocks("momentum_buffer")
        average_gradients_into(blocks, equations.LAYER_MOMENTUM)
        batch: int = self.param_groups[0]["batch"]
        if norms.readable(count):
            k = count.item() / batch
            self._warn_past_horizon(k)
            self._move(blocks, float(equations.layer_length(k, self._steps, np)))
        else:
            self._move(blocks, equations.layer_length(count / batch, self._steps, torch))
        for one in counts:
            one.add_(batch)

    def _start(self, params: list[Tensor], norm: Tensor) -> None:
        """Give a state to parameters whose first gradient this is; `norm` is that of all gradients."""
        new = [p for p in params if "numbers" not in self.state.get(p, ())]
        if not new:
            return
        started = self._having("numbers")
        if started:
            numbers = self.state[started[0]]["numbers"]
        else:
            all_of_run = [p for p in self._in_groups(by_layer=False) if p.requires_grad or p.grad is not None]
            numbers = first_numbers(norm_of([p.detach().to(estimate_dtype(p)) for p in all_of_run]))
        late = self._squares_of_late(new, started, norm) if started else []
        for p in new:
            x = p.detach().to(estimate_dtype(p), copy=True)
            buffers = torch.zeros_like(x), torch.zeros_like(x), x, p.detach().clone()
            self.state[p].update(zip(BUFFERS, buffers, strict=True))
        for p, square in zip(new, late, strict=False):
            plain(self.state[p]["squares"]).copy_(square)
        self._share("numbers", numbers, [*started, *new])

    def _squares_of_late(self, new: list[Tensor], started: list[Tensor], norm: Tensor) -> list[Tensor]:
        """E⁰ = n · mean(u²) · (r/r⁰)² for each late tensor: its steps are then as long as if the run began with it.

        n = ΣE over the others is about the number of gradients that they remember, since ‖u‖ is about 1, and
        r⁰ = ρ(1 + ‖x‖) is the first length by the tensor alone. With E⁰ = 0 its first steps would be as long as the way
        that the others have gone. A first gradient that tells nothing counts as one of typical size.
        """
        r = RunNumbers(*self.state[started[0]]["numbers"].to(norm).unbind()).r
        n = norm_of([self.state[p]["squares"].sqrt() for p in started]).to(norm) ** 2
        squares = []
        for p in new:
            size, x = (norm_of([t.detach().to(estimate_dtype(p))]).to(norm) for t in (cast(Tensor, p.grad), p))
            share = (size / norm) ** 2
            mean = torch.where((share > 0) & share.isfinite(), share, 1.0) / p.numel()
            squares.append(n * mean * (r / first_numbers(x)[RunNumbers._fields.index("r")]) ** 2)
        return squares

    def _advance(self, norm: Tensor) -> None:
        """Move the parameters whose groups name no norm; `norm` is that of all their gradients."""
        started = self._having("numbers")
        shared = list({id(t): t for p in started for t in [self.state[p]["numbers"]]}.values())
        norm = norm.to(shared[0].device)
        good = self._is_good(norm)
        moving, resting = self._blocks("squares"), self._blocks("squares", resting=True)
        if norms.readable(norm):
            numbers = RunNumbers(*shared[0].tolist())
            self._warn_past_horizon(numbers.k)
            after = advance(numbers, norm.item(), good, moving, resting, self.state, self._steps)
        else:
            after = advance(RunNumbers(*shared[0].unbind()), norm, good, moving, resting, self.state, self._steps)
        whole = torch.stack([torch.as_tensor(n, dtype=shared[0].dtype, device=shared[0].device) for n in after])
        for numbers_on_device in shared:
            numbers_on_device.copy_(whole)
