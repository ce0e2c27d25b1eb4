"""A step in two halves with an evaluation in each, for loops without a closure; it can be undone in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from gladstorm.torch import untouched
from gladstorm.torch.block import Block
from gladstorm.torch.normalized import NormalizedOptimizer, first_estimate
from gladstorm.torch.normalized_step import norm_of
from gladstorm.torch.same_sample import remember, warning_of_buffers
from gladstorm.torch.transition import Transition, add_gradients


class TwoPhases(NormalizedOptimizer):
    """What NSTORM does between its two evaluations, and the form of a step that leaves them to the caller."""

    n_init: int = 1
    _begun = 0  # mini-batches in v⁰ so far
    max_grad_norm: float | None = None
    _modules: list[torch.nn.Module]
    _step_supports_amp_scaling = True  # GradScaler then calls step() after an overflow too, and the step can be undone
    _transition: Transition | None = None
    _watched = False  # whether an evaluation has been watched for buffers that nobody puts back
    _left = untouched.Left([])

    @contextmanager
    def previous_point(self, scaler: GradScaler | None = None) -> Iterator[None]:
        """The first half of a step without a closure: inside, compute the mini-batch's gradient at xᵏ.

        On leaving, the parameters move to xᵏ⁺¹, everything random and the buffers of `model` are put back, and the
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
        If either gradient is not finite, `step` puts parameters and estimate back as they were, bit for bit, and counts
        the step in `skipped`. So does the next step for one begun here and never finished. This costs two copies of the
        parameters while the step is under way, which the form with a closure does without.

        With a GradScaler, name it here: it then also lowers its scale if only the gradient at xᵏ overflows.

        >>> scaler = torch.amp.GradScaler("cpu")
        >>> for batch in torch.ones(3, 2):
        ...     with optimizer.previous_point(scaler):
        ...         with torch.autocast("cpu", torch.float16):
        ...             loss = (x * batch).square().sum()
        ...         scaler.scale(loss).backward()
        ...     with torch.autocast("cpu", torch.float16):
        ...         loss = (x * batch).square().sum()
        ...     scaler.scale(loss).backward()
        ...     scaler.step(optimizer)
        ...     scaler.update()
        >>> x.data, optimizer.skipped
        (tensor([0., 0.]), 0)
        """
        if self._transition is not None and any(p.grad is not None for p in self._all_params()):
            raise RuntimeError(
                f"{self._name}: step() must come before the next previous_point(); got none, as in an accumulation of "
                "gradients. Evaluate all micro-batches inside previous_point() and all again after it, or give this "
                "step up by zero_grad()."
            )
        self._undo()
        self._forget_blanks()
        self.zero_grad()
        put_back = self._remember()
        watch = untouched.Watch(self._all_params())
        try:
            with self._watch():
                yield
        finally:
            watch.stop()
        with torch.no_grad():
            params = self._with_gradients()
            untouched.refuse_written(self._name, watch.written())
            transition = Transition(self.param_groups, scaler if scaler is not None and scaler.is_enabled() else None)
            if transition.scaler is not None:
                transition.scaler.unscale_(cast(torch.optim.Optimizer, transition))
            blocks = self._blocks()
            if not blocks and self.n_init == 1:  # the second gradient will be taken at this very point
                transition.first = {p: cast(Tensor, p.grad).detach().clone() for p in params}
            untouched.clip(params, self.max_grad_norm)
            transition.keep(blocks)
            self._transition = transition
            transition.blocks = self._leave(blocks)
            put_back()
        self.zero_grad()
        transition.watch = untouched.Watch(self._all_params())

    def state_dict(self) -> dict[str, Any]:
        """As in torch; not between `previous_point` and `step`."""
        self._refuse_halfway("state_dict")
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch; but an estimate wider than its parameter stays wide, where torch would round it."""
        super().load_state_dict(state_dict)
        self._end()
        self._begun = 0 if self._blank or not self.state else self.n_init

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_halfway("a copy")
        own = (
            "n_init",
            "max_grad_norm",
            "_begun",
            "_modules",
            "_watched",
        )  # torch's own copies and pickles would lose these
        return {**super().__getstate__(), **{name: getattr(self, name) for name in own}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._left = untouched.Left(self._all_params())

    def _refuse_halfway(self, what: str) -> None:
        if self._transition is not None:
            raise RuntimeError(f"{self._name}: {what} must be taken between steps; got it before step().")

    def _leave(self, blocks: list[Block]) -> list[Block]:
        """From xᵏ to xᵏ⁺¹, using up the gradients at xᵏ; returns the blocks that have an estimate still.

        v ← v − g(xᵏ; ξ) is the first half of vᵏ⁺¹ = g(xᵏ⁺¹; ξ) + (1 − η) (vᵏ − g(xᵏ; ξ)).
        """
        blocks = self._move(blocks, subtract=True)
        torch.clear_autocast_cache()  # or, all inside one autocast block, the second evaluation would see casts of xᵏ
        return blocks

    def _with_gradients(self) -> list[Tensor]:
        params = super()._with_gradients()
        if not params:
            raise ValueError(f"{self._name}: an evaluation must compute gradients, by loss.backward(); got none.")
        return params

    def _newcomers(self) -> list[Tensor]:
        """Parameters with a gradient and, so far, no estimate: they move from the next step on."""
        return [p for p in self._with_gradients() if self._estimate(p) is None]

    def _finish(self, transition: Transition) -> None:
        """The second half of a two-phase step: keep it where both gradients are finite, which the device decides."""
        try:
            params = self._with_gradients()
            unscaled = "grad_scale" in vars(self) and vars(self)["grad_scale"] is None  # by the user
            untouched.refuse_written(self._name, transition.watch.written(unscaled=unscaled))
            overflow = self._overflow(transition.scaler)
            untouched.refuse_disagreement(self._name, transition.first)
            untouched.clip(params, self.max_grad_norm)
            newcomers = {p: first_estimate(p) for p in self._newcomers()}
            rows = add_gradients(transition.blocks)
        except BaseException:
            self._undo()
            raise
        # A gradient that is not finite leaves no finite estimate behind: inf − inf and 0·inf are NaN.
        renewed = [v for block in transition.blocks for v in block.estimates]
        norm = norm_of(renewed + list(newcomers.values()), rows=rows)
        good = norm.isfinite() & (overflow == 0)
        transition.settle(good)
        self._end()
        self._left = untouched.Left(self._all_params())
        self._skipped = self._skipped + ~good
        if newcomers and good:  # waits for the device, in a parameter's first step only
            self._begun = self.n_init
            for p, v in newcomers.items():
                self.state[p]["momentum_buffer"] = v

    def _undo(self) -> None:
        """Take back a two-phase step that was begun and not finished."""
        if self._transition is not None:
            self._transition.settle(torch.tensor(False))
            self._end()
            self._skipped = self._skipped + 1

    def _end(self) -> None:
        """Be between steps."""
        if self._transition is not None:
            self._transition.watch.stop()
            self._transition = None

    def _overflow(self, scaler: GradScaler | None) -> Tensor:
        """Unscale the gradients if a GradScaler has called `step`; whether it found one that is not finite."""
        found_inf: Tensor | None = vars(self).get("found_inf")
        if found_inf is not None and scaler is None:
            raise RuntimeError(f"{self._name}: previous_point must be given the GradScaler that calls step; got none.")
        if found_inf is None and scaler is not None:
            raise RuntimeError(f"{self._name}: with a GradScaler call scaler.step(optimizer); got optimizer.step().")
        if scaler is None or found_inf is None:
            return torch.zeros(())
        if vars(self)["grad_scale"] is not None:  # None once the user has called unscale_
            scaler.unscale_(self)
        return found_inf

    def _remember(self) -> Callable[[], None]:
        return remember(self._modules, (p.device for p in self._all_params()))

    def _watch(self) -> AbstractContextManager[None]:
        """The first evaluation is watched for buffers that nobody puts back."""
        if self._watched or self._modules:
            return nullcontext()
        self._watched = True
        return warning_of_buffers(self._name)
