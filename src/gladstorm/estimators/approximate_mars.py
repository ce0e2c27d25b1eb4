"""MARS with the last step's gradient in place of a second evaluation."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.estimators.mars import mixed
from gladstorm.parts import Number, leaf, part
from gladstorm.rules import ABOVE_ZERO, FRACTION, NON_NEGATIVE


class Last(NamedTuple):
    """v and the last sample's gradient."""

    v: Any
    gradient: Any


@part
class ApproximateMars(Estimator):
    """MARS with g' the gradient of the *last* sample at x^k: one evaluation per step, and not a difference of noise."""

    eta: Number = leaf(FRACTION)  # η = 1 − β₁
    scale: Number = leaf(NON_NEGATIVE, default=0.025)  # s, their γ
    clip: Number = leaf(ABOVE_ZERO, default=1.0)  # r
    queries: ClassVar[int] = 1

    def init(self, grad: Grad, point: Any) -> Last:
        """v⁰ = ∇f(x⁰; ξ⁰)."""
        gradient = grad(point)
        return Last(gradient, gradient)

    def update(self, state: Last, grad: Grad, previous: Any, point: Any) -> Last:  # noqa: ARG002 - shared signature
        """See the class."""
        gradient = grad(point)
        return Last(mixed(state.v, gradient, state.gradient, self.eta, self.scale, self.clip), gradient)

    def direction(self, state: Last) -> Any:
        """v."""
        return state.v
