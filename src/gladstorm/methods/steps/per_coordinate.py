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
from gladstorm.core.rules import ABOVE_ZERO, NON_NEGATIVE
from gladstorm.methods.norms import is_finite, length
from gladstorm.methods.steps.untuned import Journey, Untuned

FIRST = 0.1  # ρ: a coordinate has no others to share a length with, and a wrong first one harms only itself
# `least_z` for subsampled data. Their noise stays, and hides a slow drift along a valley among steps that undo each
# other across it: a clock that hurries would end the run on its way.
SUBSAMPLED = 0.5
OWN = tuple(name for name in Journey._fields if name not in ("k", "skipped"))  # all coordinates see the same gradients


@part
class Bounded(Untuned):
    """`Untuned` with ‖δ‖ ≤ `longest`, whose r grows as fast as x̄ goes: a coordinate may be off by many scales."""

    longest: Number = leaf(ABOVE_ZERO, default=jnp.inf)  #: the bound
    least_z: Number = leaf(NON_NEGATIVE, default=0.0)  #: a z below this counts as this; ½: the clock never hurries

    @override
    def _farthest(self, memory: Journey) -> Array:
        return jnp.full_like(memory.r, jnp.inf)

    @override
    def _clock(self, memory: Journey) -> Array:
        return super()._clock(memory._replace(z=jnp.maximum(memory.z, self.least_z)))

    @override
    def _bounded(self, step: Any) -> Any:
        size = length(step)
        factor = jnp.where(size > self.longest, self.longest / jnp.where(size == 0, 1.0, size), 1.0)
        return jax.tree.map(lambda step: step * factor, step)


def begin(x: Any) -> Journey:
    """What all coordinates of a pytree remember at x⁰: fields are trees like x, but for k and `skipped`."""
    own = jax.tree.map(jnp.vectorize(lambda each: _own(Bounded(first=FIRST).init(each))), x)
    zero = length(jax.tree.map(jnp.zeros_like, x)).astype(jnp.result_type(float))
    return _journey(zero, zero, x, own)


def move(steps: Any, memory: Journey, x: Any, v: Any, longest: Any = None, least_z: float = 0.0) -> tuple[Any, Journey]:
    """x^{k+1} and what is remembered, of a run of this many steps; a δ is at most as long as `longest`, a tree like x.

    If any coordinate of v is not finite, all go half the way back to their averages.
    """
    whole = is_finite(v)

    def one(x: Array, v: Array, bound: Array, *own: Array) -> tuple[Array, ...]:
        before = Journey(k=memory.k, skipped=memory.skipped, **dict(zip(OWN, own, strict=True)))
        moved, later = Bounded(steps=steps, longest=bound, least_z=least_z).move(before, x, v, _no_value)
        return moved, *_own(later)

    def of_leaf(x: Array, v: Array, bound: Array, *own: Array) -> tuple[Array, ...]:
        moved: tuple[Array, ...] = jnp.vectorize(one)(
            x, jnp.where(whole, v, jnp.nan), jnp.where(whole, bound, 1.0), *own
        )
        return moved

    bounds = jax.tree.map(lambda v: jnp.full_like(v, jnp.inf), v) if longest is None else longest
    leaves = jax.tree.map(of_leaf, x, v, bounds, *_own(memory))
    moved = jax.tree.map(lambda _, each: each[0], x, leaves)
    own = jax.tree.map(lambda _, each: each[1:], x, leaves)
    return moved, _journey(memory.k + 1, memory.skipped + jnp.where(whole, 0, 1), x, own)


def _own(journey: Journey) -> tuple[Any, ...]:
    """The fields that every coordinate has by itself."""
    return tuple(getattr(journey, name) for name in OWN)


def _journey(k: Array, skipped: Array, x: Any, own: Any) -> Journey:
    """A tree of fields as a journey of trees."""
    fields = {name: jax.tree.map(lambda _, each, at=at: each[at], x, own) for at, name in enumerate(OWN)}
    return Journey(k=k, skipped=skipped, **fields)


def _no_value(_: Any) -> Array:
    raise AssertionError("Untuned: no step asks for the value of f.")
