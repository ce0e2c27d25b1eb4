"""MARS, its estimator: STORM's correction, scaled and clipped."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import ABOVE_ZERO, FRACTION, NON_NEGATIVE
from gladstorm.methods.estimators.estimator import Estimator, Grad
from gladstorm.methods.norms import length


@part
class Mars(Estimator):
    """v ← (1 − η) v + η c, c = g + s (1 − η)/η (g − g') cut to length r; g and g' of one sample at x^{k+1} and x^k.

    v is 0 before the first gradient, so v⁰ = η c with c = g⁰ cut to length r. This is Yuan et al. 2025 without the
    preconditioner; their β₁ is 1 − η and their γ is s. With s = 1 and r = ∞ it is STORM's recursion.
    """

    eta: Number = leaf(FRACTION)  #: η in (0, 1], which is 1 − β₁ in their paper
    scale: Number = leaf(NON_NEGATIVE, default=0.025)  #: s ≥ 0, their γ
    clip: Number = leaf(ABOVE_ZERO, default=1.0)  #: r > 0, the largest length of c
    queries: ClassVar[int] = 2

    @override
    def init(self, grad: Grad, point: Any) -> Any:
        return jax.tree.map(lambda c: self.eta * c, self._cut(grad(point)))

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        eta = self.eta
        c = jax.tree.map(lambda g, old: g + self.scale * (1 - eta) / eta * (g - old), grad(point), grad(previous))
        return jax.tree.map(lambda v, c: (1 - eta) * v + eta * c, state, self._cut(c))

    def _cut(self, c: Any) -> Any:
        size = length(c)
        shortened = jnp.where(size > self.clip, self.clip / jnp.where(size == 0, 1, size), 1)
        return jax.tree.map(lambda c: shortened * c, c)
