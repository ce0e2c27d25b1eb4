"""A method with two numbers to choose: its step size and one more, each from a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gladstorm.methods import Method


@dataclass(frozen=True)
class Tuned:
    """What is tried of a method. All methods of a study have grids of one size, and seeds for tuning of their own."""

    made: Callable[[Any, Any], Method]  # from arrays of γ and of the second number
    gammas: tuple[float, ...]
    seconds: tuple[float, ...]
    steps: int

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Every γ with every second number, γ by γ.

        >>> [each.tolist() for each in Tuned(print, (1.0, 2.0), (3.0, 4.0), 10).grid()]
        [[1.0, 1.0, 2.0, 2.0], [3.0, 4.0, 3.0, 4.0]]
        """
        gamma, second = np.meshgrid(self.gammas, self.seconds, indexing="ij")
        return gamma.ravel(), second.ravel()
