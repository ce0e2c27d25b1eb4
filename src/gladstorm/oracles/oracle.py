"""What the simulator and the estimators ask of a source of stochastic gradients: the whole contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.foundation.constants import Bg0
from gladstorm.foundation.parts import Array, Number, leaf, part
from gladstorm.foundation.rules import NON_NEGATIVE
from gladstorm.objectives import Objective


class Point(NamedTuple):
    """x and ∇f(x), computed once for all samples evaluated at x and for the record."""

    x: Array
    grad: Array


class Oracle(ABC):
    """A source of stochastic gradients of f: draw once, evaluate anywhere.

    The simulator draws the randomness of a step, turns it into one sample for whatever batch size the method asks for,
    looks at every point the run visits, and hands both to the estimator, which may evaluate a sample at several points.
    A point is a NamedTuple with a field `x`; estimators read `x` and pass the rest on. This class remembers ∇f(x)
    there, so that all samples at x and the record share one exact gradient.
    """

    objective: Objective
    field: ClassVar[str] = "∇f"  # what `exact` is and samples are of, as written beside its norm
    outside: ClassVar[str | None] = None  # why the theorems say nothing about it, as the end of a sentence

    @classmethod
    def misfit(cls, _objective: Any) -> str | None:
        """Why samples of this objective cannot be drawn, in one sentence, or None."""
        return None

    @property
    def largest(self) -> int | None:
        """The largest batch there is; None if there is no largest."""
        return None

    @abstractmethod
    def draw(self, key: Array) -> Any:
        """The randomness of one step, whatever the batch size will be: arrays of a fixed shape."""

    @abstractmethod
    def batch(self, noise: Any, size: Array) -> Any:
        """The mean of `size` samples, in law, as one sample; `size` is a traced whole number."""

    def drawn_at(self, _point: Any, sample: Any) -> Any:
        """The sample, told where the run is when it is drawn.

        Most samples are functions of x as they come. One that would be expensive as such may use that every estimator
        evaluates its sample at the newest point and at one other at most: knowing the first, it is exact at both.
        """
        return sample

    def at(self, x: Array) -> Any:
        """x together with what the oracle wants to remember about x."""
        return Point(x, self.objective.grad(x))

    @abstractmethod
    def grad(self, point: Any, sample: Any) -> Array:
        """∇f(x; ξ)."""

    def exact(self, point: Any) -> Array:
        """∇f(x), for the record."""
        gradient: Array = point.grad
        return gradient

    def variance(self, _point: Any) -> Array | None:
        """E‖∇f(x; ξ) − ∇f(x)‖² of a single sample, if it is known in closed form: the tests compare."""
        return None

    @property
    def bg0(self) -> Bg0 | None:
        """Constants with which BG-0 holds, and where the noise is smallest; None where none are known."""
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
    """An oracle whose samples are weighted examples of a finite sum: w_i is the share of example i in the batch."""

    @abstractmethod
    def examples(self, point: Any) -> Array:
        """∇f_1(x), …, ∇f_n(x), a row each: what SAGA remembers."""
