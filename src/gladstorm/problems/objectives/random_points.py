"""Where problems on a stream start, and where their solution is."""

from __future__ import annotations

import numpy as np


def start_and_unit(seed: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """x⁰ ~ N(0, I), and a vector uniform on the unit sphere."""
    direction, start = np.random.default_rng(seed).normal(0, 1, (2, dim))
    return start, direction / np.linalg.norm(direction)
