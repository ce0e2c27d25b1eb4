"""A step with nothing to tune: it finds its length from how far the run has come, and when to shorten it.

`begin` and `move` take it for every coordinate by itself, each with its own length and clock, where coordinates differ
in scale. A posterior has coordinates of very different widths, and the location of a Gaussian moves while its width
does not. One length for all is that of the farthest coordinate, and the others take steps of that length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import ABOVE_ZERO, FRACTION, NEVER_ZERO, NON_NEGATIVE, STEP_SIZE
from gladstorm.methods.norms import Axes, is_finite, length, unit
from gladstorm.methods.schedules import RunLength
from gladstorm.methods.steps.step import Step

FIRST = 0.1  # ρ: a coordinate has no others to share a length with, and a wrong first one harms only itself
# `least_z` for subsampled data. Their noise stays, and hides a slow drift along a valley among steps that undo each
# other across it: a clock that hurries would end the run on its way.
SUBSAMPLED = 0.5


class UntunedState(NamedTuple):
    """State of `Untuned`: where the run began and what it has measured since."""

    start: Any  # x⁰
    average: Any  # x̄, of late iterates
    squares: Any  # E, for each coordinate
    motion: Any  # m, the mean of recent steps
    k: Array  # gradients seen
    size: Array  # s, the usual ‖v‖
    r: Array  # how far it has come
    spread: Array  # √V: how far x would be from x̄ by chance
    z: Array  # ‖x − x̄‖²/V
    clock: Array  # τ
    skipped: Array  # gradients that were not finite


# The fields that each coordinate has by itself: all see the same gradients.
OWN = tuple(name for name in UntunedState._fields if name not in ("k", "skipped"))


@part
class Untuned(Step):
    """x^{k+1} = x^k − m, m the mean of recent steps δ = γ r K^{−aτ} p with ‖p‖ ≤ 1; nothing in it has to be tuned.

    Beside x it keeps four vectors: x⁰, an average x̄ of late iterates, E and m. In step k of K:

    s ← s + (min{‖v‖, cs} − s) 4/(k + 4),  c = 2(k + 1)^¼        the usual size of v (s = ‖v‖ at first)
    u = v · min{1/s, c/‖v‖}                                       v by its usual size, cut if it is much larger
    r ← max{r, min{‖x̄ − x⁰‖, (1 + 8/√(K(k + 1))) r}}              how far the run has come; at first ρ(1 + ‖x⁰‖)
    E ← (r_before/r)⁴ E + u²,  p = u/√(dE)                        by coordinates: AdaGrad that forgets small r
    φ = z⁻⁴ if z > 1, else ½/z but at least 1 and at most 4       what this step counts on the clock
    τ ← τ + φ max{(1 − τ)/(K − k), 1/K}                           the clock: 0 at first, usually 1 or more at the end
    δ = γ r K^{−aτ} p,  m ← (1 − β) m + βδ,  x ← x − m            the step
    V ← V + ‖δ‖²,  z = ‖x − x̄‖²/V                                 1 if steps are as good as random
    x̄ ← x̄ + w(x − x̄),  V ← (1 − w)² V,  w = 7/(k + 8)             the average

    z compares the way from x̄ to x with that of a random walk of the same steps. If z > 1 the run still travels, so the
    clock waits; if z < ½ steps undo each other, so it hurries. A decay that is exponential in τ forgives a wrong r. The
    first length is small, so that a trained model is seldom thrown off, and r grows by at most e^{16√(k/K)} in k steps:
    faster, it would follow the noise of a few gradients into regions that no later step leaves.

    f times a constant changes nothing. No step is longer than γ r. Where v = 0 nothing moves. A v that is not finite is
    counted and not remembered, and x goes half the way back to x̄, where gradients were finite.
    """

    gamma: Number = leaf(STEP_SIZE, default=1.0)  #: γ; 1 is the method
    steps: Number = leaf(ABOVE_ZERO, default=RunLength())  #: K, the length of the run
    first: Number = leaf(NEVER_ZERO, default=equations.FIRST)  #: ρ, the first length by 1 + ‖x⁰‖
    decay: Number = leaf(NON_NEGATIVE, default=equations.DECAY)  #: a: at τ = 1 steps are K^a times shorter
    share: Number = leaf(FRACTION, default=equations.SHARE)  #: β, the share of a step in the mean of recent ones

    axes: ClassVar[Axes] = None  # of a mesh that x is cut along

    @override
    def init(self, x: Any) -> UntunedState:
        zeros = jax.tree.map(jnp.zeros_like, x)
        zero = length(zeros, self.axes).astype(jnp.result_type(float))  # inside jax.shard_map, of the type steps give
        squares = jax.tree.map(jnp.abs, zeros)
        r = self.first * (1 + length(x, self.axes)) + zero
        return UntunedState(x, x, squares, zeros, zero, zero, r, zero, zero + 1, zero, zero)

    @override
    def move(self, memory: UntunedState, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, UntunedState]:
        size = length(v, self.axes)
        unmoved = memory._replace(k=memory.k + 1)
        halfway = jax.tree.map(lambda x, average: x + (average - x) / 2, x, memory.average)
        still = jax.tree.map(jnp.zeros_like, memory.motion)
        back = halfway, unmoved._replace(motion=still, skipped=memory.skipped + 1)
        stepped = _where(size > 0, self._stepped(memory, x, v, size), (x, unmoved))
        chosen: tuple[Any, UntunedState] = _where(jnp.isfinite(size), stepped, back)
        return chosen

    def _stepped(self, memory: UntunedState, x: Any, v: Any, size: Array) -> tuple[Any, UntunedState]:
        k, K = memory.k, self._horizon()
        usual = equations.usual_size(memory.size, size, k, jnp)
        by = equations.relative_size(size, usual, k, jnp)
        u = jax.tree.map(lambda v: v * by, unit(v, self.axes))

        way = length(jax.tree.map(jnp.subtract, memory.average, memory.start), self.axes)
        r = equations.farthest(memory.r, way, k, K, jnp, self._growth())
        squares = self._squares(memory.squares, u, r / memory.r)
        tau = self._clock(memory)
        scale = self.gamma * r * equations.shortened(tau, K, self.decay) / jnp.sqrt(self._dimension(x))
        step = self._bounded(jax.tree.map(lambda u, E: scale * u / jnp.sqrt(jnp.where(E == 0, 1.0, E)), u, squares))

        motion = jax.tree.map(lambda m, step: m + self.share * (step - m), memory.motion, step)
        x = jax.tree.map(jnp.subtract, self._decayed(x, step), motion)
        off = jax.tree.map(jnp.subtract, x, memory.average)
        spread = jnp.hypot(memory.spread, length(step, self.axes))
        z = equations.agreement(length(off, self.axes), spread, jnp)
        w = equations.average_weight(k)
        average = jax.tree.map(lambda average, off: average + w * off, memory.average, off)
        numbers = k + 1, usual, r, (1 - w) * spread, z, tau
        return x, UntunedState(memory.start, average, squares, motion, *numbers, memory.skipped)

    def _bounded(self, step: Any) -> Any:
        """δ, for a problem that limits how long it may be."""
        return step

    def _decayed(self, x: Any, _step: Any) -> Any:
        """x before m is subtracted, for weight decay."""
        return x

    def _squares(self, squares: Any, u: Any, ratio: Array) -> Any:
        """E after this step: what was added when r was `ratio` times smaller counts as little as its steps moved x."""
        return jax.tree.map(lambda E, u: E / ratio**4 + jnp.abs(u) ** 2, squares, u)

    def _clock(self, memory: UntunedState) -> Array:
        """τ after this step: it waits while steps agree (z > 1), and hurries while they undo each other (z < ½)."""
        tau: Array = equations.clock(memory.clock, memory.z, memory.k, self._horizon(), jnp)
        return tau

    def _growth(self) -> Any:
        """How fast r may grow."""
        return equations.GROWTH

    def _horizon(self) -> Array:
        return jnp.asarray(self.steps, jnp.result_type(float))

    def _dimension(self, x: Any) -> Array:
        """d, the number of coordinates of x."""
        here = jnp.asarray(float(sum(leaf.size for leaf in jax.tree.leaves(x))))
        return jax.lax.psum(here, self.axes) if self.axes else here


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
    seen: Any = None,
) -> tuple[Any, UntunedState]:
    """x^{k+1} and the next state, in a run of this many steps; a δ is at most as long as `longest`, a tree like x.

    `seen` says for each coordinate how many gradients were not 0, the newest one included; by default all. The run of a
    coordinate that is seldom in a subsample of the data is as much shorter, with a clock of its own.

    If any coordinate of v is not finite, all go half the way back to their averages.
    """
    whole = is_finite(v)

    @jnp.vectorize
    def of_entry(x: Array, v: Array, bound: Array, count: Array, *own: Array) -> tuple[Array, ...]:
        before = UntunedState(k=count - 1, skipped=memory.skipped, **dict(zip(OWN, own, strict=True)))
        step = Bounded(steps=steps * (count / (memory.k + 1)), longest=bound, least_z=least_z, growth=growth)
        x, after = step.move(before, x, v, no_value)
        return x, *_own(after)

    def of_leaf(x: Array, v: Array, bound: Array, count: Array, *own: Array) -> Any:
        return of_entry(x, jnp.where(whole, v, jnp.nan), jnp.where(whole, bound, 1.0), count, *own)

    bounds = jax.tree.map(lambda v: jnp.full_like(v, jnp.inf), v) if longest is None else longest
    counts = jax.tree.map(lambda _: memory.k + 1, v) if seen is None else seen
    rows = jax.tree.map(of_leaf, x, v, bounds, counts, *_own(memory))
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


def _where(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda yes, no: jnp.where(condition, yes, no), yes, no)
