"""Several functions as one part, so that all instances of one dimension share their compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part, static
from gladstorm.core.rules import VECTOR
from gladstorm.problems.objectives import Cauchy, Cosh, DoubleWell, Objective, Power, Quadratic

Family = Callable[[Any], Any]  # x⁰ to an objective


@part
class OneOf:
    """f = Σ_j w_j f_j, where one w_j is 1 and the others are 0: which f_j it is, is a number and not a structure."""

    start: Data = leaf(VECTOR)  # x⁰
    weights: Data = leaf(VECTOR)  # w
    families: tuple[Family, ...] = static()

    @classmethod
    def chosen(cls, family: Family, families: tuple[Family, ...], start: ArrayLike) -> OneOf:
        """The one, started at x⁰."""
        return cls(start, np.array([float(each is family) for each in families]), families)

    def value(self, x: Array) -> Array:
        """f(x)."""
        return jnp.sum(self.weights * jnp.stack([each(self.start).value(x) for each in self.families]))

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return self.weights @ jnp.stack([each(self.start).grad(x) for each in self.families])

    @property
    def itself(self) -> Objective:
        """The one, alone."""
        one: Objective = self.families[int(np.argmax(self.weights))](self.start)
        return one

    @property
    def f_inf(self) -> float | None:
        """inf f."""
        return self.itself.f_inf

    @property
    def constants(self) -> Constants | None:
        """Its own."""
        return self.itself.constants


@part
class Tilted:
    """f(x) = Σ_i x_i/√d: a plane of slope 1 everywhere, without infimum. Its gradient never moves."""

    start: Data = leaf(VECTOR)  # x⁰
    f_inf: ClassVar[None] = None
    constants: ClassVar[Constants | None] = None

    def value(self, x: Array) -> Array:
        """f(x)."""
        return jnp.sum(self.grad(x) * x)

    def grad(self, x: Array) -> Array:
        """∇f(x) = (1, …, 1)/√d."""
        return jnp.full(x.shape, x.size**-0.5)


def parabola(start: Array) -> Quadratic:
    """f(x) = ‖x‖²."""
    return Quadratic(start, np.full(start.shape, 2.0))


def cubic(start: Array) -> Power:
    """f(x) = ‖x‖³."""
    return Power(start, 3.0)


def wide_cosh(start: Array) -> Cosh:
    """f(x) = 160 Σ_i cosh(x_i/4): exponential growth that begins where γ0 ≤ 1/(8 L1) still gets to."""
    return Cosh(start, 0.25, 160.0)


ON_A_LINE: tuple[Family, ...] = (parabola, DoubleWell)
ON_A_PLANE: tuple[Family, ...] = (Cauchy, cubic, wide_cosh, DoubleWell, Tilted)
