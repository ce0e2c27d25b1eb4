"""NSTORM, normalized STORM, as a torch optimizer: every mini-batch is evaluated at two points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Unpack, cast

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm.core.rules import COUNT, POSITIVE
from gladstorm.torch.normalized import NormalizedOptimizer, first_estimate
from gladstorm.torch.norms import norm_of
from gladstorm.torch.optimizer import ParamBlock
from gladstorm.torch.options import NormalizedOptions
from gladstorm.torch.random_state import SameSample
from gladstorm.torch.two_evaluations import (
    LeftoverGradients,
    TwoPhaseStep,
    WriteDetector,
    add_gradients,
    refuse_accelerate_accumulation,
    refuse_written,
    refusing_accumulation,
)


class NSTORM(NormalizedOptimizer):
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
    parameters at xᵏ⁺¹ without an estimate: the next call forms a new v⁰. Without a closure, for gradient scalers and
    loops of one's own, see `previous_point`.

    **Both evaluations use the same randomness.** The generators of torch (CPU and the parameters' devices), Python and
    NumPy are restored before the second evaluation, so that dropout and augmentation draw the same. With `model=`, its
    buffers are restored too: BatchNorm's statistics end as after one evaluation, at xᵏ⁺¹.

    **Clip with `max_grad_norm`, and accumulate inside the closure.** If anything changes only one of the two gradients,
    v no longer estimates the gradient, and the loss rises. So NSTORM refuses gradients that were clipped between
    `backward` and `step`, and gradients that were computed before the closure.

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
        **options: weight_decay, norm, maximize, foreach, capturable, differentiable, fused and skip_nonfinite, as in
            `NSGDM`; an estimate that is not finite is formed anew from the next evaluation.

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
    _step_supports_amp_scaling = True  # GradScaler then calls step() after an overflow too, and the step can be undone
    _halfway: TwoPhaseStep | None = None
    _leftover = LeftoverGradients([])

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
        COUNT.require(self._name, "n_init", n_init)
        if max_grad_norm is not None:
            POSITIVE.require(self._name, "max_grad_norm", max_grad_norm)
        self.n_init = n_init
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
        loss = self._average_gradients(closures)
        if loss is None:
            raise ValueError(f"{self._name}: closures must hold at least one closure; got none.")
        self._averaged = self.n_init
        return loss

    def _average_gradients(self, closures: Iterable[Callable[[], float]]) -> float | None:
        self._undo_halfway()
        estimates: dict[Tensor, Tensor] = {}
        total: Any = 0.0
        count = 0
        for closure in closures:
            loss: Any = self._evaluate(closure)
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

    @contextmanager
    def previous_point(self, scaler: GradScaler | None = None) -> Iterator[None]:
        """The first half of a step without a closure: inside, compute the mini-batch's gradient at xᵏ.

        On leaving, the parameters move to xᵏ⁺¹, random states and the buffers of `model` are restored, and the
        gradients are cleared; compute the same mini-batch's gradient again, then call `step()`:

        >>> from gladstorm.torch import NSTORM
        >>> x = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        >>> optimizer = NSTORM([x], lr=1.0)
        >>> for batch in torch.ones(3, 2):
        ...     with optimizer.previous_point():
        ...         (x * batch).square().sum().backward()
        ...     (x * batch).square().sum().backward()
        ...     optimizer.step()
        >>> x.data
        tensor([1.8000, 2.4000])

        The first step only forms v⁰, from the gradient of its second half: accumulate n_init mini-batches there.
        If either gradient is not finite, `step` restores parameters and estimate, bit for bit, and counts the
        step in `skipped`. So does the next step for one begun here and never finished. This costs two copies of the
        parameters while the step is under way, which the form with a closure does without.

        Args:
            scaler: The GradScaler that scales the losses and calls `step`, if there is one. It then also lowers its
                scale if only the gradient at xᵏ overflows.
        """
        if self._halfway is not None and any(p.grad is not None for p in self._all_params()):
            raise RuntimeError(
                f"{self._name}: step() must come before the next previous_point(); got none, as in an accumulation of "
                "gradients. Evaluate all micro-batches inside previous_point() and all again after it, or give this "
                "step up by zero_grad()."
            )
        self._undo_halfway()
        self._drop_empty_state()
        self.zero_grad()
        restore = self._same_sample.save(self._all_params())
        writes = WriteDetector(self._all_params())
        try:
            with self._same_sample.checking_buffers(self._name):
                yield
        finally:
            writes.stop()
        with torch.no_grad():
            params = self._with_gradients()
            refuse_written(self._name, writes.written())
            active = scaler if scaler is not None and scaler.is_enabled() else None
            halfway = TwoPhaseStep(self.param_groups, active, self._blocks("momentum_buffer"))
            if not halfway.blocks and self.n_init == 1:  # the second gradient will be taken at this very point
                halfway.first = {p: cast(Tensor, p.grad).detach().clone() for p in params}
            self._clip(params)
            halfway.save()
            self._halfway = halfway
            halfway.blocks = self._leave(halfway.blocks)
            restore()
        self.zero_grad()
        halfway.writes = WriteDetector(self._all_params())

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._end_halfway()
        self._averaged = 0 if self._state_is_empty or not self.state else self.n_init

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._leftover = LeftoverGradients(self._all_params())

    @override
    def _refuse_saving(self, what: str) -> None:
        if self._halfway is not None:
            raise RuntimeError(f"{self._name}: {what} must be taken between steps; got it before step().")

    @override
    @torch.compiler.disable  # type: ignore[untyped-decorator]  # closures, hooks and random states; a compiled model inside stays compiled
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        try:
            if closure is not None and not self._is_finishing(closure):
                return self._step_with(closure)
            if self._halfway is None:
                if self._init_state_only():
                    return None
                raise RuntimeError(f"{self._name}: step needs a closure, or previous_point() before it; got neither.")
            self._finish(self._halfway)
        except BaseException:
            for name in ("found_inf", "grad_scale"):  # a GradScaler sets these, and does not clean up after an error
                vars(self).pop(name, None)
            raise
        return None

    def _is_finishing(self, closure: Callable[[], float]) -> bool:
        """Whether a two-phase step is to end, and the closure does nothing, as Lightning's then does."""
        if self._halfway is None or all(p.grad is None for p in self._all_params()):
            return False
        before = LeftoverGradients(self._all_params())
        with torch.enable_grad():
            loss: float | None = closure()
        if loss is not None or before.replaced(self._all_params()):
            raise RuntimeError(f"{self._name}: step() must end what previous_point() began; got a closure instead.")
        return True

    def _step_with(self, closure: Callable[[], float]) -> float | None:
        if "found_inf" in vars(self):
            raise RuntimeError(f"{self._name}: a GradScaler takes no closure; use previous_point(scaler) instead.")
        self._undo_halfway()
        self._drop_empty_state()
        refuse_accelerate_accumulation(self._name)
        if all(self._estimate(p) is None for p in self._all_params()):
            loss = self._average_gradients([closure])
            self._averaged = max(self._averaged, 0 if loss is None else 1)
            return loss
        if self._averaged < self.n_init:
            return self._add_to_average(closure)
        restore = self._same_sample.save(self._all_params())
        loss = self._evaluate(closure)  # at xᵏ
        if loss is None:
            return None
        blocks = self._blocks("momentum_buffer")
        try:
            blocks = self._leave(blocks)
            restore()
            if self._evaluate(closure) is None:  # at xᵏ⁺¹
                raise ValueError(f"{self._name}: the closure must return the loss at both points; got None at one.")
            self._rows = add_gradients(blocks)
            self._start_estimates(self._with_gradients())
        except BaseException:
            self._drop_estimates(self._all_params())  # half renewed: estimates of nothing
            raise
        return loss

    def _add_to_average(self, closure: Callable[[], float]) -> float | None:
        loss = self._evaluate(closure)
        if loss is None:
            return None
        self._averaged += 1
        for block in self._blocks("momentum_buffer"):
            for v, g in zip(block.plain_estimates, block.plain_grads, strict=True):
                v.lerp_(g, 1 / self._averaged)
        self._start_estimates(self._with_gradients())
        return loss

    def _evaluate(self, closure: Callable[[], float]) -> float | None:
        """The loss; None if the closure has computed nothing, as Lightning's does to leave a mini-batch out."""
        accumulated = self._leftover.replaced(self._all_params())
        self.zero_grad()
        try:
            with refusing_accumulation(self._name, accumulated), self._same_sample.checking_buffers(self._name):
                loss: float | None = closure()
        finally:
            self._leftover = LeftoverGradients(self._all_params())
        if loss is None and all(p.grad is None for p in self._all_params()):
            return None
        if loss is None:
            raise ValueError(f"{self._name}: the closure must return the loss; got None.")
        self._clip(self._with_gradients())
        self._leftover = LeftoverGradients(self._all_params())
        return loss

    def _leave(self, blocks: list[ParamBlock]) -> list[ParamBlock]:
        """From xᵏ to xᵏ⁺¹, using up the gradients at xᵏ; returns the blocks that have an estimate still.

        v ← v − g(xᵏ; ξ) is the first half of vᵏ⁺¹ = g(xᵏ⁺¹; ξ) + (1 − η) (vᵏ − g(xᵏ; ξ)).
        """
        blocks = self._move(blocks, subtract=True)
        torch.clear_autocast_cache()  # or, all inside one autocast block, the second evaluation would see casts of xᵏ
        return blocks

    def _finish(self, halfway: TwoPhaseStep) -> None:
        """The second half of a two-phase step: keep it where both gradients are finite, which the device decides."""
        try:
            params = self._with_gradients()
            overflow = halfway.check_gradients(self)
            self._clip(params)
            new = {p: first_estimate(p) for p in params if self._estimate(p) is None}
            rows = add_gradients(halfway.blocks)
        except BaseException:
            self._undo_halfway()
            raise
        # A gradient that is not finite leaves no finite estimate behind: inf − inf and 0·inf are NaN.
        renewed = [v for block in halfway.blocks for v in block.estimates]
        good = norm_of(renewed + list(new.values()), rows=rows).isfinite() & (overflow == 0)
        halfway.settle(good)
        self._end_halfway()
        self._leftover = LeftoverGradients(self._all_params())
        self._skipped = self._skipped + ~good
        if new and good:  # waits for the device, in a parameter's first step only
            self._averaged = self.n_init
            for p, v in new.items():
                self.state[p]["momentum_buffer"] = v

    def _undo_halfway(self) -> None:
        if self._halfway is not None:
            self._halfway.settle(torch.tensor(False))
            self._end_halfway()
            self._skipped = self._skipped + 1

    def _end_halfway(self) -> None:
        if self._halfway is not None:
            self._halfway.writes.stop()
            self._halfway = None

    def _clip(self, params: list[Tensor]) -> None:
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(params, self.max_grad_norm)
