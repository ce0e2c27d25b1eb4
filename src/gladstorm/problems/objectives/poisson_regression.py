"""Poisson regression with the log link: noise that grows faster than any power of the distance."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import POSITIVE, VECTOR, unlike_shapes
from gladstorm.problems.objectives.random_points import start_and_unit


@part
class PoissonRegression:
    """f(x) = E[exp(a·x) − y a·x], a ~ N(0, s²I), y ~ Poisson(exp(a·x*)): Poisson regression on a stream of data.

    f is the expected negative log-likelihood, f(x) = exp(s²‖x‖²/2) − s² x·x* exp(s²‖x*‖²/2), and is smallest at x*. Its
    curvature grows faster than any power of the gradient, so it has no smoothness constants.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    optimum: Data = leaf(VECTOR)  #: x*, the solution
    spread: Number = leaf(POSITIVE)  #: s > 0, the standard deviation of the features
    constants: ClassVar[None] = None
    own_oracle: ClassVar[str] = "poisson-regression"

    @classmethod
    def from_seed(cls, seed: int, spread: float = 0.3, *, dim: int = 5) -> PoissonRegression:
        """x* uniform on the unit sphere, x⁰ ~ N(0, I)."""
        return cls(*start_and_unit(seed, dim), spread)

    @property
    def flaw(self) -> str | None:
        """None if its numbers fit together; otherwise a sentence that says what is wrong."""
        return unlike_shapes("PoissonRegression", start=self.start, optimum=self.optimum)

    @property
    def f_inf(self) -> float:
        """f(x*)."""
        square = float(self.spread) ** 2 * float(np.sum(np.square(self.optimum)))
        return float(np.exp(square / 2) * (1 - square))

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self._mean(x) - self.spread**2 * (x @ self.optimum) * self._mean(self.optimum)

    def grad(self, x: Array) -> Array:
        """∇f(x) = s² (x exp(s²‖x‖²/2) − x* exp(s²‖x*‖²/2))."""
        return self.spread**2 * (x * self._mean(x) - self.optimum * self._mean(self.optimum))

    def _mean(self, x: Array) -> Array:
        """E exp(a·x)."""
        return jnp.exp(self.spread**2 * (x @ x) / 2)
