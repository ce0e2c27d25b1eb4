"""`Untuned` for every coordinate by itself, each with its own length and clock, where coordinates differ in scale.

A posterior has coordinates of very different widths, and the location of a Gaussian moves while its width does not. One
length for all is that of the farthest coordinate, and the others take steps of that length.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import ABOVE_ZERO, NON_NEGATIVE
from gladstorm.methods.norms import is_finite, length
from gladstorm.methods.steps.untuned import Untuned, UntunedState

FIRST = 0.1  # ρ: a coordinate has no others to share a length with, and a wrong first one harms only itself
# `least_z` for subsampled data. Their noise stays, and hides a slow drift along a valley among steps that undo each
# other across it: a clock that hurries would end the run on its way.
SUBSAMPLED = 0.5
# The fields that each coordinate has by itself: all see the same gradients.
OWN = tuple(name for name in UntunedState._fields if name not in ("k", "skipped"))


@part
class Bounded(Untuned):
    """`Untuned` with ‖δ‖ ≤ `longest`, whose r may grow as fast as x̄ goes: a coordinate may be off by many scales."""

    longest: Number = leaf(ABOVE_ZERO, default=jnp.inf)  #: the bound
    growth: Number = leaf(ABOVE_ZERO, default=jnp.inf)  #: how fast r may grow; 8 is that of `Untuned`
    least_z: Number = leaf(NON_NEGATIVE, default=0.0)  #: a z below this counts as this; ½: the clock never hurries

    @override
    def _clock(self, memory: UntunedState) -> Array:
        return super()._clock(memory._replace(z=jnp.maximum(memory.z, self.least_z)))

    @override
    def _growth(self) -> Any:
        return self.growth

    @override
    def _bounded(self, step: Any) -> Any:
        factor = equations.cut(length(step), self.longest, jnp)
        return jax.tree.map(lambda step: step * factor, step)


def begin(x: Any, first: Any = FIRST) -> UntunedState:
    """State of all coordinates at x⁰: fields are trees like x, but for k and `skipped`; `first` is ρ."""
    step = Bounded(first=first)
    fields = jax.tree.map(jnp.vectorize(lambda entry: _own(step.init(entry))), x)
    zero = length(jax.tree.map(jnp.zeros_like, x)).astype(jnp.result_type(float))
    return _of_trees(zero, zero, x, fields)


def move(
    steps: Any,
    memory: UntunedState,
    x: Any,
    v: Any,
    longest: Any = None,
    least_z: float = 0.0,
    growth: Any = jnp.inf,
) -> tuple[Any, UntunedState]:
    """x^{k+1} and the next state, in a run of this many steps; a δ is at most as long as `longest`, a tree like x.

    If any coordinate of v is not finite, all go half the way back to their averages.
    """
    whole = is_finite(v)

    @jnp.vectorize
    def of_entry(x: Array, v: Array, bound: Array, *own: Array) -> tuple[Array, ...]:
        before = UntunedState(k=memory.k, skipped=memory.skipped, **dict(zip(OWN, own, strict=True)))
        x, after = Bounded(steps=steps, longest=bound, least_z=least_z, growth=growth).move(before, x, v, no_value)
        return x, *_own(after)

    def of_leaf(x: Array, v: Array, bound: Array, *own: Array) -> Any:
        return of_entry(x, jnp.where(whole, v, jnp.nan), jnp.where(whole, bound, 1.0), *own)

    bounds = jax.tree.map(lambda v: jnp.full_like(v, jnp.inf), v) if longest is None else longest
    rows = jax.tree.map(of_leaf, x, v, bounds, *_own(memory))
    after = jax.tree.map(lambda _, row: row[0], x, rows)
    fields = jax.tree.map(lambda _, row: row[1:], x, rows)
    return after, _of_trees(memory.k + 1, memory.skipped + jnp.where(whole, 0, 1), x, fields)


def _own(state: UntunedState) -> tuple[Any, ...]:
    """The fields that every coordinate has by itself."""
    return tuple(getattr(state, name) for name in OWN)


def _of_trees(k: Array, skipped: Array, x: Any, rows: Any) -> UntunedState:
    """A state of trees from a tree like x whose leaves are rows of fields."""
    fields = {name: jax.tree.map(lambda _, row, at=at: row[at], x, rows) for at, name in enumerate(OWN)}
    return UntunedState(k=k, skipped=skipped, **fields)


def no_value(_: Any) -> Array:
    """Stand in for f: no untuned step asks for its value."""
    raise AssertionError("Untuned: no step asks for the value of f.")
