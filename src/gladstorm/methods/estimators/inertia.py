"""STORM with inertia: the direction is an average of what STORM says, so that x keeps going where it was going.

Momentum has inertia: it averages gradients of the past. STORM corrects them to the present and has none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from typing_extensions import override

from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import SHARE
from gladstorm.methods.estimators.estimator import Grad
from gladstorm.methods.estimators.storm import Storm


class Averaged(NamedTuple):
    """What `Inertia` remembers."""

    average: Any  # m
    v: Any


@part
class Inertia(Storm):
    """m^{k+1} = (1 − μ) m^k + μ v^{k+1}, m⁰ = v⁰, where v is that of STORM; the direction is m.

    With μ = 1 this is STORM. With η = 1 it is momentum with μ as its η, since v is then the fresh gradient.
    """

    mu: Number = leaf(SHARE)  #: μ in (0, 1], the weight of the newest v

    @override
    def init(self, grad: Grad, point: Any) -> Averaged:
        """m⁰ = v⁰ = ∇f(x⁰; ξ⁰)."""
        v = super().init(grad, point)
        return Averaged(v, v)

    @override
    def update(self, state: Averaged, grad: Grad, previous: Any, point: Any) -> Averaged:
        new = super().update(state.v, grad, previous, point)
        return Averaged(jax.tree.map(lambda m, v: (1 - self.mu) * m + self.mu * v, state.average, new), new)

    @override
    def direction(self, state: Averaged) -> Any:
        """m."""
        return state.average
