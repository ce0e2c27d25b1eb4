"""SVRG without loops."""

from __future__ import annotations

from typing import Any, ClassVar

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.estimators.svrg import Reference, corrected, snapshot
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import FRACTION


@part
class LooplessSvrg(Estimator):
    """SVRG whose snapshot is renewed with probability p at every step."""

    p: Number = leaf(FRACTION)
    queries: ClassVar[int] = 2
    flips: ClassVar[bool] = True

    def init(self, grad: Grad, point: Any) -> Reference:
        """A new snapshot."""
        return snapshot(grad, point)

    def update(self, state: Reference, grad: Grad, previous: Any, point: Any) -> Reference:  # noqa: ARG002 - shared
        """See the class."""
        return corrected(state, grad, point)

    def direction(self, state: Reference) -> Any:
        """v."""
        return state.v

    def refreshes(self, state: Reference, k: Array, coin: Any) -> Any:  # noqa: ARG002 - shared signature
        """With probability p."""
        return coin < self.p
