"""PAGE: SPIDER's recursion, started afresh by a coin."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import FRACTION
from gladstorm.methods.estimators.spider import Recursive


@part
class Page(Recursive):
    """With probability p a fresh gradient, else v^{k+1} = v^k + ∇f(x^{k+1}; ξ) − ∇f(x^k; ξ) (Li et al. 2021)."""

    p: Number = leaf(FRACTION)  #: the probability in (0, 1] of a fresh gradient
    flips: ClassVar[bool] = True

    @override
    def refreshes(self, state: Any, k: Array, coin: Array) -> Array:
        """True with probability p."""
        return coin < self.p
