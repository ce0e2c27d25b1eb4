"""NSTORM, normalized STORM, as a torch optimizer: every mini-batch is evaluated at two points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm.core.rules import COUNT, POSITIVE
from gladstorm.torch.momentum import NormalizedOptimizer
from gladstorm.torch.norms import plain
from gladstorm.torch.options import NormalizedOptions
from gladstorm.torch.random_state import SameSample


class NSTORM(NormalizedOptimizer):
    """Normalized STORM: momentum corrected by evaluating each mini-batch ξ at both ends of the step.

        xᵏ⁺¹ = xᵏ − lr·vᵏ/‖vᵏ‖,  vᵏ⁺¹ = g(xᵏ⁺¹; ξ) + momentum·(vᵏ − g(xᵏ; ξ))

    Here g(x; ξ) is the gradient of mini-batch ξ at x, and ξ is new in every step; the paper's γ is `lr`, and its η is
    1 − `momentum`. Between steps the state is (xᵏ, vᵏ): the parameters, and one buffer `momentum_buffer`, of the
    parameter's type but float32 at least.

    **It needs a closure.** `loss = optimizer.step(closure)`, where the closure computes the loss of one mini-batch at
    the current parameters, calls `backward` and returns the loss; it may loop over micro-batches. The first call only
    forms v⁰ = g(x⁰; ξ⁰): one evaluation, and the parameters stay. Every later call evaluates at xᵏ, moves to xᵏ⁺¹,
    evaluates there, and returns the loss at xᵏ, as any torch optimizer returns the loss before its step. Gradients are
    cleared between the evaluations and after the step. An exception in the second evaluation leaves the parameters at
    xᵏ⁺¹ without an estimate: the next call forms a new v⁰.

    **Both evaluations use the same randomness.** The generators of torch (CPU and the parameters' devices), Python and
    NumPy are restored before the second evaluation, so that dropout and augmentation draw the same. With `model=`, its
    buffers are restored too: BatchNorm's statistics end as after one evaluation, at xᵏ⁺¹.

    **Clip with `max_grad_norm`, and accumulate inside the closure.** What is done to one of the two gradients only
    makes v wrong, and the loss rises. Gradients that were computed before the closure are refused.

    **In float16** multiply the loss by a constant inside the closure: v is larger by it, and the step is the same. A
    GradScaler takes no closure, and changes its scale between the two evaluations of a v.

    Args:
        params: Parameters or groups, as in `NSGDM`.
        lr: The length of a step.
        momentum: 1 − η in [0, 1).
        max_grad_norm: Clip every gradient, at both points, to this norm over all parameters. v then estimates the mean
            of clipped gradients, as momentum after clipping does: right for rare large ones, biased where most are
            clipped.
        n_init: How many mini-batches v⁰ is to be averaged over, N_init: those of the first calls, or those you give to
            `initialize` before them. A checkpoint taken in between resumes with the mean so far.
        model: A module, or several, whose buffers are restored before the second evaluation.
        **options: weight_decay, norm, scale, stack, maximize and skip_nonfinite, as in `NSGDM`; an estimate that is not
            finite is formed anew from the next evaluation.

    >>> x = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = NSTORM([x], lr=1.0)
    >>> def closure():
    ...     loss = x @ x
    ...     loss.backward()
    ...     return loss.item()
    >>> optimizer.step(closure), x.tolist()
    (25.0, [3.0, 4.0])
    >>> optimizer.step(closure), x.data
    (25.0, tensor([2.4000, 3.2000]))
    """

    method = "nstorm"
    needs_closure = True
    _copied = (*NormalizedOptimizer._copied, "n_init", "max_grad_norm", "_averaged", "_same_sample")
    _averaged = 0  # mini-batches in v⁰ so far

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        momentum: float = 0.9,
        *,
        max_grad_norm: float | None = None,
        n_init: int = 1,
        model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
        **options: Unpack[NormalizedOptions],
    ) -> None:
        self.n_init = COUNT.whole(self._name, "n_init", n_init)
        if max_grad_norm is not None:
            POSITIVE.require(self._name, "max_grad_norm", max_grad_norm)
        self.max_grad_norm = max_grad_norm
        self._same_sample = SameSample([model] if isinstance(model, torch.nn.Module) else model or ())
        super().__init__(params, lr, momentum, **options)

    @torch.no_grad()
    def initialize(self, closures: Iterable[Callable[[], float]]) -> float:
        """Set v⁰ to the mean gradient of several mini-batches at x⁰.

        With N_init of a theorem: `optimizer.initialize(closure(batch) for batch in islice(loader, optimizer.n_init))`.

        Args:
            closures: One for each mini-batch; it computes the loss, calls `backward` and returns the loss.

        Returns:
            The mean loss.
        """
        self._drop_estimates(self._all_params())
        self._averaged = 0
        try:
            losses = [loss for closure in closures if (loss := self._add_to_average(closure)) is not None]
        except BaseException:
            self._drop_estimates(self._all_params())
            self._averaged = 0
            raise
        if not losses:
            raise ValueError(f"{self._name}: closures must hold at least one closure; got none.")
        self._averaged = self.n_init
        return float(sum(losses)) / len(losses)

    def _add_to_average(self, closure: Callable[[], float]) -> float | None:
        """v⁰ ← v⁰ + (g − v⁰)/n with the gradient g of the n-th mini-batch."""
        try:
            loss = self._evaluate(closure)
            if loss is not None:
                self._averaged += 1
                for block in self._blocks("momentum_buffer"):
                    torch._foreach_lerp_(block.plain_estimates, block.plain_grads, 1 / self._averaged)
                self._start_estimates(self._with_gradients())
            return loss
        finally:
            self.zero_grad()

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._averaged = 0 if self._state_is_empty else self.n_init

    @override
    @torch.compiler.disable  # type: ignore[untyped-decorator]  # closures, hooks and random states; a compiled model inside stays compiled
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        if closure is None:
            if self._state_is_empty:  # torch's distributed checkpoints ask for one
                self._start_estimates(self._with_gradients())
                return None
            raise RuntimeError(
                f"{self._name}: step needs a closure, which it evaluates at two points; got none. A GradScaler cannot "
                "give one: in float16 multiply the loss by a constant, or use bfloat16."
            )
        if self._averaged < self.n_init or not self._having("momentum_buffer"):
            return self._add_to_average(closure)
        try:
            return self._step_with(closure)
        finally:
            self.zero_grad()

    def _step_with(self, closure: Callable[[], float]) -> float | None:
        restore = self._same_sample.save(self._all_params())
        loss = self._evaluate(closure)  # at xᵏ
        if loss is None:
            return None
        blocks = self._blocks("momentum_buffer")
        try:
            self._move(blocks)  # to xᵏ⁺¹
            for block in blocks:  # v ← v − g(xᵏ; ξ)
                torch._foreach_sub_(block.plain_estimates, block.plain_grads)
            torch.clear_autocast_cache()  # or, all inside one autocast block, the next evaluation would see casts of xᵏ
            restore()
            self.zero_grad()
            if self._evaluate(closure) is None:  # at xᵏ⁺¹
                raise ValueError(f"{self._name}: the closure must return the loss at both points; got None at one.")
            for block in blocks:  # v ← g(xᵏ⁺¹; ξ) + (1 − η) v, in one pass, for which there is no kernel for lists
                for v, g in zip(block.plain_estimates, block.plain_grads, strict=True):
                    torch.add(g, v, alpha=block.group["momentum"], out=v)
            self._start_estimates(self._with_gradients())
        except BaseException:
            self._drop_estimates(self._all_params())  # half renewed: estimates of nothing
            raise
        return loss

    def _evaluate(self, closure: Callable[[], float]) -> float | None:
        """The loss; None if the closure has computed nothing, as Lightning's does to leave a mini-batch out."""
        early = {p: p.grad for p in self._all_params() if p.grad is not None and bool(plain(p.grad).any())}
        with torch.enable_grad():
            loss: float | None = closure()
        if any(p.grad is gradient for p, gradient in early.items()):
            raise RuntimeError(
                f"{self._name}: the closure must compute all gradients of a step; got some computed before it, as an "
                "accumulation of gradients does. Loop over the micro-batches in the closure, or call zero_grad() first."
            )
        if loss is None and all(p.grad is None for p in self._all_params()):
            return None
        if loss is None:
            raise ValueError(f"{self._name}: the closure must return the loss; got None.")
        params = self._with_gradients()
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(params, self.max_grad_norm)
        return loss
