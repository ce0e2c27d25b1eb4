"""NSGDM, normalized SGD with momentum, as a torch optimizer."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from gladstorm.torch.normalized import NormalizedOptimizer


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
        foreach: Use torch's fused kernels for lists of tensors; None uses them where they are faster.
        skip_nonfinite: If v is not finite, do not take the step, count it in `skipped`, and form v anew from the next
            gradient. None does this on a CPU, where it costs nothing. True does it everywhere, at the price of one more
            pass over v. False never does it.
        capturable: Accepted because torch's own optimizers have it: a step never waits for the device.
        differentiable: Must be False.
        fused: Must be None or False.

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
        params = self._with_gradients()  # before any state is read, or torch.compile compiles every step anew
        self._drop_empty_state()
        if closure is None and self._init_state_only():
            return None
        self._start_estimates(params)  # the update below leaves v = g
        blocks = self._blocks("momentum_buffer")
        self._average_gradients_into(blocks)  # v ← (1 − η) v + η g
        self._move(blocks)
        return loss
