"""The zero-chain F_T and the gate in front of it: what problems that are slow for every method are made of.

The chain (Carmon et al. 2020; Arjevani et al. 2023) shows coordinate i a gradient only once coordinate i − 1 has been
moved.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import jax.numpy as jnp
from jax import lax

from gladstorm.core.parts import Array, Data, Number

SMOOTHNESS = 152.0  # ℓ1: ∇F_T is ℓ1-Lipschitz
DEPTH = 12.0  # F_T(0) − inf F_T ≤ 12 T
LARGEST = 23.0  # ‖∇F_T‖_∞ ≤ 23


def chain_value(x: Array) -> Array:
    """F_T(x) = Σ_i [Ψ(−x_{i−1}) Φ(−x_i) − Ψ(x_{i−1}) Φ(x_i)] with x_0 = 1."""
    return jnp.sum(link(_before(x), x))


def link(s: Array, t: Array) -> Array:
    """H(s, t) = Ψ(−s) Φ(−t) − Ψ(s) Φ(t): a link of the chain, closed while |s| ≤ ½."""
    return _psi(-s) * _phi(-t) - _psi(s) * _phi(t)


def chain_grad(x: Array) -> Array:
    """Gradient ∇F_T(x). Coordinate i feels its predecessor, which opens it, and its successor, which it opens."""
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


class GatedChain(ABC):
    """f(y, z) = h(y) + Θ(y) κ (F_T(ω) − 12 T), ω = z/λ, κ = k ε λ: down a runway of slope 2ε to the gate of a chain.

    The gate Θ opens between R/2 and R = Δ/(8ε). The runway levels off behind R, over the length `ramp`.
    """

    start: Data
    gap: Number
    eps: Number
    steepness: ClassVar[int] = 2  # k
    f_inf: ClassVar[None] = None

    @property
    def runway(self) -> Array | float:
        """R, the length of the runway."""
        return self.gap / (8 * self.eps)

    @property
    @abstractmethod
    def scale(self) -> Array | float:
        """λ, how far a coordinate of the chain has to be moved."""

    @property
    def ramp(self) -> Array | float:
        """The length over which the runway levels off: as slowly as it is long."""
        return self.runway

    def coordinates(self, x: Array) -> Array:
        """ω, the coordinates of the chain at x."""
        return x[1:] / self.scale

    def value(self, x: Array) -> Array:
        """Value f(y, z)."""
        omega = self.coordinates(x)
        t = jnp.clip((x[0] - self.runway) / self.ramp, 0, 1)
        way = jnp.minimum(x[0], self.runway) + self.ramp * (t - t * t / 2)
        return -2 * self.eps * way + self.gated_value(x, chain_value(omega) - DEPTH * omega.size)

    def grad(self, x: Array) -> Array:
        """(h'(y) + Θ'(y) κ (F_T − 12 T), k ε Θ(y) ∇F_T(z/λ))."""
        omega = self.coordinates(x)
        return self._grad_with(x, chain_value(omega) - DEPTH * omega.size, chain_grad(omega))

    def gated_value(self, x: Array, value: Array) -> Array:
        """Θ(y) κ c(ω), given c(ω)."""
        return self._gate(x[0])[0] * (self.steepness * self.eps * self.scale * value)

    def gated_grad(self, x: Array, value: Array, grad: Array) -> Array:
        """The gradient of Θ(y) κ c(ω) in (y, z), given c(ω) and ∇c(ω)."""
        gate, slope = self._gate(x[0])
        along = slope * (self.steepness * self.eps * self.scale * value)
        return jnp.concatenate([along[None], self.steepness * self.eps * gate * self._pull(x, grad)])

    def _grad_with(self, x: Array, value: Array, grad: Array) -> Array:
        """∇f with another chain, given its value and gradient in ω."""
        slope = -2 * self.eps * (1 - jnp.clip((x[0] - self.runway) / self.ramp, 0, 1))
        return self.gated_grad(x, value, grad).at[0].add(slope)

    def _pull(self, _x: Array, grad: Array) -> Array:
        """λ times the gradient in z of a function of ω, given its gradient in ω."""
        return grad

    def _gate(self, y: Array) -> tuple[Array, Array]:
        """Θ = t³ (10 − 15 t + 6 t²), t from 0 at R/2 to 1 at R, and its slope."""
        half = self.runway / 2
        t = jnp.clip((y - half) / half, 0, 1)
        return t**3 * (10 - 15 * t + 6 * t * t), 30 * t * t * (1 - t) ** 2 / half
