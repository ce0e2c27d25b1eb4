"""Sums of squares in two dimensions, which confidence sequences are made of."""

from __future__ import annotations

from typing import NamedTuple


class Sum2(NamedTuple):
    """A symmetric matrix [[a, b], [b, c]]. Where floats do not hold it, it is infinite, and nothing is raised."""

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0

    def plus(self, other: Sum2) -> Sum2:
        """The sum of both."""
        return Sum2(self.a + other.a, self.b + other.b, self.c + other.c)

    def times(self, scale: float) -> Sum2:
        """Every entry multiplied."""
        return Sum2(scale * self.a, scale * self.b, scale * self.c)

    @property
    def det(self) -> float:
        """The determinant."""
        return self.a * self.c - self.b * self.b


def outer(x: float, y: float) -> Sum2:
    """(x, y)(x, y)ᵀ."""
    return Sum2(x * x, x * y, y * y)
