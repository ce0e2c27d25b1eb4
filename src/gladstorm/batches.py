"""How many samples step k uses, given the squared distance ‖x^k − x⁰‖². Sizes are values, not shapes."""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp

from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import COUNT, NON_NEGATIVE, POSITIVE


class BatchRule(Protocol):
    """A batch size for every step."""

    def __call__(self, k: Array, distance2: Array) -> Array:
        """The number of samples v^k averages at step k."""


@part
class Fixed:
    """The same size at every step."""

    size: Number = leaf(COUNT, default=1)

    def __call__(self, k: Array, distance2: Array) -> Array:  # noqa: ARG002 - shared signature
        """See the class."""
        return _whole(self.size)


@part
class FirstLarge:
    """N_init samples for v⁰, then another rule."""

    n_init: Number = leaf(COUNT)  # N_init
    then: BatchRule = Fixed()

    def __call__(self, k: Array, distance2: Array) -> Array:
        """See the class."""
        return jnp.where(k == 0, _whole(self.n_init), self.then(k, distance2))


@part
class GrowWithDistance:
    """N = max(1, ⌈(B²‖x − x⁰‖² + G²)/σ²⌉): the variance of the batch mean stays at σ², up to a cap."""

    B: Number = leaf(NON_NEGATIVE)
    G: Number = leaf(NON_NEGATIVE)
    sigma2: Number = leaf(POSITIVE)  # σ²
    cap: Number = leaf(COUNT, default=2**31 - 1)

    def __call__(self, k: Array, distance2: Array) -> Array:  # noqa: ARG002 - shared signature
        """See the class."""
        wanted = jnp.ceil((self.B**2 * distance2 + self.G**2) / self.sigma2)
        return _whole(jnp.clip(wanted, 1, self.cap))


def _whole(size: Array) -> Array:
    return jnp.asarray(size).astype(jnp.result_type(int))
