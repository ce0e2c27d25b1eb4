"""What every estimator shares, and what the engine asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from gladstorm.foundation.parts import Array
from gladstorm.oracles import Oracle

Grad = Callable[[Any], Any]  # the gradient of the current sample, batch mean included, at a point


class Estimator(ABC):
    """A recursion for v, the direction a step takes.

    What it remembers is a pytree of its own; for most that is v itself. One that `starts_afresh` now and then says when
    with `refreshes`: at these steps `init` runs on a batch of the rule's refresh size instead of `update`.
    """

    queries: ClassVar[int]  # how many points an update evaluates its sample at; `init` takes one
    starts_afresh: ClassVar[bool] = False  # whether `refreshes` is ever true
    flips: ClassVar[bool] = False  # whether `refreshes` needs a coin

    @property
    def samples(self) -> int:
        """Independent samples per step; with more than one, `grad(point)` has one row for each."""
        return 1

    def init(self, grad: Grad, point: Any) -> Any:
        """What is remembered after v⁰ = ∇f(x⁰; ξ⁰)."""
        return grad(point)

    @abstractmethod
    def update(self, state: Any, grad: Grad, previous: Any, point: Any) -> Any:
        """The next state, with the new sample's gradient available at x^k (previous) and x^{k+1} (point)."""

    def direction(self, state: Any) -> Any:
        """v."""
        return state

    def refreshes(self, _state: Any, _k: Array, _coin: Array, /) -> Array | bool:
        """Whether step k starts afresh; the coin is uniform on [0, 1). False, not an array, if it never does."""
        return False

    def misfit(self, _oracle: Oracle, /) -> str | None:
        """Why this oracle cannot serve, in one sentence, or None."""
        return None
