"""SARAH and SARAH+: SPIDER's recursion in loops that may end early."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.estimators.spider import recursive
from gladstorm.norms import length
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import COUNT, NON_NEGATIVE


class Loop(NamedTuple):
    """One pass of the loop."""

    v: Any
    first: Array  # ‖v‖ where the loop began
    age: Array  # steps since


@part
class Sarah(Estimator):
    """SPIDER's recursion for m steps, or until ‖v‖² ≤ c ‖v at the loop's start‖²; then a fresh gradient.

    c = 0 is SARAH (Nguyen et al. 2017), c = 1/8 their SARAH+. Theirs starts a loop at a random iterate of the last one,
    this one where the last one ended: an estimator does not move x, and going back would drop steps that were paid for.
    """

    m: Number = leaf(COUNT)
    shrink: Number = leaf(NON_NEGATIVE, default=0.0)  # c
    queries: ClassVar[int] = 2

    def init(self, grad: Grad, point: Any) -> Loop:
        """A loop's start."""
        v = grad(point)
        return Loop(v, length(v), 0)

    def update(self, state: Loop, grad: Grad, previous: Any, point: Any) -> Loop:
        """See the class."""
        return Loop(recursive(state.v, grad, previous, point), state.first, state.age + 1)

    def direction(self, state: Loop) -> Any:
        """v."""
        return state.v

    def refreshes(self, state: Loop, k: Array, coin: Any) -> Any:  # noqa: ARG002 - shared signature
        """After m steps, or when v has shrunk."""
        return (state.age >= self.m) | (length(state.v) ** 2 <= self.shrink * state.first**2)
