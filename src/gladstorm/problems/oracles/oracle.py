"""What the simulator and the estimators ask of a source of stochastic gradients: the whole contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import NON_NEGATIVE
from gladstorm.problems.objectives import Objective


class Point(NamedTuple):
    """x and ∇f(x), computed once for all samples evaluated at x and for the record."""

    x: Array
    grad: Array


class Oracle(ABC):
    """A source of stochastic gradients of f: a sample is drawn once and can be evaluated at any point.

    In each step the simulator calls `draw` for the randomness, `batch` to turn it into one sample for the batch size
    that the method asks for, and `at` for the new point. The estimator then calls `grad` with the sample, at one or
    more points. A point is a NamedTuple with a field `x`; estimators read `x` and pass the rest on. This class keeps
    ∇f(x) in the point, so that all samples at x and the record share one exact gradient.

    An oracle whose variance is exactly B²‖x − x⁰‖² + G² inherits `ExactBg0`. Any other declares its constants in `bg0`,
    with the point where its noise is smallest, so that the theorems can be applied to it, or says in `outside` why not.
    The tests of every oracle check that it is unbiased and has its `variance`, and a batch of b a b-th of it.
    """

    objective: Objective
    field: ClassVar[str] = "∇f"  # what `exact` is and samples are of, as written beside its norm
    outside: ClassVar[str | None] = None  # why the theorems say nothing about it, as the end of a sentence

    @classmethod
    def misfit(cls, _objective: Any) -> str | None:
        """None if samples of this objective can be drawn; otherwise a sentence that says why not."""
        return None

    @property
    def largest(self) -> int | None:
        """The largest batch size; None if there is no limit."""
        return None

    @abstractmethod
    def draw(self, key: Array) -> Any:
        """The randomness of one step, for any batch size: arrays of a fixed shape."""

    @abstractmethod
    def batch(self, noise: Any, size: Array) -> Any:
        """One sample with the law of the mean of `size` samples; `size` is a traced whole number."""

    def drawn_at(self, _point: Any, sample: Any) -> Any:
        """The sample, once the point is known at which the run draws it; by default the sample as it is.

        Every estimator evaluates its sample at the newest point and at no more than one other. An oracle for which that
        is cheaper may prepare the sample here for the newest point, as long as it is exact at both.
        """
        return sample

    def at(self, x: Array) -> Any:
        """The point x, with whatever the oracle wants to keep about it."""
        return Point(x, self.objective.grad(x))

    @abstractmethod
    def grad(self, point: Any, sample: Any) -> Array:
        """∇f(x; ξ), the gradient of a sample at a point."""

    def exact(self, point: Any) -> Array:
        """∇f(x), the exact gradient, for the record."""
        gradient: Array = point.grad
        return gradient

    def variance(self, _point: Any) -> Array | None:
        """E‖∇f(x; ξ) − ∇f(x)‖² of one sample; None if it is not known in closed form."""
        return None

    @property
    def bg0(self) -> Bg0 | None:
        """Constants B and G with which BG-0 holds, and the point where the noise is smallest; None if not known."""
        return None


@part
class ExactBg0(Oracle):
    """Noise around x⁰ of exactly the variance that BG-0 allows, E‖∇f(x; ξ) − ∇f(x)‖² = B²‖x − x⁰‖² + G²."""

    objective: Objective
    B: Number = leaf(NON_NEGATIVE)  #: growth of the noise, ≥ 0
    G: Number = leaf(NON_NEGATIVE)  #: standard deviation of the noise at x⁰, ≥ 0
    affine: ClassVar[bool] = True  # whether the noise of a difference, one sample at x and y, is at most B‖y − x‖

    @override
    def variance(self, point: Any) -> Array:
        return self.B**2 * jnp.sum((point.x - self.objective.start) ** 2) + self.G**2

    @property
    @override
    def bg0(self) -> Bg0:
        return Bg0(float(self.B), float(self.G), np.asarray(self.objective.start), affine=self.affine)


class OfExamples(Oracle):
    """An oracle whose samples are weights of the examples of a finite sum: w_i is the share of i in the batch."""

    @abstractmethod
    def examples(self, point: Any) -> Array:
        """∇f_1(x), …, ∇f_n(x), one row for each example. SAGA remembers them."""
