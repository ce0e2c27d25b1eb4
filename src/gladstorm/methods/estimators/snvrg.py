"""SNVRG: SVRG with nested reference points."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, part, static
from gladstorm.core.rules import COUNT
from gladstorm.methods.estimators.estimator import Estimator, Grad


class Nest(NamedTuple):
    """Reference points of the levels 0..K−1 and reference gradients of the levels 0..K, stacked."""

    points: Any  # x^(l)
    gradients: Array  # g^(l)
    age: Array | int  # steps since all of it was renewed


@part
class Snvrg(Estimator):
    """v = Σ_l g^(l) over nested levels l = 0..K; loop l runs T_l times inside loop l − 1 (Zhou et al. 2018).

    When the loops below level r end, g^(r) = ∇f(x; ξ) − ∇f(x^(r−1); ξ), x^(l) = x for l ≥ r, and g^(l) = 0 for l > r.
    When all loops have ended, g^(0) is a fresh gradient.
    """

    loops: tuple[int, ...] = static(COUNT, default=(2, 2, 4))  #: T_1..T_K, the runs of each loop in the one before
    queries: ClassVar[int] = 2
    starts_afresh: ClassVar[bool] = True

    @override
    def init(self, grad: Grad, point: Any) -> Nest:
        """The state with every reference point at x."""
        g = grad(point)
        levels = len(self.loops)
        points = jax.tree.map(lambda a: jnp.stack([a] * levels), point)
        return Nest(points, jnp.zeros((levels + 1, *g.shape), g.dtype).at[0].set(g), 0)

    @override
    def update(self, state: Nest, grad: Grad, previous: Any, point: Any) -> Nest:
        r = level(state.age + 1, self.loops)
        reference = jax.tree.map(lambda a: a[r - 1], state.points)
        renewed = grad(point) - grad(reference)
        levels = jnp.arange(len(self.loops) + 1)[:, None]
        gradients = jnp.where(levels < r, state.gradients, jnp.where(levels == r, renewed, 0))
        points = jax.tree.map(
            lambda old, new: jnp.where(levels[:-1].reshape(-1, *[1] * jnp.ndim(new)) < r, old, new), state.points, point
        )
        return Nest(points, gradients, state.age + 1)

    @override
    def direction(self, state: Nest) -> Any:
        """v = Σ_l g^(l)."""
        return state.gradients.sum(0)

    @override
    def refreshes(self, state: Nest, k: Array, coin: Array) -> Array:
        """True when every loop has ended."""
        return k % math.prod(self.loops) == 0


def level(k: Array | int, loops: tuple[int, ...]) -> Array:
    """The smallest r with k divisible by T_{r+1}⋯T_K: what step k renews.

    >>> [int(level(k, (2, 3))) for k in range(8)]
    [0, 2, 2, 1, 2, 2, 0, 2]
    """
    return sum((jnp.asarray(k % math.prod(loops[r:]) != 0, int) for r in range(len(loops))), jnp.zeros((), int))
