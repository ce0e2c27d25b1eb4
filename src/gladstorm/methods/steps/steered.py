"""A step that finds its own length: from the distance travelled, steered by whether gradients agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import NEVER_ZERO, NON_NEGATIVE, STEP_SIZE, UNIT_INTERVAL
from gladstorm.methods.norms import Axes, inner, length, unit
from gladstorm.methods.steps.step import Step

CALM = 10.0  # what Σ cos² begins with: as if ten steps had been judged, so that the first few do not decide
DOUBLED = 2.0  # the growth of r at which the reversals so far are forgotten: they were of another place


class Course(NamedTuple):
    """Where the run began and what it has learnt."""

    start: Any  # x⁰
    k: Array  # steps taken
    r: Array  # the largest distance from x⁰
    mark: Array  # r when the reversals were last forgotten
    n: Array  # reversals since, each counted twice
    certainty: Array  # Σ cos²
    log_length: Array  # log ℓ
    size: Array  # s, the running mean of ‖v‖
    m: Any  # the running mean of u


@part
class Steered(Step):
    """x^{k+1} = x^k − γ ℓ u, where u is v^k by its usual size and ℓ a length between r/(n + 1) and r/√(n + 1).

    r = max_{j≤k} ‖x^j − x⁰‖, at least ρ(1 + ‖x⁰‖)
    c = cos(v^k, m);  n ← n + 2 if c < 0, and n ← 0 when r has doubled;  S ← S + c²
    log ℓ ← log ℓ + κ c/√S, and no more than log r − ½ log(n + 1), no less than log r − log(n + 1)
    s ← s + (‖v^k‖ − s)/√(k + 1);  u = v^k/max{ws, ‖v^k‖/(n + 1)^q};  m ← m + (u − m)/√(k + 1)

    Only steps that turn back shorten ℓ's limits, as in Kesten (1958), so that a long way is walked in long steps. The
    cut at (n + 1)^q times the usual size widens: a fixed one would move the stationary point where noise is skewed.
    No step is longer than γ r (n + 1)^{q−½}. f times a constant changes nothing; x times a constant does, by ρ. Where
    v = 0 nothing moves, and a v that is not finite neither moves x nor is remembered.
    """

    gamma: Number = leaf(STEP_SIZE, default=1.0)  # γ
    first: Number = leaf(NEVER_ZERO, default=0.1)  # ρ
    width: Number = leaf(NEVER_ZERO, default=1.5)  # w
    widening: Number = leaf(UNIT_INTERVAL, default=0.25)  # q
    gain: Number = leaf(NON_NEGATIVE, default=1.0)  # κ
    least: Number = leaf(NON_NEGATIVE, default=1.0)  # the exponent of the lower limit
    most: Number = leaf(NON_NEGATIVE, default=0.5)  # and of the upper one
    agreeing: Number = leaf(UNIT_INTERVAL, default=0.0)  # what c ≥ 0 adds to n; c < 0 adds the rest of 2

    axes: ClassVar[Axes] = None  # of a mesh that x is cut along

    @override
    def init(self, x: Any) -> Course:
        """r = ℓ = ρ(1 + ‖x⁰‖), nothing learnt."""
        m = jax.tree.map(jnp.zeros_like, x)
        zero = length(m, self.axes).astype(jnp.result_type(float))  # inside jax.shard_map, of the type that steps give
        r = self.first * (1 + length(x, self.axes)) + zero
        return Course(x, zero, r, r, zero, zero + CALM, jnp.log(r), zero, m)

    @override
    def move(self, memory: Course, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Course]:
        usable = self.is_usable(v)
        moved = self._moved(memory, x, v, length(v, self.axes))
        chosen: tuple[Any, Course] = jax.tree.map(lambda new, old: jnp.where(usable, new, old), moved, (x, memory))
        return chosen

    def is_usable(self, v: Any) -> Array:
        """Whether x moves along this v, which it does where ‖v‖ is finite."""
        return jnp.isfinite(length(v, self.axes))

    def _moved(self, memory: Course, x: Any, v: Any, size: Array) -> tuple[Any, Course]:
        share = 1 / jnp.sqrt(memory.k + 1)  # of this step in running means
        r = jnp.maximum(memory.r, length(jax.tree.map(jnp.subtract, x, memory.start), self.axes))
        doubled = r > DOUBLED * memory.mark

        cos = inner(unit(v, self.axes), unit(memory.m, self.axes), self.axes)
        turn = jnp.where(cos < 0, 2 - self.agreeing, jnp.where(memory.k > 0, self.agreeing, 0.0))
        n = jnp.where(doubled, 0.0, memory.n + turn)
        certainty = memory.certainty + cos**2
        steered = memory.log_length + self.gain * cos / jnp.sqrt(certainty)
        doubt = jnp.log(n + 1)
        log_length = jnp.clip(steered, jnp.log(r) - self.least * doubt, jnp.log(r) - self.most * doubt)

        usual = memory.size + share * (size - memory.size)
        by = jnp.maximum(self.width * usual, size * jnp.exp(-self.widening * doubt))
        u = jax.tree.map(lambda v: v / jnp.where(by == 0, 1.0, by), v)
        m = jax.tree.map(lambda m, u: m + share * (u - m), memory.m, u)
        scale = self.gamma * jnp.exp(log_length)
        course = Course(
            memory.start,
            memory.k + 1,
            r,
            jnp.where(doubled, r, memory.mark),
            n,
            certainty,
            log_length,
            usual,
            m,
        )
        return jax.tree.map(lambda x, u: x - scale * u, x, u), course
