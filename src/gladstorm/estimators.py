"""How the direction v is formed from stochastic gradients.

`grad(point)` is the gradient of the current sample, batch mean included, at a point; `queries` is how many points an
update evaluates it at. An estimate is a pytree like the gradient: the same equation runs in the simulator and in Optax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import jax

from gladstorm.parts import Number, leaf, part
from gladstorm.rules import FRACTION

Grad = Callable[[Any], Any]


class Estimator(Protocol):
    """A recursion for v."""

    queries: ClassVar[int]

    def init(self, grad: Grad, point: Any) -> Any:
        """v⁰."""

    def update(self, v: Any, grad: Grad, previous: Any, point: Any) -> Any:
        """v^{k+1} from v^k, with the new sample's gradient available at x^k (previous) and x^{k+1} (point)."""


@part
class Fresh:
    """v^{k+1} = ∇f(x^{k+1}; ξ^{k+1})."""

    queries: ClassVar[int] = 1

    def init(self, grad: Grad, point: Any) -> Any:
        """v⁰ = ∇f(x⁰; ξ⁰)."""
        return grad(point)

    def update(self, v: Any, grad: Grad, previous: Any, point: Any) -> Any:  # noqa: ARG002 - shared signature
        """See the class."""
        return grad(point)


@part
class Momentum:
    """v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1}; ξ^{k+1})."""

    eta: Number = leaf(FRACTION)  # η
    queries: ClassVar[int] = 1

    def init(self, grad: Grad, point: Any) -> Any:
        """v⁰ = ∇f(x⁰; ξ⁰)."""
        return grad(point)

    def update(self, v: Any, grad: Grad, previous: Any, point: Any) -> Any:  # noqa: ARG002 - shared signature
        """See the class."""
        return jax.tree.map(lambda v, g: (1 - self.eta) * v + self.eta * g, v, grad(point))


@part
class Storm:
    """v^{k+1} = ∇f(x^{k+1}; ξ^{k+1}) + (1 − η) (v^k − ∇f(x^k; ξ^{k+1})): one sample at two points."""

    eta: Number = leaf(FRACTION)  # η
    queries: ClassVar[int] = 2

    def init(self, grad: Grad, point: Any) -> Any:
        """v⁰ = ∇f(x⁰; ξ⁰)."""
        return grad(point)

    def update(self, v: Any, grad: Grad, previous: Any, point: Any) -> Any:
        """See the class."""
        return jax.tree.map(lambda g, v, stale: g + (1 - self.eta) * (v - stale), grad(point), v, grad(previous))
