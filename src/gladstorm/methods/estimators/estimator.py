"""The base class of estimators; the gradient itself and its means; and those that evaluate a sample at two points.

The latter are STORM and its relatives: at the new and at the previous iterate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, Number, leaf, part, static
from gladstorm.core.rules import ABOVE_ZERO, COUNT, FRACTION, NON_NEGATIVE, SHARE
from gladstorm.methods.norms import length
from gladstorm.problems.oracles import Oracle

Grad = Callable[[Any], Any]  # the gradient of the current sample, batch mean included, at a point


class Estimator(ABC):
    """A recursion for v, the direction that a step moves along.

    Its state is a pytree; for most estimators that is v itself. An estimator that starts afresh now and then says in
    `refreshes` at which steps: there `init` is called instead of `update`, with a batch of the rule's refresh size.
    """

    queries: ClassVar[int]  # how many points an update evaluates its sample at; `init` takes one

    @property
    def starts_afresh(self) -> bool:
        """Whether some steps start afresh: those that a `refreshes` of its own names."""
        return type(self).refreshes is not Estimator.refreshes

    @property
    def samples(self) -> int:
        """Number of independent samples per step; if it is more than one, `grad(point)` has a row for each."""
        return 1

    def init(self, grad: Grad, point: Any) -> Any:
        """Return the state after v⁰ = ∇f(x⁰; ξ⁰)."""
        return grad(point)

    @abstractmethod
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        """Return the next state.

        Args:
            state: What `init` or the last `update` returned.
            grad: The gradient of the new sample, at any point.
            previous: The point x^k.
            point: The point x^{k+1}.
        """

    def direction(self, state: Any) -> Any:
        """Return v, the direction that the step moves along."""
        return state

    def refreshes(self, _state: Any, _k: Array, _coin: Array, /) -> Array | bool:
        """Whether step k starts afresh; `_coin` is uniform on [0, 1). The plain False means that it never does."""
        return False

    def incompatible(self, _oracle: Oracle, /) -> str | None:
        """Say why the estimator does not work with this oracle; None if it does."""
        return None


@part
class Fresh(Estimator):
    """v^{k+1} = ∇f(x^{k+1}; ξ^{k+1})."""

    queries: ClassVar[int] = 1

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        return grad(point)


@part
class Momentum(Estimator):
    """v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1}; ξ^{k+1})."""

    eta: Number = leaf(SHARE)  #: η in (0, 1], the weight of the newest gradient
    queries: ClassVar[int] = 1

    @override
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        return jax.tree.map(lambda v, g: equations.momentum(v, g, self.eta), state, grad(point))


@part
class Transported(Estimator):
    """v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1} + (1 − η)/η (x^{k+1} − x^k); ξ^{k+1}) (Cutkosky and Mehta 2020)."""

    eta: Number = leaf(FRACTION)  #: η in (0, 1], the weight of the newest gradient
    queries: ClassVar[int] = 1

    @override
    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        ahead = jax.tree.map(lambda x, before: x + equations.lead(x - before, self.eta), point.x, previous.x)
        return jax.tree.map(lambda v, g: equations.momentum(v, g, self.eta), state, grad(grad.at(ahead)))


class Clients(NamedTuple):
    """A row per client; no rows if there is only one."""

    momentum: Array  # v_i
    sent: Array  # g_i, what the server knows of v_i


@part
class ErrorFeedback(Estimator):
    """v_i ← (1 − η) v_i + η ∇f(x; ξ_i), g_i ← g_i + C(v_i − g_i); the direction is the mean of the g_i.

    C keeps the k largest entries and sets the others to 0; at first g_i = C(∇f(x⁰; ξ_i)). All n clients sample the
    same f (Khirirat et al. 2025).
    """

    eta: Number = leaf(SHARE)  #: η in (0, 1], the weight of the newest gradient
    k: Number = leaf(COUNT)  #: entries that a client sends per step, ≥ 1
    clients: int = static(COUNT, default=1)  #: n ≥ 1, how many clients there are
    queries: ClassVar[int] = 1

    @property
    @override
    def samples(self) -> int:
        return self.clients

    @override
    def init(self, grad: Grad, point: Any) -> Clients:
        momentum = grad(point)
        return Clients(momentum, largest(momentum, self.k))

    @override
    def update(self, state: Clients, grad: Grad, previous: Any, point: Any) -> Clients:
        momentum = equations.momentum(state.momentum, grad(point), self.eta)
        return Clients(momentum, state.sent + largest(momentum - state.sent, self.k))

    @override
    def direction(self, state: Clients) -> Array:
        return state.sent if self.clients == 1 else state.sent.mean(0)

    @override
    def incompatible(self, oracle: Oracle) -> str | None:
        dim = oracle.objective.start.size
        return f"ErrorFeedback: k must be at most the dimension, {dim}; got k={self.k:g}." if self.k > dim else None


def largest(v: Array, k: Array | float) -> Array:
    """The k entries of v, or of each row, that are largest in size; the others 0.

    >>> largest(jnp.array([1.0, -3.0, 2.0]), 2).tolist()
    [0.0, -3.0, 2.0]
    """
    rank = jnp.argsort(jnp.argsort(-jnp.abs(v), axis=-1), axis=-1)
    return jnp.where(rank < k, v, 0)


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
