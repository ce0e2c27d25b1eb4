"""Averages x̄ of the iterates, which a method may report instead of its last iterate.

An average does not change where a method goes. Every average is x̄^k = (1 − w_k) x̄^{k−1} + w_k x^k, starting with
x̄⁰ = x⁰; its class says what w_k is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part, parts_of
from gladstorm.core.rules import BELOW_ONE, NON_NEGATIVE, UNIT_INTERVAL


class Average(ABC):
    """A weighted mean of x⁰..x^k for every k."""

    of_the_run: ClassVar[bool] = False  # whether it depends on where the run ends

    @abstractmethod
    def weight(self, k: Array, horizon: Array) -> Array:
        """w_k for k ≥ 1, the share of x^k in x̄^k, in a run of K = `horizon` steps."""


@part
class PolynomialAverage(Average):
    """w_k = (s + 1)/(k + s + 1): x^j has a weight of about j^s; s = 0 is the plain mean (Shamir and Zhang 2013).

    >>> float(PolynomialAverage(8.0).weight(jnp.array(9), jnp.array(100)))
    0.5
    """

    degree: Number = leaf(NON_NEGATIVE, default=8.0)  #: s ≥ 0

    @override
    def weight(self, k: Array, horizon: Array) -> Array:
        return jnp.asarray((self.degree + 1) / (k + self.degree + 1))


@part
class TailAverage(Average):
    """The mean of x^j over the last part of the run, j ≥ ⌈(1 − q) K⌉; before that part begins, x^k itself.

    By default that is the second half, q = ½ (Rakhlin et al. 2012).
    """

    share: Number = leaf(UNIT_INTERVAL, default=0.5)  #: q in [0, 1], the share of the run that is averaged
    of_the_run: ClassVar[bool] = True

    @override
    def weight(self, k: Array, horizon: Array) -> Array:
        first = jnp.ceil((1 - self.share) * horizon)
        return 1 / jnp.maximum(k - first + 1, 1.0)


@part
class ScheduleFreeAverage(Average):
    """w_k = c/(1 − β + βc), c = 1/k: the x of Schedule-Free SGD, whose y are the iterates (Defazio et al. 2024).

    Schedule-Free SGD has y = (1 − β) z + βx and x ← (1 − c) x + c z. If z is eliminated, x is this average of the y.
    """

    beta: Number = leaf(BELOW_ONE, default=0.9)  #: β in [0, 1)

    @override
    def weight(self, k: Array, horizon: Array) -> Array:
        c = 1 / k
        return jnp.asarray(c / (1 - self.beta + self.beta * c))


def registry() -> dict[str, type[Average]]:
    """The classes of all averages, by their names in a method's text."""
    return parts_of(globals(), Average)
