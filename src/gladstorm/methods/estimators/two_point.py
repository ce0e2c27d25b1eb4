"""Estimators that evaluate every sample at two points, the new and the previous iterate: STORM and its relatives."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Number, leaf, part
from gladstorm.core.rules import ABOVE_ZERO, FRACTION, NON_NEGATIVE, SHARE
from gladstorm.methods.estimators.estimator import Estimator, Grad
from gladstorm.methods.norms import length


@part
class Storm(Estimator):
    """v^{k+1} = ∇f(x^{k+1}; ξ^{k+1}) + (1 − η) (v^k − ∇f(x^k; ξ^{k+1})): one sample at two points."""

    eta: Number = leaf(SHARE)  #: η in (0, 1], the weight of the newest gradient
    queries: ClassVar[int] = 2

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        now, stale = grad(point), grad(previous)
        return jax.tree.map(lambda v, g, old: equations.storm(v, g, old, self.eta), state, now, stale)


@part
class Inertia(Storm):
    """m^{k+1} = (1 − μ) m^k + μ v^{k+1}, m⁰ = v⁰, where v is that of STORM; the direction is m.

    Momentum has inertia, as it averages gradients of the past; STORM corrects them to the present and has none. With
    μ = 1 this is STORM. With η = 1 it is momentum with μ as its η, since v is then the fresh gradient.
    """

    mu: Number = leaf(SHARE)  #: μ in (0, 1], the weight of the newest v

    @override
    def init(self, grad: Grad, point: Any) -> tuple[Any, Any]:
        v = super().init(grad, point)
        return v, v

    @override
    def update(self, state: tuple[Any, Any], grad: Grad, previous: Any, point: Any) -> tuple[Any, Any]:
        average, v = state
        new = super().update(v, grad, previous, point)
        return jax.tree.map(lambda m, v: equations.momentum(m, v, self.mu), average, new), new

    @override
    def direction(self, state: tuple[Any, Any]) -> Any:
        return state[0]


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
        return self._averaged(state, grad(point), grad(previous))

    def _averaged(self, v: Any, now: Any, stale: Any) -> Any:
        c = jax.tree.map(lambda g, old: equations.mars_corrected(g, old, self.eta, self.scale), now, stale)
        return jax.tree.map(lambda v, c: equations.momentum(v, c, self.eta), v, self._cut(c))

    def _cut(self, c: Any) -> Any:
        shortened = equations.cut(length(c), self.clip, jnp)
        return jax.tree.map(lambda c: shortened * c, c)


class Lag(NamedTuple):
    """v, and the gradient of the sample before."""

    v: Any
    stale: Any


@part
class LaggedMars(Mars):
    """MARS at the price of one gradient: g' is that of the sample before, ∇f(x^k; ξ^k) in place of ∇f(x^k; ξ^{k+1}).

    What is added is then s (1 − η)/η times the change of the gradient and of the sample: no variance is reduced. Yuan
    et al. 2025 call it approximate, and prefer it on networks.
    """

    queries: ClassVar[int] = 1

    @override
    def init(self, grad: Grad, point: Any) -> Lag:
        return Lag(super().init(grad, point), grad(point))

    @override
    def update(self, state: Lag, grad: Grad, previous: Any, point: Any) -> Lag:
        now = grad(point)
        return Lag(self._averaged(state.v, now, state.stale), now)

    @override
    def direction(self, state: Lag) -> Any:
        return state.v
