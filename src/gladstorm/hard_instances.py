"""Functions on which every zero-respecting method is slow: the zero-chain, and a chain at the end of a runway.

The chain F_T (Carmon et al. 2020; Arjevani et al. 2023) shows coordinate i a gradient only once coordinate i − 1 has
been moved, and its oracle shows the next coordinate only with probability p: from x⁰ = 0 a method that stays in the
span of what it has seen, as all of this library do, moves at most one coordinate further per success. Under bounded
variance σ² that makes Ω(ε⁻⁴). The chain lies at a distance of order √(Δ/L) from its start, whatever ε is, where BG-0
noise is no larger than G² + O(B²): a runway of a length of order Δ/ε in front of it, derived in this project, makes
Ω(ε⁻⁶).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from gladstorm.constants import Constants
from gladstorm.noise_laws import PROBABILITY, successes
from gladstorm.parts import Array, Number, leaf, part
from gladstorm.rules import POSITIVE, VECTOR

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


def progress(x: Array, beyond: Number = 0.0) -> Array:
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
    return math.sqrt(math.pi * math.e / 2) * (1 + erf(t / math.sqrt(2)))


def _phi_slope(t: Array) -> Array:
    """Φ'(t) = √e e^{−t²/2}."""
    return jnp.exp((1 - t * t) / 2)


@part
class ZeroChain:
    """f(x) = (L λ²/ℓ1) F_T(x/λ), λ = 2 ε ℓ1/L: L-smooth, and ‖∇f‖ > 2ε until the last coordinate has been moved."""

    start: Array = leaf(VECTOR)  # x⁰ = 0; its dimension is the chain's length
    L: Number = leaf(POSITIVE)
    eps: Number = leaf(POSITIVE)  # ε
    f_inf: ClassVar[None] = None

    @classmethod
    def of(cls, L: float, gap: float, eps: float) -> ZeroChain:
        """The longest chain with f(0) − inf f ≤ gap: T = ⌊L Δ/(4 · 12 · 152 ε²)⌋.

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
    def scale(self) -> Number:
        """λ: how far a coordinate has to be moved."""
        return 2 * self.eps * SMOOTHNESS / self.L

    @property
    def constants(self) -> Constants:
        """f is L-smooth, and f(0) − inf f ≤ (L λ²/ℓ1) 12 T."""
        L, scale = float(self.L), float(self.scale)
        with jax.enable_x64(True):
            at_start = float(self.value(np.zeros(np.size(self.start))))
        depth = L * scale**2 / SMOOTHNESS * DEPTH * np.size(self.start)
        return Constants(L0=L, L1=0.0, alpha=0.0, f_inf=at_start - depth)

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.L * self.scale**2 / SMOOTHNESS * chain_value(x / self.scale)

    def grad(self, x: Array) -> Array:
        """∇f(x) = 2 ε ∇F_T(x/λ)."""
        return 2 * self.eps * chain_grad(x / self.scale)

    def hidden(self, x: Array) -> Array:
        """Which coordinates the oracle shows with probability p only: those beyond prog_¼(x/λ)."""
        return jnp.arange(1, x.size + 1) > progress(x / self.scale, SEEN)


@part
class GatedRunway:
    """f(y, z) = h(y) + Θ(y) κ (F_T(z/λ) − 12 T): down a slope of 2ε for a length R = Δ/(8ε), then a zero-chain.

    The gate Θ opens between R/2 and R, so there is nothing to be noisy about closer to x⁰ than R/2. L-smooth for
    ε ≤ √(L Δ)/100; ‖∇f‖ ≥ 2ε before the end of the runway, and beyond until the chain's last coordinate has been moved.
    """

    start: Array = leaf(VECTOR)  # x⁰ = 0 in 1 + T dimensions
    L: Number = leaf(POSITIVE)
    gap: Number = leaf(POSITIVE)  # Δ
    eps: Number = leaf(POSITIVE)  # ε
    f_inf: ClassVar[None] = None
    constants: ClassVar[Constants | None] = None

    @classmethod
    def of(cls, L: float, gap: float, eps: float) -> GatedRunway:
        """The longest chain the gap pays for: 2 ε R + ε w + κ (24 T + 2.1) ≤ Δ.

        >>> GatedRunway.of(L=1.0, gap=1.0, eps=2e-3).start.size - 1
        6
        """
        runway, ramp, height = gap / (8 * eps), 8 * eps / L, 1216 * eps**2 / L
        length = math.floor(((gap - 2 * eps * runway - eps * ramp) / height - 2.1) / (2 * DEPTH))
        if length < 1 or eps > math.sqrt(L * gap) / 100:
            raise ValueError(f"GatedRunway: eps must be ≤ {math.sqrt(L * gap) / 250:.4g} for a chain; got {eps=}.")
        return cls(np.zeros(1 + length), L, gap, eps)

    @property
    def runway(self) -> Number:
        """R."""
        return self.gap / (8 * self.eps)

    @property
    def scale(self) -> Number:
        """λ = 608 ε/L."""
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
        """Coordinates of the chain beyond prog_¼(z/λ); the runway is always seen."""
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


class Visible(NamedTuple):
    """x, ∇f(x), and which of its coordinates are shown by chance."""

    x: Array
    grad: Array
    hidden: Array


@part
class ChainOracle:
    """[∇f(x; ζ)]_i = ∂_i f(x) (1 + 1{i hidden} (ζ/p − 1)), ζ ~ Bernoulli(p): unbiased, variance ≤ (46 ε)² (1 − p)/p.

    Of the hidden coordinates only the first has a gradient at all.
    """

    objective: Any  # a ZeroChain or GatedRunway
    p: Number = leaf(PROBABILITY)

    @classmethod
    def with_variance(cls, objective: Any, sigma2: float) -> ChainOracle:
        """The least p with variance ≤ σ². On the runway BG-0 noise with B²R²/4 + G² = σ²."""
        p = (2 * LARGEST * float(objective.eps)) ** 2 / sigma2
        if p >= 1:
            raise ValueError(f"ChainOracle: sigma2 must be > {p * sigma2:.4g}, or nothing is hidden; got {sigma2=}.")
        return cls(objective, p)

    def draw(self, key: Array) -> Array:
        """One uniform number."""
        return jax.random.uniform(key, (), jnp.result_type(float))

    def batch(self, noise: Array, size: Array) -> Array:
        """The share of successes among b samples."""
        b = jnp.asarray(size, noise.dtype)
        return successes(noise, b, self.p) / b

    def at(self, x: Array) -> Visible:
        """x, its gradient and what is hidden there."""
        return Visible(x, self.objective.grad(x), self.objective.hidden(x))

    def grad(self, point: Visible, sample: Array) -> Array:
        """See the class."""
        return point.grad * jnp.where(point.hidden, sample / self.p, 1.0)

    def exact(self, point: Visible) -> Array:
        """∇f(x)."""
        return point.grad
