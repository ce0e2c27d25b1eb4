"""Numbers that change from step to step: any number of an estimator or a step may be a schedule instead.

The engine replaces every schedule by its value before a part is used, so no part knows about them, and a method
without schedules runs the program it always ran.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import NON_NEGATIVE, POSITIVE


class Clock(NamedTuple):
    """What a schedule may depend on."""

    k: Array
    squares: Any  # Σ ‖∇f(x^i; ξ^i)‖² over the steps before; () where no schedule asks for it


class Schedule(ABC):
    """A number for every step."""

    @property
    def adaptive(self) -> bool:
        """Whether it reads `squares`."""
        return False

    @abstractmethod
    def at(self, clock: Clock) -> Array:
        """The number at this time; never larger than at an earlier one."""

    def first(self) -> Any:
        """The number at step 0: the one a rule is checked with."""
        return self.at(Clock(0, 0.0))


@part
class PowerDecay(Schedule):
    """c/(k + s)^a, which needs no horizon.

    >>> float(PowerDecay(initial=2.0, exponent=0.5).at(Clock(3, ())))
    1.0
    """

    initial: Number = leaf(POSITIVE)  # c
    exponent: Number = leaf(NON_NEGATIVE)  # a
    shift: Number = leaf(POSITIVE, default=1.0)  # s

    def at(self, clock: Clock) -> Array:
        """See the class."""
        return jnp.asarray(self.initial) * (clock.k + jnp.asarray(self.shift)) ** -jnp.asarray(self.exponent)


@part
class CubeRootDecay(Schedule):
    """c/(w + Σ_{i≤k} ‖∇f(x^i; ξ^i)‖²)^{1/3}: the step size of STORM, which adapts to the noise."""

    scale: Number = leaf(POSITIVE)  # c, the paper's k
    offset: Number = leaf(POSITIVE)  # w

    @property
    def adaptive(self) -> bool:
        """It does."""
        return True

    def at(self, clock: Clock) -> Array:
        """See the class."""
        return jnp.asarray(self.scale) / jnp.cbrt(jnp.asarray(self.offset) + clock.squares)


@part
class SquareOf(Schedule):
    """min(1, c γ²), γ another schedule: the η of STORM."""

    factor: Number = leaf(POSITIVE)  # c
    of: Schedule  # γ

    @property
    def adaptive(self) -> bool:
        """As γ."""
        return self.of.adaptive

    def at(self, clock: Clock) -> Array:
        """See the class."""
        return jnp.minimum(1.0, self.factor * self.of.at(clock) ** 2)


def registry() -> dict[str, type[Schedule]]:
    """Every schedule by its name in a composition."""
    return {"power_decay": PowerDecay, "cube_root_decay": CubeRootDecay, "square_of": SquareOf}


def resolved(parts: Any, clock: Clock) -> Any:
    """The parts with the value at this time in place of every schedule."""
    return jax.tree.map(lambda node: node.at(clock) if _is_schedule(node) else node, parts, is_leaf=_is_schedule)


def adaptive(parts: Any) -> bool:
    """Whether any schedule in the parts reads the squares of the stochastic gradients."""
    return any(_is_schedule(node) and node.adaptive for node in jax.tree.leaves(parts, is_leaf=_is_schedule))


def _is_schedule(node: Any) -> bool:
    return isinstance(node, Schedule)
