"""How x moves along the direction v. Both are pytrees of the same structure."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from gladstorm.parts import Number, leaf, part
from gladstorm.rules import POSITIVE


class Step(Protocol):
    """One move."""

    def __call__(self, x: Any, v: Any) -> Any:
        """x^{k+1} from x^k and v^k."""


@part
class Plain:
    """x^{k+1} = x^k − γ v^k."""

    gamma: Number = leaf(POSITIVE)  # γ

    def __call__(self, x: Any, v: Any) -> Any:
        """See the class."""
        return jax.tree.map(lambda x, v: x - self.gamma * v, x, v)


@part
class Normalized:
    """x^{k+1} = x^k − γ v^k/‖v^k‖, one norm over all of v; x stays where v = 0."""

    gamma: Number = leaf(POSITIVE)  # γ

    def __call__(self, x: Any, v: Any) -> Any:
        """See the class."""
        return jax.tree.map(lambda x, u: x - self.gamma * u, x, unit(v))


def unit(v: Any) -> Any:
    """v/‖v‖, and 0 where v = 0. The largest entry is divided out first: squares neither overflow nor vanish.

    >>> unit(jnp.array([3e30, 4e30])).tolist(), unit(jnp.zeros(2)).tolist()
    ([0.6000000238418579, 0.800000011920929], [0.0, 0.0])
    """
    largest = jnp.max(jnp.array([jnp.max(jnp.abs(leaf), initial=0) for leaf in jax.tree.leaves(v)]), initial=0)
    scaled = jax.tree.map(lambda leaf: leaf / jnp.where(largest == 0, 1, largest), v)
    norm = jnp.sqrt(sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(scaled)))
    return jax.tree.map(lambda leaf: leaf / jnp.where(norm == 0, 1, norm), scaled)
