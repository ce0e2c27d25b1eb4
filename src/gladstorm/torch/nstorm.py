"""NSTORM, normalized STORM, as a torch optimizer: every mini-batch is evaluated at two points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Unpack, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm.core.rules import COUNT, POSITIVE
from gladstorm.torch import untouched
from gladstorm.torch.normalized import first_estimate
from gladstorm.torch.options import Options
from gladstorm.torch.transition import add_gradients
from gladstorm.torch.two_phases import TwoPhases


class NSTORM(TwoPhases):
    """Normalized STORM: momentum corrected by evaluating each mini-batch ξ at both ends of the step.

        xᵏ⁺¹ = xᵏ − lr·vᵏ/‖vᵏ‖,  vᵏ⁺¹ = g(xᵏ⁺¹; ξ) + momentum·(vᵏ − g(xᵏ; ξ))

    Here g(x; ξ) is the gradient of mini-batch ξ at x, and ξ is new in every step; the paper's γ is `lr`, and its η is
    1 − `momentum`. Between steps the state is (xᵏ, vᵏ): the parameters, and one buffer `momentum_buffer`, of the
    parameter's type but float32 at least.

    **With a closure.** `loss = optimizer.step(closure)`, where the closure computes the loss of one mini-batch at the
    current parameters, calls `backward` and returns the loss; it may loop over micro-batches. The first call only forms
    v⁰ = g(x⁰; ξ⁰): one evaluation, and the parameters stay. Every later call evaluates at xᵏ, moves to xᵏ⁺¹, evaluates
    there, and returns the loss at xᵏ, as any torch optimizer returns the loss before its step. Gradients are cleared
    before each evaluation, and after the step are those at xᵏ⁺¹. An exception in the second evaluation leaves the
    parameters at xᵏ⁺¹ without an estimate: the next call forms a new v⁰.

    **Without one**, for gradient scalers and loops of one's own: see `previous_point`.

    **Both evaluations use the same randomness.** The generators of torch (CPU and the parameters' devices), Python and
    NumPy are put back before the second evaluation, so that dropout and augmentation draw the same. With `model=`, a
    module or several, its buffers are put back too: BatchNorm's statistics end as after one evaluation, at xᵏ⁺¹.

    **Clip with `max_grad_norm`, and accumulate inside the closure.** If anything changes only one of the two gradients,
    v no longer estimates the gradient, and the loss rises. So NSTORM refuses gradients that were clipped between
    `backward` and `step`, and gradients that were computed before the closure.

    params, lr, momentum, weight_decay, norm, maximize, foreach, capturable, differentiable, fused, skip_nonfinite: as
        in `NSGDM`; an estimate that is not finite is formed anew from the next evaluation.
    max_grad_norm: clip every gradient, at both points, to this norm over all parameters. v then estimates the mean of
        clipped gradients, as momentum after clipping does: right for rare large ones, biased where most are clipped.
    n_init: how many mini-batches v⁰ is to be averaged over, N_init: those of the first calls, or those you give to
        `initialize` before them. A checkpoint taken in between resumes with the mean so far.

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

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        momentum: float = 0.9,
        *,
        max_grad_norm: float | None = None,
        n_init: int = 1,
        model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
        **options: Unpack[Options],
    ) -> None:
        COUNT.require(self._name, "n_init", n_init)
        if max_grad_norm is not None:
            POSITIVE.require(self._name, "max_grad_norm", max_grad_norm)
        self.n_init = n_init
        self.max_grad_norm = max_grad_norm
        self._modules = [model] if isinstance(model, torch.nn.Module) else list(model or ())
        super().__init__(params, lr, momentum, **options)

    @torch.no_grad()
    def initialize(self, closures: Iterable[Callable[[], float]]) -> float:
        """v⁰ = the mean gradient of several mini-batches at x⁰, one closure for each; returns their mean loss.

        With N_init of a theorem: `optimizer.initialize(closure(batch) for batch in islice(loader, optimizer.n_init))`.
        """
        loss = self._begin(closures)
        if loss is None:
            raise ValueError(f"{self._name}: closures must hold at least one closure; got none.")
        self._begun = self.n_init
        return loss

    def _begin(self, closures: Iterable[Callable[[], float]]) -> float | None:
        self._undo()
        estimates: dict[Tensor, Tensor] = {}
        total, count = 0.0, 0
        for closure in closures:
            loss = self._evaluate(closure)
            if loss is None:
                continue
            total, count = total + (loss.detach() if isinstance(loss, Tensor) else loss), count + 1
            for p in self._with_gradients():
                if p in estimates:
                    estimates[p] += cast(Tensor, p.grad)
                else:
                    estimates[p] = first_estimate(p)
        for p, v in estimates.items():
            self.state[p]["momentum_buffer"] = v.div_(count)
        return total / count if count else None

    @override
    @torch.compiler.disable  # type: ignore[untyped-decorator]  # it is all closures, hooks and random states; a compiled model inside stays compiled
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        try:
            if closure is not None and not self._is_finishing(closure):
                return self._step_with(closure)
            if self._transition is None:
                if not self.state and self._only_shows_its_shapes():
                    return None
                raise RuntimeError(f"{self._name}: step needs a closure, or previous_point() before it; got neither.")
            self._finish(self._transition)
        except BaseException:
            for name in ("found_inf", "grad_scale"):  # a GradScaler sets these, and does not clean up after an error
                vars(self).pop(name, None)
            raise
        return None

    def _is_finishing(self, closure: Callable[[], float]) -> bool:
        """Whether a two-phase step wants its end only, and the closure does nothing, as Lightning's then does."""
        if self._transition is None or all(p.grad is None for p in self._all_params()):
            return False
        before = untouched.Left(self._all_params())
        with torch.enable_grad():
            loss: float | None = closure()
        if loss is not None or before.others(self._all_params()):
            raise RuntimeError(f"{self._name}: step() must end what previous_point() began; got a closure instead.")
        return True

    def _step_with(self, closure: Callable[[], float]) -> float | None:
        if "found_inf" in vars(self):
            raise RuntimeError(f"{self._name}: a GradScaler takes no closure; use previous_point(scaler) instead.")
        self._undo()
        self._forget_blanks()
        untouched.refuse_accelerate_s_accumulation(self._name)
        if all(self._estimate(p) is None for p in self._all_params()):
            loss = self._begin([closure])
            self._begun = max(self._begun, 0 if loss is None else 1)
            return loss
        if self._begun < self.n_init:
            return self._average_in(closure)
        put_back = self._remember()
        loss = self._evaluate(closure)  # at xᵏ
        if loss is None:
            return None
        blocks = self._blocks()
        try:
            blocks = self._leave(blocks)
            put_back()
            if self._evaluate(closure) is None:  # at xᵏ⁺¹
                raise ValueError(f"{self._name}: the closure must return the loss at both points; got None at one.")
            self._rows = add_gradients(blocks)
            for p in self._newcomers():
                self.state[p]["momentum_buffer"] = first_estimate(p)
        except BaseException:
            self._forget(self._all_params())  # half renewed: estimates of nothing
            raise
        return loss

    def _average_in(self, closure: Callable[[], float]) -> float | None:
        """One mini-batch more in the mean that v⁰ is."""
        loss = self._evaluate(closure)
        if loss is None:
            return None
        self._begun += 1
        for block in self._blocks():
            for v, g in zip(block.plain_estimates, block.plain_grads, strict=True):
                v.lerp_(g, 1 / self._begun)
        for p in self._newcomers():
            self.state[p]["momentum_buffer"] = first_estimate(p)
        return loss

    def _evaluate(self, closure: Callable[[], float]) -> float | None:
        """The loss; None if the closure has computed nothing, as Lightning's does to leave a mini-batch out."""
        found = self._left.others(self._all_params())
        self.zero_grad()
        planted = untouched.plant(found)
        try:
            with torch.enable_grad(), self._watch():
                loss: float | None = closure()
        finally:
            self._left = untouched.Left(self._all_params())  # whatever comes of them
            untouched.refuse_accumulated(self._name, planted)
        if loss is None and all(p.grad is None for p in self._all_params()):
            return None
        if loss is None:
            raise ValueError(f"{self._name}: the closure must return the loss; got None.")
        untouched.clip(self._with_gradients(), self.max_grad_norm)
        self._left = untouched.Left(self._all_params())
        return loss
