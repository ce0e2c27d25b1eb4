"""MARS, its estimator: STORM's correction, scaled and clipped."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.norms import length
from gladstorm.parts import Number, leaf, part
from gladstorm.rules import ABOVE_ZERO, FRACTION, NON_NEGATIVE


@part
class Mars(Estimator):
    """c = g + s (1 − η)/η (g − g'), cut to length r; v ← (1 − η) v + η c, with g, g' of one sample at x^{k+1} and x^k.

    Yuan et al. 2025, their β₁ = 1 − η and γ = s, without preconditioner. s = 1 and r = ∞ is STORM.
    """

    eta: Number = leaf(FRACTION)  # η = 1 − β₁
    scale: Number = leaf(NON_NEGATIVE, default=0.025)  # s, their γ
    clip: Number = leaf(ABOVE_ZERO, default=1.0)  # r
    queries: ClassVar[int] = 2

    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        """See the class."""
        return mixed(state, grad(point), grad(previous), self.eta, self.scale, self.clip)


def mixed(v: Any, fresh: Any, stale: Any, eta: Number, scale: Number, clip: Number) -> Any:
    """(1 − η) v + η c."""
    c = jax.tree.map(lambda g, old: g + scale * (1 - eta) / eta * (g - old), fresh, stale)
    size = length(c)
    shortened = jnp.where(size > clip, clip / jnp.where(size == 0, 1, size), 1)
    return jax.tree.map(lambda v, c: (1 - eta) * v + eta * shortened * c, v, c)
