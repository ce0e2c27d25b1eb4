"""NSGDM, normalized SGD with momentum, as a torch optimizer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from typing_extensions import override

from gladstorm.torch.normalized import NormalizedOptimizer, first_estimate
from gladstorm.torch.normalized_step import RowNorms


class NSGDM(NormalizedOptimizer):
    """Normalized SGD with momentum: every step has length lr.

        v⁰ = g⁰,  v ← momentum·v + (1 − momentum)·g,  x ← x − lr·v/‖v‖

    (the paper's γ is `lr`, its η is 1 − `momentum`). Where v = 0 the parameters stay: there is no eps in the norm.

    params, lr, momentum, weight_decay, maximize, foreach: as in torch.optim.SGD, each of them also per group; lr may be
        a tensor, and its default is there for programs that construct every optimizer alike: choose your own. Weight
        decay is decoupled: it multiplies x by 1 − lr·weight_decay and never enters v.
    norm: "global", one norm over all parameters of all groups, is the paper's method. "group" and "tensor" give each
        group or each tensor a step of length lr of its own; no theorem here is about them.

    skip_nonfinite: a step whose v is not finite is not taken but counted in `skipped`, and v formed anew by the next
        gradient. None does so where it costs nothing, on a CPU; True everywhere, for a pass over v; False nowhere.
    capturable, differentiable, fused: as torch has them. A step never waits for the device, so it can be captured
        anyway; the other two must be off.

    State is one buffer, `momentum_buffer`, of the parameter's type but float32 at least. As in torch, a parameter
    without a gradient is left out of the step. Works unchanged under DDP, FSDP2 (the norm is that of the whole
    estimate, not of a shard), torch.amp.GradScaler and torch.compile.

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
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._forget_blanks()
        if closure is None and not self.state and self._only_shows_its_shapes():
            return None
        for p in self._with_gradients():
            if self._estimate(p) is None:
                self.state[p]["momentum_buffer"] = first_estimate(p)  # the update below leaves v = g as it is
        blocks = self._blocks()
        self._rows = RowNorms()
        for block in blocks:
            eta, vs, gs = 1 - block.group["momentum"], block.plain_estimates, block.plain_grads
            if block.foreach:
                torch._foreach_lerp_(vs, gs, eta)
            else:
                for v, g in zip(vs, gs, strict=True):
                    v.lerp_(g, eta)  # v ← (1 − η) v + η g
                    self._rows.take(v)
        self._move(blocks)
        return loss
