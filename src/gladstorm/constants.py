"""Smoothness constants an objective declares and a theorem asks for. Plain Python: no JAX."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """f ∈ L*_sym(α): ‖∇f(y) − ∇f(x)‖ ≤ (L0 + L1 max_θ ‖∇f(x_θ)‖^α) ‖y − x‖ on the segment, and inf f.

    α = 0 is L0-smoothness (L1 = 0).
    """

    L0: float
    L1: float
    alpha: float  # α
    f_inf: float  # inf f
