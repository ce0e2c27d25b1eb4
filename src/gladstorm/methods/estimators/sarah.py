"""SARAH and SARAH+: SPIDER's recursion in loops that may end early."""

from __future__ import annotations

from typing import Any, NamedTuple

from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import COUNT, NON_NEGATIVE
from gladstorm.methods.estimators.estimator import Grad
from gladstorm.methods.estimators.spider import Recursive
from gladstorm.methods.norms import length


class Loop(NamedTuple):
    """One pass of the loop."""

    v: Any
    first: Array  # ‖v‖ where the loop began
    age: Array | int  # steps since


@part
class Sarah(Recursive):
    """SPIDER's recursion for m steps, or until ‖v‖² ≤ c ‖v at the loop's start‖²; then a fresh gradient.

    c = 0 is SARAH and c = 1/8 is SARAH+ (Nguyen et al. 2017). There a loop starts at a random iterate of the loop
    before; here it starts where that loop ended, since an estimator does not move x and no paid step is thrown away.
    """

    m: Number = leaf(COUNT)  #: the most steps of a loop, ≥ 1
    shrink: Number = leaf(NON_NEGATIVE, default=0.0)  #: c ≥ 0

    @override
    def init(self, grad: Grad, point: Any) -> Loop:
        """The state at the start of a loop."""
        v = grad(point)
        return Loop(v, length(v), 0)

    @override
    def update(self, state: Loop, grad: Grad, previous: Any, point: Any) -> Loop:
        return Loop(super().update(state.v, grad, previous, point), state.first, state.age + 1)

    @override
    def direction(self, state: Loop) -> Any:
        return state.v

    @override
    def refreshes(self, state: Loop, k: Array, coin: Array) -> Array:
        """True after m steps, or when v has shrunk enough."""
        return (state.age >= self.m) | (length(state.v) ** 2 <= self.shrink * state.first**2)
