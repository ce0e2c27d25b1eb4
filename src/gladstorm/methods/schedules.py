"""Schedules: numbers that change from step to step. A schedule may replace any number of an estimator, step or average.

The simulator replaces every schedule by its value before a part is used, so parts do not know about them. The numbers
of a schedule may be schedules themselves: `LinearDecay(PowerDecay(0.1, 0.5))` is the product of both.
"""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.parts import Array, Number, Numbers, leaf, part
from gladstorm.core.rules import ABOVE_ZERO, NEVER_ZERO, NON_NEGATIVE, STEP_SIZE


class Clock(NamedTuple):
    """Time as a schedule sees it: the step k, the gradients so far, and the length of the run."""

    k: Array | float
    squares: Any  # Σ ‖∇f(x^i; ξ^i)‖² over the steps before; () where no schedule asks for it
    horizon: Array | float  # K, the number of steps of the run


_FIRST = Clock(0.0, 0.0, 0.0)
_LAST = Clock(2.0**32, np.finfo(np.float64).max, 2.0**32)  # no run has as many steps


class Schedule(ABC):
    """A number for every step."""

    adaptive: ClassVar[bool] = False  # whether it reads `squares`

    @abstractmethod
    def at(self, clock: Clock) -> Array:
        """The value at this time. Schedules among this one's own numbers have already been replaced by their values."""

    def reach(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest value that the schedule can have, for checking it against a rule.

        This is right if `at` is monotone in time and in each of the schedule's numbers; other schedules override it.
        """
        given, structure = jax.tree.flatten(
            self, is_leaf=lambda node: node is not self and isinstance(node, Schedule | list | tuple)
        )
        ends = [number.reach() if _is_schedule(number) else (np.asarray(number, np.float64),) for number in given]
        try:
            corners = [np.broadcast_arrays(np.zeros(1), *numbers) for numbers in itertools.product(*ends)]
        except ValueError:
            owner, shapes = type(self).__name__, [np.shape(number) for number in given]
            raise ValueError(f"{owner}: lists must have one length; got numbers of shapes {shapes}.") from None

        def value(clock: Clock, _zero: Any, *numbers: Any) -> Array:
            schedule: Schedule = jax.tree.unflatten(structure, numbers)
            return schedule.at(clock)

        with jax.enable_x64(True):
            times = [partial(value, clock) for clock in (_FIRST, _LAST)]
            values = [jax.vmap(at_time)(*numbers) for numbers in corners for at_time in times]
        return np.min(values, axis=0), np.max(values, axis=0)


Tunable = Numbers | Schedule  # what a method takes for a number of an estimator or a step


@part
class RunLength(Schedule):
    """K, the number of steps of the run, at least 1; the same at every step."""

    @override
    def at(self, clock: Clock) -> Array:
        return jnp.maximum(jnp.asarray(clock.horizon, float), 1.0)


@part
class LinearDecay(Schedule):
    """c (1 − k/T)^p, and 0 after step T. p = 1 is a linear decay, p = 0 none.

    >>> float(LinearDecay(initial=2.0, horizon=4).at(Clock(3, (), 4)))
    0.5
    """

    initial: Number = leaf(STEP_SIZE)  #: c, the first value
    horizon: Number = leaf(ABOVE_ZERO, default=RunLength())  #: T > 0, in steps; the length of the run if not given
    power: Number = leaf(NON_NEGATIVE, default=1.0)  #: p ≥ 0

    @override
    def at(self, clock: Clock) -> Array:
        return jnp.asarray(self.initial) * _left(clock, self.horizon) ** jnp.asarray(self.power)


@part
class CosineDecay(Schedule):
    """c (1 + cos(πk/T))/2, and 0 after step T."""

    initial: Number = leaf(STEP_SIZE)  #: c, the first value
    horizon: Number = leaf(ABOVE_ZERO, default=RunLength())  #: T > 0, in steps; the length of the run if not given

    @override
    def at(self, clock: Clock) -> Array:
        # sin²(π/2 (1 − k/T)), which unlike 1 + cos is 0 and no rounding error at the end.
        return jnp.asarray(self.initial) * jnp.sin(jnp.pi / 2 * _left(clock, self.horizon)) ** 2


@part
class PowerDecay(Schedule):
    """c/(k + s)^a: it does not depend on the length of the run.

    >>> float(PowerDecay(initial=2.0, exponent=0.5).at(Clock(3, (), 4)))
    1.0
    """

    initial: Number = leaf(STEP_SIZE)  #: c
    exponent: Number = leaf(NON_NEGATIVE)  #: a ≥ 0
    shift: Number = leaf(NEVER_ZERO, default=1.0)  #: s > 0

    @override
    def at(self, clock: Clock) -> Array:
        return jnp.asarray(self.initial) * (clock.k + jnp.asarray(self.shift)) ** -jnp.asarray(self.exponent)


@part
class GeometricGrowth(Schedule):
    """c ϱ^(k/T), and c ϱ after step T: steps that pass every length between two, for a γ that is not known (S10).

    >>> float(GeometricGrowth(initial=2.0, ratio=16.0, horizon=4).at(Clock(3, (), 4)))
    16.0
    """

    initial: Number = leaf(STEP_SIZE)  #: c, the first value
    ratio: Number = leaf(NEVER_ZERO)  #: ϱ > 0; below 1 it is a decay
    horizon: Number = leaf(ABOVE_ZERO, default=RunLength())  #: T > 0, in steps; the length of the run if not given

    @override
    def at(self, clock: Clock) -> Array:
        return jnp.asarray(self.initial) * jnp.asarray(self.ratio) ** _gone(clock, self.horizon)


@part
class CubeRootDecay(Schedule):
    """c/(w + Σ_{i≤k} ‖∇f(x^i; ξ^i)‖²)^{1/3}: STORM's step size, which adapts to the noise."""

    scale: Number = leaf(STEP_SIZE)  #: c
    offset: Number = leaf(NEVER_ZERO)  #: w > 0
    adaptive: ClassVar[bool] = True

    @override
    def at(self, clock: Clock) -> Array:
        return jnp.asarray(self.scale) / jnp.cbrt(jnp.asarray(self.offset) + clock.squares)


@part
class SquareOf(Schedule):
    """min(1, c γ²) for another schedule γ: STORM's η."""

    factor: Number = leaf(NEVER_ZERO)  #: c > 0
    of: Number = leaf(STEP_SIZE)  #: γ, a number or a schedule

    @override
    def at(self, clock: Clock) -> Array:
        return jnp.minimum(1.0, self.factor * jnp.asarray(self.of) ** 2)


def registry() -> dict[str, type[Schedule]]:
    """The classes of all schedules, by their names in a method's text."""
    return {
        "linear": LinearDecay,
        "cosine": CosineDecay,
        "power_decay": PowerDecay,
        "geometric_growth": GeometricGrowth,
        "cube_root_decay": CubeRootDecay,
        "square_of": SquareOf,
        "run_length": RunLength,
    }


def resolved(parts: Any, clock: Clock) -> Any:
    """The parts, with every schedule replaced by its value at this time."""

    def value(node: Any) -> Any:
        if not _is_schedule(node):
            return node
        inner = jax.tree.map(value, node, is_leaf=lambda inside: inside is not node and _is_schedule(inside))
        return inner.at(clock)

    return jax.tree.map(value, parts, is_leaf=_is_schedule)


def adaptive(parts: Any) -> bool:
    """Whether any schedule in the parts, or in other schedules, reads the squares of the stochastic gradients."""
    for schedule in filter(_is_schedule, jax.tree.leaves(parts, is_leaf=_is_schedule)):
        inside = [getattr(schedule, field.name) for field in dataclasses.fields(schedule)]
        if schedule.adaptive or adaptive(inside):
            return True
    return False


def _gone(clock: Clock, horizon: Array | float) -> Array:
    """The share of the horizon that has passed."""
    return jnp.minimum(clock.k / jnp.asarray(horizon), 1.0)


def _left(clock: Clock, horizon: Array | float) -> Array:
    """The share of the horizon that is left."""
    return 1 - _gone(clock, horizon)


def _is_schedule(node: Any) -> bool:
    return isinstance(node, Schedule)
