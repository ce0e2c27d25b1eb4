"""The method with nothing to tune, as a torch optimizer."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Unpack
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm.core.rules import COUNT
from gladstorm.torch import norms
from gladstorm.torch.norms import norm_of, plain, plains, widest
from gladstorm.torch.optimizer import Block, Optimizer
from gladstorm.torch.options import SharedOptions, callers_level, estimate_dtype
from gladstorm.torch.untuned_step import (
    SHARE,
    Batch,
    Lengths,
    Number,
    Run,
    batches,
    first_run,
    go_back_,
    move_,
    plan,
    renew_,
    weight,
)

BUFFERS = ("squares", "motion", "average", "start")


class Untuned(Optimizer):
    """Steps that find their length, and when to shorten it: nothing has to be tuned, only the number of steps be known.

        x ← x − m,  m ← m/2 + δ/2,  δ = lr · r · horizon^(−0.4 τ) · u/√(dE)

    u is the gradient divided by its usual size, E the sum of u² for each coordinate, as in AdaGrad, and d the number of
    coordinates; r is how far the average x̄ of late iterates has come from the start, 0.01 (1 + ‖x⁰‖) at first; and
    τ is a clock that goes from 0 to about 1, waits while steps agree, and hurries while they undo each other.
    `gladstorm.methods.steps.Untuned` has the equations and explains them; docs/evidence/untuned says how well it does.

    Memory: four buffers like the parameters, two more than Adam: `squares` (E), `motion` (m), `average` (x̄) and `start`
    (x⁰); the first three in float32 at least. `numbers`, seven of them, are shared by all parameters. The average also
    is a model to evaluate or save, so no exponential moving average has to be kept beside it.
    Works under DDP, FSDP2, tensor parallelism, torch.amp.GradScaler and torch.compile.

    Args:
        params: Parameters or groups, as in `NSGDM`.
        lr: 1 is the method, for all groups or for each; a scheduler multiplies the length.
        horizon: The number of steps there will be.
        weight_decay: λ ≥ 0; a step multiplies x by 1 − λ‖δ‖/√d. A coordinate moves by about ‖δ‖/√d, and by lr in AdamW:
            so λ means here what it means there. The decay is decoupled: it enters neither E nor m.
        model: Warn once if it is evaluated, in the mode of `model.eval()`, without `averaged`.
        **options: maximize, foreach, capturable, differentiable, fused and skip_nonfinite, as in `NSGDM`. Nothing is
            remembered of a gradient that is not finite; x goes half the way back to x̄, where gradients were finite.

    >>> x = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = Untuned([x], horizon=200)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     (x @ x).backward()
    ...     optimizer.step()
    >>> with optimizer.averaged():
    ...     bool(x.norm() < 0.01)
    True
    """

    _copied = (*Optimizer._copied, "horizon")
    _inside_averaged = False  # whether the parameters are the average now

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        horizon: int,
        weight_decay: float = 0.0,
        model: torch.nn.Module | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        COUNT.require(self._name, "horizon", horizon)
        self.horizon = horizon
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay}, **options)
        if model is not None:
            _REMINDED[model] = weakref.ref(self)
            model.register_forward_pre_hook(_remind_of_average)

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        if name == "numbers":
            return widest(p.device)
        return estimate_dtype(p) if name in BUFFERS[:3] else p.dtype

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._refuse_saving("load_state_dict")
        for state in state_dict["state"].values():
            for name in (*BUFFERS, "numbers") if isinstance(state, dict) and "numbers" in state else ():
                if not plain(state[name]).isfinite().all():
                    raise ValueError(
                        f"{self._name}: a saved state must be finite; got a {name} that is not. Resume from an earlier "
                        "checkpoint."
                    )
        super().load_state_dict(state_dict)
        if started := self._started():
            self._share(self.state[started[0]]["numbers"], started)

    @override
    def _refuse_saving(self, what: str) -> None:
        if self._inside_averaged:
            raise RuntimeError(
                f"{self._name}: {what} must stand outside averaged(), where the parameters are those of the run; got "
                "it inside. Save the model alone there, to use it, and a checkpoint to resume from outside."
            )

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside, the parameters are the average x̄ of late iterates; afterwards they are what they were.

        Buffers stay as they are: for BatchNorm's statistics at x̄ see `torch.optim.swa_utils.update_bn`. Costs a copy of
        the parameters while it lasts.
        """
        if self._inside_averaged:
            raise RuntimeError(f"{self._name}: averaged() must not stand inside another; got two.")
        started = self._started()
        with torch.no_grad():
            saved = [(p, p.clone()) for p in started]
            for p in started:
                p.copy_(self.state[p]["average"])
        self._inside_averaged = True
        try:
            yield
        finally:
            self._inside_averaged = False
            with torch.no_grad():
                for p, before in saved:
                    p.copy_(before)

    @override
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        if self._inside_averaged:
            raise RuntimeError(f"{self._name}: step() must come after averaged(); got one inside.")
        loss = self._loss(closure)
        params = self._with_gradients()
        is_first = not self._started()
        self._start()
        if params and not (is_first and closure is None and self._is_state_init()):
            self._advance()
        return loss

    def _start(self) -> None:
        """Give a state to parameters that have none yet."""
        started = self._started()
        params = [p for p in self._all_params() if p.requires_grad or p.grad is not None]
        new = [p for p in params if "numbers" not in self.state.get(p, ())]
        if not new:
            return
        wide = [p.detach().to(estimate_dtype(p), copy=True) for p in new]
        numbers = self.state[started[0]]["numbers"] if started else torch.stack(first_run(norm_of(wide)))
        for p, x in zip(new, wide, strict=True):
            zeros = torch.zeros_like(x), torch.zeros_like(x)
            self.state[p].update(zip(BUFFERS, (*zeros, x, p.detach().clone()), strict=True))
        self._share(numbers, [*started, *new])

    def _started(self) -> list[Tensor]:
        """The parameters that have a state."""
        return [p for p in self._all_params() if "numbers" in self.state.get(p, ())]

    def _share(self, numbers: Tensor, params: list[Tensor]) -> None:
        """Give all parameters of a device the same numbers."""
        on = {device: numbers.to(device) for device in {p.device for p in params}}
        for p in params:
            self.state[p]["numbers"] = on[p.device]

    def _advance(self) -> None:
        """Make a step: the norm of the whole gradient first, then all the rest; weight decay takes a third pass."""
        blocks = self._blocks("squares")
        shared = list({id(t): t for p in self._started() for t in [self.state[p]["numbers"]]}.values())
        norm = norm_of([g for block in blocks for g in block.grads]).to(shared[0].device)
        good = self._is_good(norm)
        if norms.readable(norm):
            run = Run(*shared[0].numpy())
            later = self._on_host(run, blocks, norm.item()) if good else self._back(run, blocks)
            after = torch.tensor([float(n) for n in later], dtype=shared[0].dtype)
        else:
            after = torch.stack(self._on_device(Run(*shared[0].unbind()), blocks, norm, good))
        for numbers in shared:
            numbers.copy_(after)

    def _back(self, run: Run, blocks: list[Block]) -> Run:
        for block in blocks:
            for batch in self._batches(block):
                go_back_(batch)
        return run._replace(k=run.k + 1)

    def _on_host(self, run: Run, blocks: list[Block], size: float) -> Run:
        if run.k == self.horizon:
            warnings.warn(
                f"{self._name}: horizon={self.horizon} steps were taken; further ones only become shorter.",
                stacklevel=callers_level(),
            )
        return run._replace(k=run.k + 1) if size == 0 else self._moved(run, blocks, size)

    def _on_device(self, run: Run, blocks: list[Block], size: Tensor, good: bool | Tensor) -> Run:
        """What Python does not know decides factors of the step: 0 where x stays, ½ on the way back to x̄."""
        moves = (size > 0) & good
        later = self._moved(run, blocks, size, moves, good)
        chosen = (torch.where(moves, new, old) for new, old in zip(later, run, strict=True))
        return Run(*chosen)._replace(k=run.k + 1)

    def _moved(
        self, run: Run, blocks: list[Block], size: Number, moves: bool | Tensor = True, good: bool | Tensor = True
    ) -> Run:
        root_d = math.sqrt(sum(p.numel() * (2 if p.is_complex() else 1) for block in blocks for p in block.params))
        after, by, length = plan(run, size, self.horizon)
        scale, forgotten, w = length / root_d, (run.r / after.r) ** 4, weight(run.k)
        keep: float | Tensor = 1 - SHARE
        back: float | Tensor = 0.0
        if isinstance(moves, Tensor):
            by, forgotten, scale, w = (
                torch.where(moves, n, s) for n, s in ((by, 0), (forgotten, 1), (scale, 0), (w, 0))
            )
            keep = torch.where(moves, keep, 1.0)
        if isinstance(good, Tensor):
            keep, back = torch.where(good, keep, 0.0), torch.where(good, 0.0, 0.5)
        if isinstance(moves, Tensor):  # one tensor, or a compiler computes all numbers again for every few entries
            numbers = torch.stack([*after, *(torch.as_tensor(n).to(size) for n in (by, forgotten, scale, w, keep))])
            *later, by, forgotten, scale, w, keep = numbers.unbind()
            after = Run(*later)

        lrs = [_on(block.group["lr"], size) for block in blocks]
        decays = any(block.group["weight_decay"] for block in blocks)
        turned, off, way = [], Lengths(), Lengths()
        later_moves = []  # those of a step that decays: by how much is known once all of m is
        for block, lr in zip(blocks, lrs, strict=True):
            lengths = Lengths()
            sign = -1 if block.group["maximize"] else 1
            for batch in self._batches(block, good):
                renew_(batch, sign * by, forgotten, keep, SHARE * lr * scale, lengths)
                if decays:
                    later_moves.append((batch, block.group["weight_decay"], lr))
                else:  # at once, while m is in the processor's cache
                    move_(batch, moves, 0, w, back, off, way)
            turned.append(_on(lengths.total(), size))
        step = scale * sum((lr * n) ** 2 for lr, n in zip(lrs, turned, strict=True)) ** 0.5
        typical = scale * sum(n**2 for n in turned) ** 0.5 / root_d  # how far a coordinate moves, at lr = 1
        for batch, decay, lr in later_moves:
            move_(batch, moves, decay * lr * typical if decay else 0, w, back, off, way)
        spread = (run.spread**2 + step**2) ** 0.5
        divisor = torch.where(spread == 0, 1.0, spread) if isinstance(spread, Tensor) else spread or 1.0
        z = (_on(off.total(), size) / divisor) ** 2
        return after._replace(spread=(1 - w) * spread, z=z, way=_on(way.total(), size))

    def _batches(self, block: Block, good: bool | Tensor = True) -> Iterator[Batch]:
        gs = block.plain_grads
        if isinstance(good, Tensor):
            gs = [torch.where(good.to(g.device), g, 0) for g in gs]
        kept = (plains(self.state[p][name] for p in block.params) for name in BUFFERS)
        return batches(block.params, [block.plain_params, gs, *kept], block.foreach)


def _on(n: float | Tensor, size: Number) -> Number:
    """The number as the others are: NumPy's, or a tensor where they are."""
    if not isinstance(size, Tensor):
        return float(n)
    return n.to(size.device, size.dtype).reshape(()) if isinstance(n, Tensor) else n


_REMINDED: WeakKeyDictionary[torch.nn.Module, weakref.ref[Untuned]] = WeakKeyDictionary()


def _remind_of_average(model: torch.nn.Module, _: object) -> None:
    """Warn once if a model, not a copy of it, is evaluated in eval mode by parameters that are not the average."""
    reference = _REMINDED.get(model)
    optimizer = None if reference is None else reference()
    if optimizer is None or model.training or optimizer._inside_averaged or not optimizer._started():
        return
    del _REMINDED[model]
    name = type(optimizer).__name__
    warnings.warn(
        f"{name}: the model is evaluated at the last iterate; the average that {name} keeps is in the parameters "
        "inside `with optimizer.averaged():`. To evaluate the last iterate, leave model= out.",
        stacklevel=2,
    )
