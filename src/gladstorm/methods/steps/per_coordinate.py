"""`Untuned` for every coordinate by itself, each with its own length and clock, where coordinates differ in scale.

A posterior has coordinates of very different widths, and the location of a Gaussian moves while its width does not. One
length for all is that of the farthest coordinate, and the others take steps of that length.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import ABOVE_ZERO
from gladstorm.methods.norms import is_finite, length
from gladstorm.methods.steps.untuned import Journey, Untuned

FIRST = 0.1  # ρ: a coordinate has no others to share a length with, and a wrong first one harms only itself


@part
class Bounded(Untuned):
    """`Untuned` with ‖δ‖ ≤ `longest`, whose r grows as fast as x̄ goes: a coordinate may be off by many scales."""

    longest: Number = leaf(ABOVE_ZERO, default=jnp.inf)  #: the bound

    @override
    def _farthest(self, memory: Journey) -> Array:
        return jnp.full_like(memory.r, jnp.inf)

    @override
    def _bounded(self, step: Any) -> Any:
        size = length(step)
        factor = jnp.where(size > self.longest, self.longest / jnp.where(size == 0, 1.0, size), 1.0)
        return jax.tree.map(lambda step: step * factor, step)


def begin(x: Any) -> Journey:
    """What all coordinates of a pytree remember at x⁰: every field is a tree like x."""
    return _transposed(x, jax.tree.map(jnp.vectorize(lambda each: tuple(Bounded(first=FIRST).init(each))), x))


def move(steps: Any, memory: Journey, x: Any, v: Any, longest: Any = None) -> tuple[Any, Journey]:
    """x^{k+1} and what is remembered, of a run of this many steps; a δ is at most as long as `longest`, a tree like x.

    If any coordinate of v is not finite, all go half the way back to their averages.
    """
    whole = is_finite(v)

    def one(x: Array, v: Array, bound: Array, *memory: Array) -> tuple[Array, ...]:
        moved, later = Bounded(steps=steps, longest=bound).move(Journey(*memory), x, v, _no_value)
        return moved, *later

    def of_leaf(x: Array, v: Array, bound: Array, *memory: Array) -> tuple[Array, ...]:
        moved: tuple[Array, ...] = jnp.vectorize(one)(
            x, jnp.where(whole, v, jnp.nan), jnp.where(whole, bound, 1.0), *memory
        )
        return moved

    bounds = jax.tree.map(lambda v: jnp.full_like(v, jnp.inf), v) if longest is None else longest
    leaves = jax.tree.map(of_leaf, x, v, bounds, *memory)
    moved = jax.tree.map(lambda _, each: each[0], x, leaves)
    return moved, _transposed(x, jax.tree.map(lambda _, each: each[1:], x, leaves))


def _transposed(x: Any, journeys: Any) -> Journey:
    """A tree of journeys as a journey of trees."""
    return Journey(*(jax.tree.map(lambda _, each, at=at: each[at], x, journeys) for at in range(len(Journey._fields))))


def _no_value(_: Any) -> Array:
    raise AssertionError("Untuned: no step asks for the value of f.")
