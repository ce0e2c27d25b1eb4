"""A function on which every zero-respecting method is slow: the zero-chain.

The chain F_T (Carmon et al. 2020; Arjevani et al. 2023) shows coordinate i a gradient only once coordinate i − 1 has
been moved, and its oracle shows the next coordinate only with probability p: from x⁰ = 0 a method that stays in the
span of what it has seen, as all of this library do, moves at most one coordinate further per success. Under bounded
variance σ² that makes Ω(ε⁻⁴).
"""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import POSITIVE, VECTOR

SMOOTHNESS = 152.0  # ℓ1: ∇F_T is ℓ1-Lipschitz
DEPTH = 12.0  # F_T(0) − inf F_T ≤ 12 T
LARGEST = 23.0  # ‖∇F_T‖_∞ ≤ 23
SEEN = 0.25  # a coordinate of F_T counts as moved beyond this


def chain_value(x: Array) -> Array:
    """F_T(x) = Σ_i [Ψ(−x_{i−1}) Φ(−x_i) − Ψ(x_{i−1}) Φ(x_i)] with x_0 = 1."""
    before = _before(x)
    return jnp.sum(_psi(-before) * _phi(-x) - _psi(before) * _phi(x))


def chain_grad(x: Array) -> Array:
    """∇F_T(x). Coordinate i feels its predecessor, which opens it, and its successor, which it opens."""
    before = _before(x)
    own = _psi(-before) * _phi_slope(-x) + _psi(before) * _phi_slope(x)
    opens = _psi_slope(-x[:-1]) * _phi(-x[1:]) + _psi_slope(x[:-1]) * _phi(x[1:])
    return -own - jnp.append(opens, 0.0)


def progress(x: Array, beyond: float = 0.0) -> Array:
    """prog_a(x) = max {i : |x_i| > a}, counted from 1; 0 if there is none."""
    return jnp.max(jnp.where(jnp.abs(x) > beyond, jnp.arange(1, x.shape[-1] + 1), 0), axis=-1)


def _before(x: Array) -> Array:
    return jnp.concatenate([jnp.ones(1), x[:-1]])


def _psi(t: Array) -> Array:
    """Ψ(t) = exp(1 − 1/(2t − 1)²) for t > ½, else 0."""
    inside = jnp.where(t > 0.5, 2 * t - 1, 1.0)
    return jnp.where(t > 0.5, jnp.exp(1 - inside**-2), 0.0)


def _psi_slope(t: Array) -> Array:
    """Ψ'(t) = 4 Ψ(t)/(2t − 1)³."""
    inside = jnp.where(t > 0.5, 2 * t - 1, 1.0)
    return jnp.where(t > 0.5, 4 * jnp.exp(1 - inside**-2) / inside**3, 0.0)


def _phi(t: Array) -> Array:
    """Φ(t) = √e ∫_{−∞}^t e^{−s²/2} ds."""
    return math.sqrt(math.pi * math.e / 2) * (1 + lax.erf(t / math.sqrt(2)))


def _phi_slope(t: Array) -> Array:
    """Φ'(t) = √e e^{−t²/2}."""
    return jnp.exp((1 - t * t) / 2)


@part
class ZeroChain:
    """f(x) = (L λ²/ℓ1) F_T(x/λ), λ = 2 ε ℓ1/L: the zero-chain, on which every zero-respecting method is slow.

    f is L-smooth, and ‖∇f‖ > 2ε until the last coordinate has been moved. A coordinate has a gradient only once the one
    before it has been moved, and the oracle shows it only with probability p.

    Carmon et al. 2020; Arjevani et al. 2023.
    """

    start: Data = leaf(VECTOR)  #: x⁰ = 0; its dimension is the length of the chain
    L: Number = leaf(POSITIVE)  #: smoothness constant, > 0
    eps: Number = leaf(POSITIVE)  #: ε > 0
    f_inf: ClassVar[None] = None

    @classmethod
    def of(cls, L: float, gap: float, eps: float) -> ZeroChain:
        """The longest chain with f(0) − inf f ≤ Δ = `gap`: T = ⌊L Δ/(4 · 12 · 152 ε²)⌋.

        >>> ZeroChain.of(L=1.0, gap=1.0, eps=5e-3).start.size
        5
        """
        length = math.floor(L * gap / (4 * DEPTH * SMOOTHNESS * eps**2))
        if length < 1:
            raise ValueError(
                f"ZeroChain: eps must be ≤ {math.sqrt(L * gap / (4 * DEPTH * SMOOTHNESS)):.4g}; got {eps=}."
            )
        return cls(np.zeros(length), L, eps)

    @property
    def scale(self) -> Array | float:
        """λ, how far a coordinate has to be moved."""
        return 2 * self.eps * SMOOTHNESS / self.L

    @property
    def constants(self) -> Constants:
        """f is L-smooth, and f(0) − inf f ≤ (L λ²/ℓ1) 12 T."""
        L, scale = float(self.L), float(self.scale)
        with jax.enable_x64(True):
            at_start = float(self.value(jnp.zeros(np.size(self.start))))
        depth = L * scale**2 / SMOOTHNESS * DEPTH * np.size(self.start)
        return Constants(L0=L, L1=0.0, alpha=0.0, f_inf=at_start - depth)

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.L * self.scale**2 / SMOOTHNESS * chain_value(x / self.scale)

    def grad(self, x: Array) -> Array:
        """∇f(x) = 2 ε ∇F_T(x/λ)."""
        return 2 * self.eps * chain_grad(x / self.scale)

    def hidden(self, x: Array) -> Array:
        """Which coordinates the oracle shows only with probability p: those beyond prog_¼(x/λ)."""
        return jnp.arange(1, x.size + 1) > progress(x / self.scale, SEEN)
