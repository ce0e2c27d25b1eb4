"""BG-0 around another point than x⁰, brought to x⁰, where the theorems want it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from gladstorm.core.constants import Bg0

if TYPE_CHECKING:
    import jax
    import numpy as np


def around_start(noise: Bg0, start: jax.Array | np.ndarray) -> Bg0:
    """Constants for BG-0 around x⁰, where the theorems need it, from those around another point a.

    By ‖x − a‖² ≤ 2‖x − x⁰‖² + 2‖x⁰ − a‖², B² doubles and G² grows by 2B²‖x⁰ − a‖². The new constants are valid but
    pessimistic: they allow noise to grow even on the way from x⁰ to a, where it falls.

    >>> import numpy as np
    >>> moved = around_start(Bg0(B=1.0, G=1.0, anchor=np.zeros(2), where="x*"), np.array([3.0, 4.0]))
    >>> f"{moved.B:.3f} {moved.G:.3f} {moved.where}"
    '1.414 7.141 x⁰'
    """
    distance = _distance(noise, start)
    if distance == 0:
        return replace(noise, where="x⁰")
    G = math.hypot(noise.G, math.sqrt(2) * noise.B * distance)
    return replace(noise, B=math.sqrt(2) * noise.B, G=G, anchor=start, where="x⁰")


def cost_of_moving(noise: Bg0, start: jax.Array | np.ndarray) -> str:
    """A sentence that says how much larger `around_start` makes B and G.

    >>> import numpy as np
    >>> cost_of_moving(Bg0(B=1.0, G=1.0, anchor=np.zeros(2), where="x*"), np.array([3.0, 4.0]))
    'The noise is smallest at x*, 5 from x⁰: around x⁰ B is 1.414 instead of 1 and G is 7.141 instead of 1.'
    """
    distance, moved = _distance(noise, start), around_start(noise, start)
    if distance == 0:
        return "The noise is smallest at x⁰: nothing is lost."
    return (
        f"The noise is smallest at {noise.where}, {distance:.4g} from x⁰: around x⁰ B is {moved.B:.4g} instead of "
        f"{noise.B:.4g} and G is {moved.G:.4g} instead of {noise.G:.4g}."
    )


def _distance(noise: Bg0, start: jax.Array | np.ndarray) -> float:
    return math.dist(noise.anchor.tolist(), start.tolist())
