"""A schedule for runs without a known end."""

from __future__ import annotations

from typing import Self

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from gladstorm import theory
from gladstorm.core.rules import FRACTION, NON_NEGATIVE
from gladstorm.torch.normalized import NormalizedOptimizer


class PowerLR(LRScheduler):
    """γ_k = γ₀ (k+1)^(−lr_exponent), η_k = η₀ (k+1)^(−eta_exponent): lr and momentum = 1 − η of every group.

    γ₀ is the group's initial lr; k counts calls of `step`, one after each step of the optimizer. The theorems fix γ and
    η for a horizon T that is known beforehand. This schedule puts k + 1 in the place of T; no theorem here covers it.
    η₀ = 1 makes the first momentum 0, so an average given to `NSTORM.initialize` is used for one step only.

    Args:
        optimizer: NSGDM or NSTORM.
        lr_exponent: The exponent of the lr, ≥ 0.
        eta_exponent: The exponent of η, ≥ 0.
        eta0: η₀ in (0, 1].
        last_epoch: As in torch's schedulers, to resume.

    >>> import torch
    >>> from gladstorm.torch import NSGDM
    >>> x = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = NSGDM([x], lr=1.0)
    >>> schedule = PowerLR(optimizer, lr_exponent=0.75, eta_exponent=0.5)
    >>> for _ in range(15):
    ...     x.grad = x.detach().clone()
    ...     optimizer.step()
    ...     schedule.step()
    >>> optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]  # 16^(−3/4), 1 − 16^(−1/2)
    (0.125, 0.75)
    """

    def __init__(
        self,
        optimizer: NormalizedOptimizer,
        *,
        lr_exponent: float,
        eta_exponent: float,
        eta0: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        NON_NEGATIVE.require("PowerLR", "lr_exponent", lr_exponent)
        NON_NEGATIVE.require("PowerLR", "eta_exponent", eta_exponent)
        FRACTION.require("PowerLR", "eta0", eta0)
        self.lr_exponent = lr_exponent
        self.eta_exponent = eta_exponent
        self.eta0 = eta0  # η₀
        super().__init__(optimizer, last_epoch)

    @classmethod
    def from_theory(
        cls, optimizer: NormalizedOptimizer, *, alpha: float, G: float, B: float = 1.0, eta0: float = 1.0
    ) -> Self:
        """Take the exponents of the theorem about this optimizer, whose initial lr is γ₀.

        Args:
            optimizer: NSGDM or NSTORM.
            alpha: As in `NSGDM.from_theory`, and so are G, B and eta0.
            G: The standard deviation of a mini-batch's gradient at the start.
            B: Whether the noise grows with the distance (B > 0).
            eta0: η₀ of the theorem's schedule.
        """
        statement = theory.for_schedule(optimizer.method, alpha=alpha, gamma0=1.0, B=B, G=G, eta0=eta0)
        gamma, eta = float(statement.gamma_exponent), float(statement.eta_exponent)
        return cls(optimizer, lr_exponent=gamma, eta_exponent=eta, eta0=eta0)

    def get_lr(self) -> list[float | Tensor]:
        """γ_k of every group; the momenta are set on the way, as torch's OneCycleLR does."""
        k = self.last_epoch
        for group in self.optimizer.param_groups:
            group["momentum"] = 1 - self.eta0 * (k + 1) ** -self.eta_exponent
        return [base * (k + 1) ** -self.lr_exponent for base in self.base_lrs]
