"""A step with nothing to tune: it finds its length from how far the run has come, and when to shorten it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import ABOVE_ZERO, FRACTION, NEVER_ZERO, NON_NEGATIVE, STEP_SIZE
from gladstorm.methods.norms import Axes, length, unit
from gladstorm.methods.schedules import RunLength
from gladstorm.methods.steps.step import Step


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


def _where(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda yes, no: jnp.where(condition, yes, no), yes, no)
