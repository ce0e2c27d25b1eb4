"""The zero-chain at the end of a runway: slow under noise that grows with the distance.

The chain alone lies at a distance of order √(Δ/L) from its start, whatever ε is, where BG-0 noise is no larger than
G² + O(B²). A runway of a length of order Δ/ε in front of it, derived in this project, makes Ω(ε⁻⁶).
"""

from __future__ import annotations

import math
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import POSITIVE, VECTOR
from gladstorm.problems.objectives.zero_chain import DEPTH, SEEN, chain_grad, chain_value, progress


@part
class GatedRunway:
    """f(y, z) = h(y) + Θ(y) κ (F_T(z/λ) − 12 T): down a slope of 2ε for a length R = Δ/(8ε), then a zero-chain.

    The gate Θ opens between R/2 and R, so the noise is 0 closer to x⁰ than R/2. f is L-smooth for ε ≤ √(L Δ)/100, and
    ‖∇f‖ ≥ 2ε on the runway and after it until the last coordinate of the chain has been moved.
    """

    start: Data = leaf(VECTOR)  #: x⁰ = 0 in 1 + T dimensions
    L: Number = leaf(POSITIVE)  #: smoothness constant, > 0
    gap: Number = leaf(POSITIVE)  #: Δ > 0, a bound on f(x⁰) − inf f
    eps: Number = leaf(POSITIVE)  #: ε > 0
    f_inf: ClassVar[None] = None
    constants: ClassVar[Constants | None] = None

    @classmethod
    def of(cls, L: float, gap: float, eps: float) -> GatedRunway:
        """The longest chain that the gap Δ allows: 2 ε R + ε w + κ (24 T + 2.1) ≤ Δ.

        >>> GatedRunway.of(L=1.0, gap=1.0, eps=2e-3).start.size - 1
        6
        """
        runway, ramp, height = gap / (8 * eps), 8 * eps / L, 1216 * eps**2 / L
        length = math.floor(((gap - 2 * eps * runway - eps * ramp) / height - 2.1) / (2 * DEPTH))
        if length < 1 or eps > math.sqrt(L * gap) / 100:
            raise ValueError(f"GatedRunway: eps must be ≤ {math.sqrt(L * gap) / 250:.4g} for a chain; got {eps=}.")
        return cls(np.zeros(1 + length), L, gap, eps)

    @property
    def runway(self) -> Array | float:
        """R, the length of the runway."""
        return self.gap / (8 * self.eps)

    @property
    def scale(self) -> Array | float:
        """λ = 608 ε/L, how far a coordinate of the chain has to be moved."""
        return 608 * self.eps / self.L

    def value(self, x: Array) -> Array:
        """f(y, z)."""
        chain = 2 * self.eps * self.scale * (chain_value(x[1:] / self.scale) - DEPTH * (x.size - 1))
        ramp = 8 * self.eps / self.L
        t = jnp.clip((x[0] - self.runway) / ramp, 0, 1)
        way = jnp.minimum(x[0], self.runway) + ramp * (t - t * t / 2)
        return -2 * self.eps * way + self._gate(x[0]) * chain

    def grad(self, x: Array) -> Array:
        """(h'(y) + Θ'(y) κ (F_T − 12 T), 2 ε Θ(y) ∇F_T(z/λ)), κ = 2 ε λ."""
        y, z = x[0], x[1:] / self.scale
        ramp = 8 * self.eps / self.L
        slope = -2 * self.eps * (1 - jnp.clip((y - self.runway) / ramp, 0, 1))
        chain = 2 * self.eps * self.scale * (chain_value(z) - DEPTH * z.size)
        along = slope + self._gate_slope(y) * chain
        return jnp.concatenate([along[None], 2 * self.eps * self._gate(y) * chain_grad(z)])

    def hidden(self, x: Array) -> Array:
        """Which coordinates the oracle shows only with probability p: those of the chain beyond prog_¼(z/λ)."""
        beyond = jnp.arange(1, x.size) > progress(x[1:] / self.scale, SEEN)
        return jnp.concatenate([jnp.zeros(1, bool), beyond])

    def _opened(self, y: Array) -> Array:
        return jnp.clip((y - self.runway / 2) / (self.runway / 2), 0, 1)

    def _gate(self, y: Array) -> Array:
        """Θ = t³ (10 − 15 t + 6 t²), t from 0 at R/2 to 1 at R."""
        t = self._opened(y)
        return t**3 * (10 - 15 * t + 6 * t * t)

    def _gate_slope(self, y: Array) -> Array:
        t = self._opened(y)
        return 30 * t * t * (1 - t) ** 2 / (self.runway / 2)
