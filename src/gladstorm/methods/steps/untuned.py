"""A step with nothing to tune: it finds its length from how far the run has come, and when to shorten it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import ABOVE_ZERO, FRACTION, NEVER_ZERO, NON_NEGATIVE, STEP_SIZE
from gladstorm.methods.norms import Axes, length, unit
from gladstorm.methods.schedules import RunLength
from gladstorm.methods.steps.step import Step

AVERAGED = 6.0  # the degree of the average x̄, as `PolynomialAverage` counts it
RECENT = 4.0  # the usual size of v is that of about the last k/4 steps
WIDTH, WIDENING = 2.0, 0.25  # v is cut at WIDTH (k + 1)^WIDENING times its usual size
FASTEST = 4.0  # the most that one step may count on the clock
GROWTH = 8.0  # r grows at most by 1 + GROWTH/√(K(k + 1)) in step k


class Journey(NamedTuple):
    """Where the run began and what it has learnt."""

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

    z compares the way from x̄ to x with that of a random walk of the same steps. If z > 1 steps agree: the run still
    travels, so the clock waits. If z < ½ steps undo each other: they are too long, and
    the clock hurries. A decay that is exponential in τ forgives a wrong r: on a quadratic with noise the error at the
    end depends on the number of e-folds and hardly on the first length. The first length is a hundredth of 1 + ‖x⁰‖,
    so that a trained model is seldom thrown off. It grows slowly where there is time: by at most e^{16√(k/K)} in k
    steps, which is 5 in a hundredth of the run and 157 in a tenth. Faster, it would follow the noise of a few gradients
    into flat or steep regions that no later step leaves.

    f times a constant changes nothing. No step is longer than γ r. Where v = 0 nothing moves. A v that is not finite is
    counted and not remembered, and x goes half the way back to x̄, where gradients were finite.
    """

    gamma: Number = leaf(STEP_SIZE, default=1.0)  #: γ; 1 is the method
    steps: Number = leaf(ABOVE_ZERO, default=RunLength())  #: K, the length of the run
    first: Number = leaf(NEVER_ZERO, default=0.01)  #: ρ, the first length by 1 + ‖x⁰‖
    decay: Number = leaf(NON_NEGATIVE, default=0.4)  #: a: at τ = 1 steps are K^a times shorter
    share: Number = leaf(FRACTION, default=0.5)  #: β, the share of a step in the mean of recent ones; 1 for no momentum

    axes: ClassVar[Axes] = None  # of a mesh that x is cut along

    @override
    def init(self, x: Any) -> Journey:
        zeros = jax.tree.map(jnp.zeros_like, x)
        zero = length(zeros, self.axes).astype(jnp.result_type(float))  # inside jax.shard_map, of the type steps give
        squares = jax.tree.map(jnp.abs, zeros)
        r = self.first * (1 + length(x, self.axes)) + zero
        return Journey(x, x, squares, zeros, zero, zero, r, zero, zero + 1, zero, zero)

    @override
    def move(self, memory: Journey, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Journey]:
        size = length(v, self.axes)
        seen = memory._replace(k=memory.k + 1)
        halfway = jax.tree.map(lambda x, average: x + (average - x) / 2, x, memory.average)
        still = jax.tree.map(jnp.zeros_like, memory.motion)
        back = halfway, seen._replace(motion=still, skipped=memory.skipped + 1)
        moved = self._moved(memory, x, v, size)
        kept = _where(size > 0, moved, (x, seen))
        chosen: tuple[Any, Journey] = _where(jnp.isfinite(size), kept, back)
        return chosen

    def _moved(self, memory: Journey, x: Any, v: Any, size: Array) -> tuple[Any, Journey]:
        k = memory.k
        cut = WIDTH * (k + 1) ** WIDENING
        later = memory.size + (jnp.minimum(size, cut * memory.size) - memory.size) * RECENT / (k + RECENT)
        usual = jnp.where(memory.size == 0, size, later)
        by = jnp.minimum(size / jnp.where(usual == 0, 1.0, usual), cut)
        u = jax.tree.map(lambda v: v * by, unit(v, self.axes))

        way = length(jax.tree.map(jnp.subtract, memory.average, memory.start), self.axes)
        r = jnp.maximum(memory.r, jnp.minimum(way, self._farthest(memory)))
        squares = self._squares(memory.squares, u, r / memory.r)
        clock = self._clock(memory)
        scale = self.gamma * r * self._length() ** (-self.decay * clock) / jnp.sqrt(self._dimension(x))
        step = self._bounded(jax.tree.map(lambda u, E: scale * u / jnp.sqrt(jnp.where(E == 0, 1.0, E)), u, squares))

        motion = jax.tree.map(lambda m, step: m + self.share * (step - m), memory.motion, step)
        x = jax.tree.map(jnp.subtract, x, motion)
        off = jax.tree.map(jnp.subtract, x, memory.average)
        spread = jnp.hypot(memory.spread, length(step, self.axes))
        z = (length(off, self.axes) / jnp.where(spread == 0, 1.0, spread)) ** 2
        w = (AVERAGED + 1) / (k + AVERAGED + 2)
        average = jax.tree.map(lambda average, off: average + w * off, memory.average, off)
        return x, Journey(
            memory.start, average, squares, motion, k + 1, usual, r, (1 - w) * spread, z, clock, memory.skipped
        )

    def _farthest(self, memory: Journey) -> Array:
        """What r may be after this step: it has the whole run to grow."""
        return memory.r * (1 + GROWTH / jnp.sqrt(self._length() * (memory.k + 1)))

    def _bounded(self, step: Any) -> Any:
        """δ, for a problem that knows how long it may be."""
        return step

    def _squares(self, squares: Any, u: Any, ratio: Array) -> Any:
        """E after this step: what was added when r was `ratio` times smaller counts as little as its steps moved x."""
        return jax.tree.map(lambda E, u: E / ratio**4 + jnp.abs(u) ** 2, squares, u)

    def _clock(self, memory: Journey) -> Array:
        """τ after this step: it waits while steps agree (z > 1), and hurries while they undo each other (z < ½)."""
        k, z, K = memory.k, memory.z, self._length()
        hurry = jnp.clip(0.5 / jnp.maximum(z, 0.5 / FASTEST), 1.0, FASTEST)
        counts = jnp.where(z > 1, jnp.maximum(z, 1.0) ** -4, hurry)
        rate = jnp.maximum((1 - memory.clock) / jnp.maximum(K - k, 1.0), 1 / K)
        return memory.clock + counts * rate

    def _length(self) -> Array:
        return jnp.asarray(self.steps, jnp.result_type(float))

    def _dimension(self, x: Any) -> Array:
        """d, the number of coordinates of x."""
        here = jnp.asarray(float(sum(leaf.size for leaf in jax.tree.leaves(x))))
        return jax.lax.psum(here, self.axes) if self.axes else here


def _where(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda yes, no: jnp.where(condition, yes, no), yes, no)
