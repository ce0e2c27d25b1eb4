"""NSTORM, normalized STORM, as a torch optimizer: every mini-batch is evaluated at two points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast, overload

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import ParamsT

from gladstorm.rules import COUNT
from gladstorm.torch.normalized import Block, NormalizedOptimizer, first_estimate
from gladstorm.torch.normalized_step import norm_of
from gladstorm.torch.same_sample import remember, warning_of_buffers
from gladstorm.torch.transition import Transition, add_gradients, subtract_gradients


class NSTORM(NormalizedOptimizer):
    """Normalized STORM: momentum corrected by evaluating each mini-batch ξ at both ends of the step.

        xᵏ⁺¹ = xᵏ − lr·vᵏ/‖vᵏ‖,  vᵏ⁺¹ = g(xᵏ⁺¹; ξ) + momentum·(vᵏ − g(xᵏ; ξ))

    (the paper's γ is `lr`, its η is 1 − `momentum`; ξ is new in every step). Between steps the state is (xᵏ, vᵏ): the
    parameters, and one buffer `momentum_buffer`, of the parameter's type but float32 at least.

    **With a closure.** `loss = optimizer.step(closure)`, where the closure computes the loss of *one* mini-batch at the
    current parameters, calls `backward` and returns the loss; it may loop over micro-batches. The first call only forms
    v⁰ = g(x⁰; ξ⁰): one evaluation, and the parameters stay. Every later call evaluates at xᵏ, moves to xᵏ⁺¹, evaluates
    there, and returns the loss at xᵏ, as any torch optimizer returns the loss before its step. Gradients are cleared
    before each evaluation, and after the step are those at xᵏ⁺¹. An exception in the second evaluation leaves the
    parameters at xᵏ⁺¹ without an estimate: the next call forms a new v⁰.

    **Without one**, for gradient scalers and loops of one's own: see `previous_point`. That form can also skip a step
    whose gradients are not finite; here, as in torch.optim, they end up in the parameters.

    **The same sample means everything random.** The generators of torch (CPU and the parameters' devices), Python and
    NumPy are put back before the second evaluation, so that dropout and augmentation draw the same. With `model=`, a
    module or several, so are its buffers: BatchNorm's statistics end as after one evaluation, at xᵏ⁺¹.

    params, lr, momentum, weight_decay, norm, maximize, foreach: as in `NSGDM`.
    n_init: how many mini-batches v⁰ is to be averaged over, N_init; if more than one, call `initialize` first.

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
    _step_supports_amp_scaling = True  # GradScaler then calls step() after an overflow too, and the step can be undone
    _transition: Transition | None = None
    _watched = False  # whether an evaluation has been watched for buffers that nobody puts back

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        norm: str = "global",
        maximize: bool = False,
        foreach: bool | None = None,
        n_init: int = 1,
        model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
    ) -> None:
        COUNT.require(self._name, "n_init", n_init)
        self.n_init = n_init
        self._modules = [model] if isinstance(model, torch.nn.Module) else list(model or ())
        self._skipped: int | Tensor = 0
        super().__init__(params, lr, momentum, weight_decay=weight_decay, norm=norm, maximize=maximize, foreach=foreach)

    @torch.no_grad()
    def initialize(self, closures: Iterable[Callable[[], float]]) -> float:
        """v⁰ = the mean gradient of several mini-batches at x⁰, one closure for each; returns their mean loss.

        With N_init of a theorem: `optimizer.initialize(closure(batch) for batch in islice(loader, optimizer.n_init))`.
        """
        self._undo()
        estimates: dict[Tensor, Tensor] = {}
        total, count = 0.0, 0
        for closure in closures:
            loss = self._evaluate(closure)
            total, count = total + (loss.detach() if isinstance(loss, Tensor) else loss), count + 1
            for p in self._with_gradients():
                if p in estimates:
                    estimates[p] += cast(Tensor, p.grad)
                else:
                    estimates[p] = first_estimate(p)
        if not count:
            raise ValueError(f"{self._name}: closures must hold at least one closure; got none.")
        for p, v in estimates.items():
            self.state[p]["momentum_buffer"] = v.div_(count)
        return total / count

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step; see the class for the form with a closure and `previous_point` for the one without."""
        try:
            if closure is not None:
                return self._step_with(closure)
            if self._transition is None:
                raise RuntimeError(f"{self._name}: step needs a closure, or previous_point() before it; got neither.")
            self._finish(self._transition)
        except BaseException:
            for name in ("found_inf", "grad_scale"):  # a GradScaler sets these, and does not clean up after an error
                vars(self).pop(name, None)
            raise
        return None

    @contextmanager
    def previous_point(self, scaler: GradScaler | None = None) -> Iterator[None]:
        """The first half of a step without a closure: inside, compute the mini-batch's gradient at xᵏ.

        On leaving, the parameters move to xᵏ⁺¹, everything random and the buffers of `model` are put back, and the
        gradients are cleared; compute the same mini-batch's gradient again, then call `step()`:

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
        self._undo()
        self.zero_grad()
        put_back = self._remember()
        with self._watch():
            yield
        with torch.no_grad():
            transition = Transition(self.param_groups, scaler if scaler is not None and scaler.is_enabled() else None)
            if transition.scaler is not None:
                transition.scaler.unscale_(cast(torch.optim.Optimizer, transition))
            self._with_gradients()
            blocks = self._blocks()
            transition.keep(blocks)
            self._transition = transition
            self._leave(blocks)
            put_back()
        self.zero_grad()

    @property
    def skipped(self) -> int:
        """Two-phase steps undone because a gradient was not finite, or because they were not finished."""
        return int(self._skipped)

    def state_dict(self) -> dict[str, Any]:
        """As in torch; not between `previous_point` and `step`."""
        self._refuse_halfway("state_dict")
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch; but an estimate wider than its parameter stays wide, where torch would round it."""
        super().load_state_dict(state_dict)
        self._transition = None

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_halfway("a copy")
        own = ("n_init", "_modules", "_skipped", "_watched")  # torch's own copies and pickles would lose these
        return {**super().__getstate__(), **{name: getattr(self, name) for name in own}}

    def _refuse_halfway(self, what: str) -> None:
        if self._transition is not None:
            raise RuntimeError(f"{self._name}: {what} must be taken between steps; got it before step().")

    def _step_with(self, closure: Callable[[], float]) -> float:
        if "found_inf" in vars(self):
            raise RuntimeError(f"{self._name}: a GradScaler takes no closure; use previous_point(scaler) instead.")
        self._undo()
        if all(self._estimate(p) is None for p in self._all_params()):
            if self.n_init > 1:
                raise RuntimeError(f"{self._name}: initialize must come before step; got n_init={self.n_init}.")
            return self.initialize([closure])
        put_back = self._remember()
        loss = self._evaluate(closure)  # at xᵏ
        blocks = self._blocks()
        try:
            self._leave(blocks)
            put_back()
            self._evaluate(closure)  # at xᵏ⁺¹
            self._squares = add_gradients(blocks)
            for p in self._newcomers():
                self.state[p]["momentum_buffer"] = first_estimate(p)
        except BaseException:
            for p in self._all_params():
                self.state.pop(p, None)  # half renewed: an estimate of nothing
            raise
        return loss

    def _leave(self, blocks: list[Block]) -> None:
        """From xᵏ to xᵏ⁺¹, using up the gradients at xᵏ."""
        self._move(blocks)
        subtract_gradients(blocks)
        torch.clear_autocast_cache()  # or, all inside one autocast block, the second evaluation would see casts of xᵏ

    def _evaluate(self, closure: Callable[[], float]) -> float:
        self.zero_grad()
        with torch.enable_grad(), self._watch():
            loss = closure()
        if loss is None:
            raise ValueError(f"{self._name}: the closure must return the loss; got None.")
        self._with_gradients()
        return loss

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
            overflow = self._overflow(transition.scaler)
            newcomers = {p: first_estimate(p) for p in self._newcomers()}
            squares = add_gradients(transition.blocks)
        except BaseException:
            self._undo()
            raise
        # A gradient that is not finite leaves no finite estimate behind: inf − inf and 0·inf are NaN.
        renewed = [v for block in transition.blocks for v in block.estimates]
        norm = norm_of(renewed + list(newcomers.values()), squares=squares)
        good = norm.isfinite() & (overflow == 0)
        transition.settle(good)
        self._transition = None
        self._skipped = self._skipped + ~good
        if newcomers and good:  # waits for the device, in a parameter's first step only
            for p, v in newcomers.items():
                self.state[p]["momentum_buffer"] = v

    def _undo(self) -> None:
        """Take back a two-phase step that was begun and not finished."""
        if self._transition is not None:
            self._transition.settle(torch.tensor(False))
            self._transition = None
            self._skipped = self._skipped + 1

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
