"""The base class of NSGDM and NSTORM: an estimate of each parameter's gradient, and the normalized step along it."""

from __future__ import annotations

from typing import Any, ClassVar, Self, Unpack

from torch import Tensor
from torch.optim.optimizer import ParamsT

from gladstorm import theory
from gladstorm.torch.momentum import MomentumOptimizer
from gladstorm.torch.options import MOMENTUM, SharedOptions, warn_of_fast_decay, warn_of_swallowed_steps


class NormalizedOptimizer(MomentumOptimizer):
    """x ← x − γ v/‖v‖ with γ = lr; a subclass says how v, `state[p]["momentum_buffer"]`, follows the gradients.

    It writes `_step`, as NSGDM does, and says in `method` whose schedule `from_theory` takes. An optimizer without an
    estimate to normalize inherits `Optimizer`. A method has three forms: write it in the simulator first, then here and
    in `gladstorm.optax`; one test compares them step by step, in float64.
    """

    method: ClassVar[str]  # its name in gladstorm.theory
    rules = {**MomentumOptimizer.rules, "momentum": MOMENTUM}
    _required = ("lr", "momentum", "norm")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        norm: str = "global",
        scale: float = 1.0,
        stack: int = 1,
        **options: Unpack[SharedOptions],
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "norm": norm, "scale": scale, "stack": stack}, **options)
        warn_of_swallowed_steps(self._name, self.param_groups)
        warn_of_fast_decay(self._name, self.param_groups)

    @classmethod
    def from_theory(
        cls,
        params: ParamsT,
        *,
        horizon: int,
        alpha: float,
        gamma0: float,
        G: float,
        B: float = 1.0,
        eta0: float = 1.0,
        **options: Any,
    ) -> Self:
        """Make the optimizer with lr, momentum and NSTORM's n_init as the theorem sets them.

        `gladstorm.theory.plan` says what the theorem asks of gamma0, and what it then guarantees.

        Args:
            params: As in the constructor.
            horizon: T, the number of iterates.
            alpha: α in [0, 1] of f ∈ L*_sym(α) for NSGDM, of E L*_sym(α) for NSTORM.
            gamma0: γ0 of the theorem's schedule.
            G: The standard deviation of a mini-batch's gradient at the start.
            B: Only its sign matters: with B > 0 the noise grows with the distance, with B = 0 it does not; B = G = 0
                means no noise.
            eta0: η0 of the theorem's schedule.
            **options: Any other options of the constructor.

        >>> import torch
        >>> from gladstorm.torch import NSTORM
        >>> x = torch.nn.Parameter(torch.zeros(2))
        >>> optimizer = NSTORM.from_theory([x], horizon=10**4, alpha=0, gamma0=1.0, G=0.7)
        >>> optimizer.defaults["lr"], optimizer.defaults["momentum"], optimizer.n_init  # T^(−3/4), 1 − 1/T, G² T^(1/2)
        (0.001, 0.9999, 49)
        """
        statement = theory.for_schedule(cls.method, alpha=alpha, gamma0=gamma0, B=B, G=G, eta0=eta0)
        eta, gamma, n_init, _ = statement.schedule(horizon)
        if n_init > 1:  # NSTORM only: NSGDM's theorems start from one sample
            options = {"n_init": n_init, **options}
        return cls(params, lr=gamma, momentum=1 - eta, **options)
