"""SVRG without loops."""

from __future__ import annotations

from typing import Any, ClassVar

from gladstorm.estimators.svrg import FromReference, Reference
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import FRACTION


@part
class LooplessSvrg(FromReference):
    """SVRG whose snapshot is renewed with probability p at every step."""

    p: Number = leaf(FRACTION)
    flips: ClassVar[bool] = True

    def refreshes(self, state: Reference, k: Array, coin: Any) -> Any:  # noqa: ARG002 - shared signature
        """With probability p."""
        return coin < self.p
