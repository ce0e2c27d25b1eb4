"""NSGDM, normalized SGD with momentum, as a torch optimizer, and two relatives that also need one gradient a step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Unpack, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.rules import NON_NEGATIVE
from gladstorm.torch.momentum import NormalizedOptimizer, average_gradients_into
from gladstorm.torch.norms import plains
from gladstorm.torch.optimizer import ParamBlock
from gladstorm.torch.options import NormalizedOptions, estimate_dtype


class NSGDM(NormalizedOptimizer):
    """Normalized SGD with momentum: every step has length lr.

        v⁰ = g⁰,  v ← momentum·v + (1 − momentum)·g,  x ← x − lr·v/‖v‖

    Here g is the gradient, x the parameters; the paper's γ is `lr`, and its η is 1 − `momentum`. Where v = 0 the
    parameters stay as they are: no eps is added to the norm.

    The state is one buffer, `momentum_buffer`, of the parameter's type but float32 at least. As in torch, a parameter
    without a gradient does not move. Works unchanged under DDP, FSDP2 (the norm is that of the whole
    estimate, not of a shard), torch.amp.GradScaler and torch.compile.

    Args:
        params: Parameters or groups, as in torch.optim.SGD; every option may also be given for each group.
        lr: The length of a step, in the units of the parameters; a number or a tensor. Choose your own: the default
            only serves programs that construct every optimizer without arguments.
        momentum: The weight of the old estimate, in [0, 1).
        weight_decay: λ ≥ 0; a step multiplies x by 1 − lr·λ. The decay is decoupled: it never enters v. In the norm of
            the steps, parameters stay within scale/λ of 0.
        norm: "global", one Euclidean norm over all parameters of all groups, is the paper's method. "group" and
            "tensor" give each group or each tensor a Euclidean step of its own. "spectral", "rows", "columns", "sign"
            replace v/‖v‖ by the unit step d(v) of that norm, for each tensor: √max{1, m/n}·UVᵀ of an m × n matrix
            v = UΣVᵀ (five steps of Newton–Schulz), rows or columns of length 1, or signs. `by_layer` chooses.
        scale: A step is lr·scale long: with groups of several norms, one lr can serve all.
        stack: How many matrices lie along the first dimension of each tensor, as three do in a fused projection; each
            has a step of its own. A tensor of more dimensions is a matrix, first × rest, or a stack of those.
        maximize: Follow the gradient instead of its negative.
        skip_nonfinite: If v is not finite, do not take the step, count it in `skipped`, and form v anew from the next
            gradient. None does this on a CPU. True does it everywhere, at the price of one more pass over v; on an
            accelerator weight decay goes on. False never does it.

    >>> import torch
    >>> x = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = NSGDM([x], lr=1.0)
    >>> (x @ x).backward()
    >>> optimizer.step()
    >>> x.data
    tensor([2.4000, 3.2000])
    """

    method = "nsgdm"

    @override
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        loss = self._loss(closure)
        self._move(self._renewed(self._with_gradients()))
        return loss

    def _renewed(self, params: list[Tensor]) -> list[ParamBlock]:
        """v ← (1 − η) v + η g, and v⁰ = g⁰."""
        self._start_estimates(params)
        blocks = self._blocks("momentum_buffer")
        average_gradients_into(blocks)
        return blocks


class NMARS(NSGDM):
    """NSGDM with MARS's correction of each gradient by its change since the mini-batch before (Yuan et al. 2025).

        c = g + correction·(1 − η)/η·(g − g⁻),  v ← (1 − η) v + η c,  x ← x − lr·d(v)

    g⁻ is the gradient of the mini-batch before, η is 1 − `momentum`, and v is 0 at first. That is the approximate form
    of MARS, at the price of one gradient: no variance is reduced. c is not cut to length 1: steps are normalized.

    Memory: two buffers, `momentum_buffer` (v) and `previous_gradient` (g⁻), both in float32 at least.

    Args:
        params: Parameters or groups, as in `NSGDM`.
        lr: The length of a step.
        momentum: 1 − η in [0, 1).
        correction: The scale of the correction; 0 is NSGDM.
        **options: weight_decay, norm, scale, stack, maximize and skip_nonfinite, as in `NSGDM`.
    """

    method = ""  # no theorem
    _copied = (*NSGDM._copied, "correction")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        momentum: float = 0.9,
        *,
        correction: float = 0.025,
        **options: Unpack[NormalizedOptions],
    ) -> None:
        NON_NEGATIVE.require(self._name, "correction", correction)
        self.correction = correction
        super().__init__(params, lr, momentum, **options)

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        return estimate_dtype(p) if name == "previous_gradient" else super()._state_dtype(p, name)

    @override
    def _renewed(self, params: list[Tensor]) -> list[ParamBlock]:
        for p in params:
            if not {"momentum_buffer", "previous_gradient"} <= self.state[p].keys():
                gradient = cast(Tensor, p.grad).detach().to(estimate_dtype(p), copy=True)
                self.state[p].update(momentum_buffer=torch.zeros_like(gradient), previous_gradient=gradient)
        blocks = self._blocks("momentum_buffer")
        for block in blocks:
            eta = 1 - block.group["momentum"]
            before = plains(self.state[p]["previous_gradient"] for p in block.params)
            for v, g, stale in zip(block.plain_estimates, block.plain_grads, before, strict=True):
                v.lerp_(equations.mars_corrected(g, stale, eta, self.correction), eta)
                stale.copy_(g)
        return blocks


class NIGT(NSGDM):
    """NSGDM with implicit gradient transport: gradients are taken ahead of x (Cutkosky and Mehta 2020).

        y = x + (1 − η)/η·(x − x⁻),  v ← (1 − η) v + η g(y),  x ← x − lr·d(v)

    η is 1 − `momentum`. Between steps the parameters are y, where the next gradient is wanted, and x is the state's
    `iterate`. Evaluate and save the model inside `at_iterate`. Where lr falls to 0, they end at the same point.

    Memory: two buffers, `momentum_buffer` (v) and `iterate` (x). Arguments are those of `NSGDM`.

    >>> import torch
    >>> x = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = NIGT([x], lr=1.0, momentum=0.5)
    >>> (x @ x).backward()
    >>> optimizer.step()
    >>> with optimizer.at_iterate():
    ...     print(x.data)
    tensor([2.4000, 3.2000])
    >>> x.data
    tensor([1.8000, 2.4000])
    """

    method = ""  # no theorem

    @override
    def _step(self, closure: Callable[[], float] | None) -> float | None:
        loss = self._loss(closure)
        params = self._with_gradients()
        for p in params:
            if "iterate" not in self.state[p]:
                self.state[p]["iterate"] = p.detach().clone()
        blocks = self._renewed(params)
        iterates = [plains(self.state[p]["iterate"] for p in block.params) for block in blocks]
        for block, xs in zip(blocks, iterates, strict=True):
            torch._foreach_copy_(block.plain_params, xs)
        self._move(blocks)
        for block, xs in zip(blocks, iterates, strict=True):
            for p, x in zip(block.plain_params, xs, strict=True):
                step = p - x
                x.copy_(p)
                p.add_(equations.lead(step, 1 - block.group["momentum"]))
        return loss

    def at_iterate(self) -> AbstractContextManager[None]:
        """Inside, the parameters are x; afterwards they are y again, where the next gradient is taken."""
        return self._holding("iterate", "at_iterate()")
