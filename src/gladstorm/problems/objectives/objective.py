"""What every objective has."""

from __future__ import annotations

from typing import Protocol

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array


class Objective(Protocol):
    """A function f to minimise: its value, its gradient, where runs start, and what is known about it.

    An objective of `gladstorm simulate --objective` also has a class method `from_seed`, whose arguments are those of
    the text. For one use, `from_function(f, start)` is enough.
    """

    @property
    def start(self) -> Array:
        """x⁰, where runs start."""

    @property
    def f_inf(self) -> float | None:
        """inf f, or None if it is not known."""

    @property
    def constants(self) -> Constants | None:
        """The smoothness constants, or None if none are known in closed form."""

    def value(self, x: Array) -> Array:
        """f(x)."""

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
