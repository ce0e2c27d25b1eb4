"""The method that finds the length of its steps itself, as a torch optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Never

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm.core.rules import COUNT
from gladstorm.torch import normalized_step
from gladstorm.torch.block import Block
from gladstorm.torch.normalized_step import RowNorms, norm_of, plain, plains, widest
from gladstorm.torch.options import callers_level, check_number, estimate_dtype, refuse_parts
from gladstorm.torch.reminder import remind
from gladstorm.torch.steering import (
    Course,
    average_,
    distance_of,
    first_course,
    inner_of,
    share,
    steer,
    steered_step_,
    weight,
)
from gladstorm.torch.strict import StrictOptimizer

KEPT = ("start", "direction", "average", "course")  # the names of a parameter's state


class Steered(StrictOptimizer):
    """Steps that find their own length, from the distance travelled and from whether gradients agree: nothing to tune.

        x ← x − lr (1 − k/horizon) ℓ u

    u is the gradient divided by its usual size, ℓ a length between r/(n + 1) and r/√(n + 1), r the largest distance
    from the start so far, 0.1 (1 + ‖x⁰‖) at first, and n twice the number of gradients that turned against the mean of
    those before. Between these limits a step adds c/√S to log ℓ, with c the cosine between gradient and mean, and
    S = 10 + Σ c².
    `gladstorm.methods.steps.Steered` has the equations. Nothing is proved about it; docs/evidence/untuned says how well
    it does.

    params, maximize, foreach, capturable, differentiable, fused, skip_nonfinite: as in `NSGDM`; a gradient that is not
        finite neither moves anything nor is remembered.
    lr: 1 is the method, for all groups or for each; a scheduler multiplies the length.
    horizon: the number of steps there will be, at whose end their length is 0. None is the form for runs without a
        known end, or for a scheduler that decays lr itself.
    weight_decay: must be 0, and is there for programs that give it to every optimizer; add it to the loss instead.
    average: keep a mean of the iterates as well, in which late ones weigh more: what the simulator's method reports,
        and worth little (docs/evidence/untuned). Evaluate or save the model inside `with optimizer.averaged():`. There
        the parameters are the mean, and afterwards they are what they were; no switch has to be turned back. A
        checkpoint to resume from, model and optimizer, is saved outside.
    model: with average=True, warn once if it is evaluated, in the mode of `model.eval()`, without `averaged`.

    State is `start` (x⁰) and `direction` (the mean of u), a buffer more than NSGDM's one; with average=True
    `average`, a third; and `course`, eight numbers that all parameters share. Works under DDP, FSDP2 and torch.compile.

    >>> x = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = Steered([x], horizon=100, average=True)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (x @ x).backward()
    ...     optimizer.step()
    >>> with optimizer.averaged():
    ...     bool(x.norm() < 0.01)
    True
    """

    _own = (*StrictOptimizer._own, "horizon", "average")
    _reading = False  # whether the parameters are the average now
    _rows: RowNorms | None = None  # of the directions, as the last step left them

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        horizon: int | None = None,
        average: bool = False,
        model: torch.nn.Module | None = None,
        weight_decay: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,  # noqa: ARG002 - every step is
        differentiable: bool = False,
        fused: bool | None = None,
        skip_nonfinite: bool | None = None,
        **unknown: Never,
    ) -> None:
        if horizon is not None:
            COUNT.require(self._name, "horizon", horizon)
        self.horizon = horizon
        self.average = average
        super().__init__(
            params,
            {"lr": lr, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach},
            differentiable=differentiable,
            fused=fused,
            skip_nonfinite=skip_nonfinite,
            unknown=unknown,
        )
        if model is not None:
            if not average:
                raise ValueError(
                    f"{self._name}: model= is told of a forgotten average, so there must be one; got average=False. "
                    "Ask for average=True, or leave model= out."
                )
            remind(self, model)

    @override
    def _check_group(self, group: dict[str, Any]) -> None:
        check_number(self._name, "lr", group["lr"])
        if group["weight_decay"] != 0:
            raise ValueError(
                f"{self._name}: weight_decay must be 0, since no step has a length that it could go by; got "
                f"weight_decay={group['weight_decay']}. Add it to the loss."
            )
        refuse_parts(self._name, group["params"], None)

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._refuse_inside("load_state_dict")
        kept = [state for state in state_dict["state"].values() if isinstance(state, dict) and "course" in state]
        spoilt = [name for state in kept for name in KEPT if name in state and not plain(state[name]).isfinite().all()]
        if spoilt:
            raise ValueError(
                f"{self._name}: a saved state must be finite; got a {spoilt[0]} that is not. Resume from an earlier "
                "checkpoint."
            )
        if self.average and not all("average" in state for state in kept):
            raise ValueError(
                f"{self._name}: a run with average=True must be resumed from one that kept an average; got a "
                "checkpoint without. Resume it with average=False."
            )
        super().load_state_dict(state_dict)
        if moved := self._moved():
            self._share(self.state[moved[0]]["course"], moved)

    @override
    def state_dict(self) -> dict[str, Any]:
        """As in torch; not inside `averaged`, where the parameters are not those of the run."""
        self._refuse_inside("state_dict")
        return super().state_dict()

    @override
    def __getstate__(self) -> dict[str, Any]:
        self._refuse_inside("a copy")
        return super().__getstate__()

    def _refuse_inside(self, what: str) -> None:
        if self._reading:
            raise RuntimeError(
                f"{self._name}: {what} must stand outside averaged(), where the parameters are those of the run; got "
                "it inside. Save the model alone there, to use it, and a checkpoint to resume from outside."
            )

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        wide = {"course": widest(p.device), "direction": estimate_dtype(p), "average": estimate_dtype(p)}
        return wide.get(name, p.dtype)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside, the parameters are the average x̄ of all points visited; afterwards they are what they were.

        Buffers stay as they are: for BatchNorm's statistics at x̄ see `torch.optim.swa_utils.update_bn`. Costs a copy of
        the parameters while it lasts.
        """
        if not self.average:
            raise RuntimeError(f"{self._name}: averaged() needs an average; got average=False.")
        if self._reading:
            raise RuntimeError(f"{self._name}: averaged() must not stand inside another; got two.")
        moved = self._moved()
        with torch.no_grad():
            kept = [(p, p.clone()) for p in moved]
            for p in moved:
                mean = self.state[p]["average"].clone()
                average_([plain(mean)], [plain(p)], weight(self._course([p])))
                p.copy_(mean)
        self._reading = True
        try:
            yield
        finally:
            self._reading = False
            with torch.no_grad():
                for p, before in kept:
                    p.copy_(before)

    @property
    def is_due(self) -> bool:
        """Whether there is an average that the parameters are not, now."""
        return not self._reading and bool(self._moved())

    @override
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        loss = None
        if self._reading:
            raise RuntimeError(f"{self._name}: step() must come after averaged(); got one inside.")
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        params = self._with_gradients()
        is_first = not self._moved()
        self._begin()
        if params and not (is_first and closure is None and self._is_a_trial()):
            self._advance(self._moved(), self._blocks())
        return loss

    def _advance(self, moved: list[Tensor], blocks: list[Block]) -> None:
        course, rows, later = self._course(moved), self._rows or RowNorms(), RowNorms()
        self._warn_of_the_end(course)
        if self.average:
            average_(plains(self._kept(moved, "average")), plains(moved), weight(course))
        distance = distance_of(moved, self._kept(moved, "start"))
        products = [block.sign * inner_of(block.grads, block.estimates, rows) for block in blocks]
        product = torch.stack([each.to(course.r.device) for each in products]).sum()
        size = norm_of([g for block in blocks for g in block.grads], rows=rows).to(course.r.device)
        mean = norm_of([m for block in blocks for m in block.estimates], rows=rows).to(course.r.device)
        cos = torch.where(product == 0, 0.0, product / (size * mean))

        good = self._is_good(size)
        after, by = steer(course, size, distance, cos)
        if good is False:
            self._write(course._replace(calls=after.calls), moved)
            return
        part = share(course)
        if good is not True:  # the device knows, we do not: a bad step is one along 0, and nothing is remembered of it
            part, by = part * good, torch.where(good, by, 0)
            chosen = [torch.where(good, new, old) for new, old in zip(after, course, strict=True)]
            after = Course(*chosen)._replace(calls=after.calls)
        length = self._left(course) * after.log_length.exp()
        for block in blocks:
            gs, lr = block.plain_grads, block.group["lr"]
            steered_step_(
                block.plain_params,
                block.plain_estimates,
                gs if good is True else [torch.where(good.to(g.device), g, 0) for g in gs],
                by,
                part,
                length * (lr.to(length.device).reshape(()) if isinstance(lr, Tensor) else lr),
                maximize=block.group["maximize"],
                foreach=block.foreach,
                rows=later,
            )
        self._rows = later
        self._write(after, moved)

    def _begin(self) -> None:
        """Remember where parameters are that have not moved yet."""
        params = [p for p in self._all_params() if p.requires_grad or p.grad is not None]
        new = [p for p in params if "start" not in self.state.get(p, ())]
        if not new:
            return
        moved = self._moved()
        course = (
            self.state[moved[0]]["course"]
            if moved
            else torch.stack(first_course(norm_of([p.detach().to(estimate_dtype(p)) for p in new])))
        )
        for p in new:
            x, wide = p.detach(), estimate_dtype(p)
            self.state[p].update(start=x.clone(), direction=torch.zeros_like(x, dtype=wide))
            if self.average:
                self.state[p]["average"] = x.to(wide, copy=True)
        self._share(course, [*moved, *new])

    def _moved(self) -> list[Tensor]:
        """The parameters whose start is known."""
        return [p for p in self._all_params() if "course" in self.state.get(p, ())]

    def _kept(self, params: list[Tensor], name: str) -> list[Tensor]:
        return [self.state[p][name] for p in params]

    def _blocks(self) -> list[Block]:
        """The parameters that have a gradient, a block for each group that has any."""
        groups = [(group, [p for p in group["params"] if p.grad is not None]) for group in self.param_groups]
        return [Block(group, its, self._kept(its, "direction")) for group, its in groups if its]

    def _course(self, moved: list[Tensor]) -> Course:
        return Course(*self.state[moved[0]]["course"].unbind())

    def _share(self, course: Tensor, params: list[Tensor]) -> None:
        """One course for all parameters of a device."""
        on = {device: course.to(device) for device in {p.device for p in params}}
        for p in params:
            self.state[p]["course"] = on[p.device]

    def _write(self, course: Course, moved: list[Tensor]) -> None:
        written: list[Tensor] = []
        for shared in self._kept(moved, "course"):
            if not any(shared is other for other in written):
                written.append(shared.copy_(torch.stack(course)))

    def _left(self, course: Course) -> Tensor:
        """1 − k/horizon, not below 0."""
        if self.horizon is None:
            return torch.ones_like(course.calls)
        return (1 - course.calls / self.horizon).clamp(min=0)

    def _warn_of_the_end(self, course: Course) -> None:
        if self.horizon is not None and normalized_step.readable(course.calls) and course.calls.item() >= self.horizon:
            warnings.warn(
                f"{self._name}: horizon={self.horizon} steps were taken, and every further one has length 0.",
                stacklevel=callers_level(),
            )
