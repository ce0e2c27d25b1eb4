"""Constants that an objective declares of its smoothness and an oracle of its noise, for theorems. No JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax
    import numpy as np


@dataclass(frozen=True)
class Constants:
    """The smoothness constants of f, and inf f.

    f is in the class L*_sym(α): ‖∇f(y) − ∇f(x)‖ ≤ (L0 + L1 max ‖∇f‖^α) ‖y − x‖ for all x and y, with the maximum over
    the segment from x to y. With α = 0 and L1 = 0, f is L0-smooth.
    """

    L0: float  #: L0 ≥ 0, the largest curvature where the gradient is 0
    L1: float  #: L1 ≥ 0, how fast curvature grows with ‖∇f‖^α
    alpha: float  #: α in [0, 1]
    f_inf: float  #: inf f


@dataclass(frozen=True, eq=False)
class Bg0:
    """BG-0 noise around an anchor a, the point where it is smallest: E‖∇f(x; ξ) − ∇f(x)‖² ≤ B²‖x − a‖² + G².

    Noise that is added to f has its anchor at x⁰. A problem's own noise rarely has: that of least squares is smallest
    at the solution.
    """

    B: float  #: growth of the noise
    G: float  #: standard deviation of the noise at the anchor
    anchor: np.ndarray | jax.Array  #: a, where the noise is smallest
    where: str = "x⁰"  #: the anchor's name
    affine: bool = True  #: whether the noise of ∇f(y; ξ) − ∇f(x; ξ) is at most B‖y − x‖ in mean square
