"""The problem on which no method is faster than ε^−(4+α): a runway, a gate and a chain, with noise of its own.

It is in the class E L*_sym(α), under BG-0 noise or noise of a smaller growth. docs/optimal.md explains it, and
docs/proofs.md leads to the proof.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0, Constants
from gladstorm.core.hardness import Hardness
from gladstorm.core.parts import Array, Data, Number, check, leaf, part
from gladstorm.core.rules import FRACTION, NON_NEGATIVE, POSITIVE, VECTOR, Rule
from gladstorm.problems.hard.zero_chain import DEPTH, GatedChain, chain_grad, chain_value, link, progress
from gladstorm.problems.oracle import OwnNoise
from gladstorm.problems.sampling import mean_of_signs, successes

QUIET = 0.1  # a: coordinates below it do not show
UP_TO_TWO = Rule("from 0 to 2", lambda a: (a >= 0) & (a <= 2))  # mean-square smooth samples do not grow faster


def link_noise(omega: Array) -> Array:
    """n_i(ω) = [H(ω_{i−1}, ω_i) − H(ω_{i−1}, 0)] (1 − S_i)₊², i = `noisy_link(ω)`, the only one that is not 0.

    S_i = Σ_{k≥i} (25/4) (|ω_k| − 0.1)₊², so a coordinate of the chain from i on that is not small switches it off.
    """
    i = noisy_link(omega)
    before, own = jnp.where(i > 0, omega[i - 1], 1.0), omega[jnp.minimum(i, omega.size - 1)]
    far = jnp.where(jnp.arange(omega.size) >= i, jnp.maximum(jnp.abs(omega) - QUIET, 0.0), 0.0)
    left = jnp.maximum(1 - 6.25 * jnp.sum(far**2), 0.0)
    return jnp.where(i < omega.size, (link(before, own) - link(before, jnp.zeros_like(own))) * left**2, 0.0)


def noisy_link(omega: Array) -> Array:
    """The number of the link that samples show or hide at ω, from 0: prog_½(ω); T where all links are open."""
    return progress(omega, 0.5)


@part
class NoisyRunway(GatedChain):
    """f(y, z) = h(y) + Θ(y) κ (F_T(z/λ) − 12 T), with noise that hides the next link of the chain F_T.

    f(x; ξ) = f(x) + Σ_i (ζ_i/p − 1) Θ(y) κ n_i(z/λ) + ρ φ(x): the coin ζ_i shows link i with probability p, and ρ = ±1
    is the sign of the carrier φ, about (B/(2√2)) ‖x − x⁰‖². The carrier tells nothing, but it makes sample gradients
    large, so that the class E L*_sym(α) admits a chain that is denser by (BΔ/ε)^α.

    A method that respects zeros needs T/(2p) stochastic gradients, of the order L1 B^(1+α) Δ^(2+α) ε^−(4+α); under
    noise of growth a of the order ε^−(3 + a/2 + αa/2).
    """

    start: Data = leaf(VECTOR)  #: x⁰ = 0 in 1 + T dimensions
    eps: Number = leaf(POSITIVE)  #: ε > 0
    alpha: Number = leaf(FRACTION)  #: α in (0, 1]
    L0: Number = leaf(POSITIVE)  #: L0 > 0 of the class E L*_sym(α)
    L1: Number = leaf(NON_NEGATIVE)  #: L1 ≥ 0 of the class
    B: Number = leaf(POSITIVE)  #: growth of the noise, > 0
    gap: Number = leaf(POSITIVE)  #: Δ > 0, a bound on f(x⁰) − inf f
    growth: float = dataclasses.field(default=2.0, kw_only=True, metadata={"rule": UP_TO_TWO, "static": True})  #: a
    own_oracle: ClassVar[str] = "noisy-runway"
    rotated: ClassVar[bool] = False
    smoothness: ClassVar[float] = 323.0  # of f, in units of ε/λ

    @classmethod
    def from_eps(
        cls, eps: float, alpha: float, L0: float, L1: float, B: float, gap: float, *, growth: float = 2.0
    ) -> NoisyRunway:
        """The problem for ε.

        Raises:
            ValueError: If a condition of the theorem fails: it says which one, and the largest ε that would do.

        >>> NoisyRunway.from_eps(eps=0.005, alpha=1.0, L0=1.0, L1=120.0, B=0.25, gap=1.0).start.size - 1
        4
        """
        empty = cls(np.zeros(1), eps, alpha, L0, L1, B, gap, growth=growth)
        return dataclasses.replace(empty, start=np.zeros(1 + empty.length()))

    @classmethod
    def from_seed(
        cls,
        seed: int,  # noqa: ARG003 - nothing is drawn
        eps: float = 0.005,
        alpha: float = 1.0,
        L0: float = 1.0,
        L1: float = 120.0,
        B: float = 0.25,
        gap: float = 1.0,
        growth: float = 2.0,
    ) -> NoisyRunway:
        """The problem for ε, whatever the seed."""
        return cls.from_eps(eps, alpha, L0, L1, B, gap, growth=growth)

    def length(self) -> int:
        """T, if the numbers are as the theorem asks."""
        check(self)
        self.numbers.require(type(self).__name__)
        return self.numbers.length

    @property
    def numbers(self) -> Hardness:
        """R, λ, p and T, and the conditions of the theorem."""
        given = {name: getattr(self, name) for name in ("eps", "alpha", "L0", "L1", "B", "gap", "growth")}
        return Hardness(**given, rotated=self.rotated)

    @property
    def links(self) -> int:
        """T, the number of links."""
        return int(self.start.size - 1)

    @property
    def flaw(self) -> str | None:
        """A sentence if x⁰ is not 0."""
        return f"{type(self).__name__}: start must be 0, where the runway begins." if np.any(self.start) else None

    @property
    def scale(self) -> Array | float:
        """λ = 5BR/L̄, how far a coordinate of the chain has to be moved."""
        scale: Array | float = self.numbers.scale
        return scale

    @property
    def constants(self) -> Constants:
        """Constants of f itself: it is smooth with a constant that vanishes with ε, and f ≥ −Δ."""
        L = self.smoothness * float(self.eps) / float(self.scale)
        return Constants(L0=L, L1=0.0, alpha=0.0, f_inf=-float(self.gap))

    @property
    def expected_constants(self) -> Constants:
        """Constants of samples in the class E L*_sym(α)."""
        return Constants(L0=float(self.L0), L1=float(self.L1), alpha=float(self.alpha), f_inf=-float(self.gap))

    def link_noise(self, x: Array) -> tuple[Array, Array]:
        """M_i(x) = Θ(y) κ n_i(ω) and its gradient, for the only link i at which it is not 0."""
        value, grad = jax.value_and_grad(link_noise)(self.coordinates(x))
        return self.gated_value(x, value), self.gated_grad(x, value, grad)

    def grad_without_link(self, x: Array) -> Array:
        """∇f(x) − ∇M_i(x), what a sample with ζ_i = 0 shows; exactly 0 along the coordinates that it hides.

        A difference would leave a rounding error there, and tell a method of a coordinate that it cannot know.
        """
        omega = self.coordinates(x)
        value, grad = jax.value_and_grad(link_noise)(omega)
        behind = jnp.arange(omega.size) >= noisy_link(omega)
        hidden = behind & jnp.all(~behind | (jnp.abs(omega) <= QUIET))
        left = jnp.where(hidden, 0.0, chain_grad(omega) - grad)
        return self._grad_with(x, chain_value(omega) - DEPTH * omega.size - value, left)

    def carrier(self, x: Array) -> tuple[Array, Array]:
        """φ(x) = ∫₀^{‖x‖} w and its gradient, w(r) = s r + (b − s)(r − r0)₊, s = min{b, L0/4}, b = B R^(a/2 − 1)/√2.

        For a < 2, w stays beyond R what it is there.
        """
        b, r = self.numbers.carried / math.sqrt(2), jnp.linalg.norm(x)
        slope = jnp.minimum(b, self.L0 / 4)
        bend = jnp.where(b > slope, jnp.divide(4 * b, self.L1) ** (1 / self.alpha) / slope, 0.0)
        growing = r if self.growth == 2 else jnp.minimum(r, self.runway)
        beyond, length = jnp.maximum(growing - bend, 0.0), jnp.where(r > 0, r, 1.0)
        share = slope * (growing / length) + (b - slope) * beyond / length  # w/r
        value = slope * growing**2 / 2 + (b - slope) * beyond**2 / 2 + share * r * (r - growing)
        return value, share * x


class Coins(NamedTuple):
    """A batch: of every link the share of samples that show it, and the mean of the signs."""

    shown: Array  # the mean of ζ_1, …, ζ_T
    sign: Array  # the mean of ρ


class RunwayPoint(NamedTuple):
    """x, ∇f(x), and what a sample's coins multiply there."""

    x: Array
    grad: Array
    link: Array  # the link that samples show or hide at x; T if there is none
    hidden: Array  # ∇M_i(x), its noise
    rest: Array  # ∇f(x) − ∇M_i(x)
    carrier: Array  # ∇φ(x)


@part
class NoisyRunwayOracle(OwnNoise):
    """∇f(x; ζ, ρ) = ∇f(x) + (ζ_i/p − 1) ∇M_i(x) + ρ ∇φ(x), P(ζ_i = 1) = p, ρ = ±1; i is the next link at x.

    The coins of the links are independent, and those of one sample are the same at every point. A batch is its counts
    of coins, and so exact. The variance is (1 − p)/p ‖∇M_i‖² + ‖∇φ‖² ≤ B²‖x − x⁰‖^a.

    >>> from gladstorm import objectives
    >>> oracle = NoisyRunwayOracle(objectives.named("noisy-runway"))
    >>> round(float(oracle.p), 5), round(oracle.objective.numbers.needed)
    (0.00268, 745)
    """

    objective: NoisyRunway
    noise_of: ClassVar = NoisyRunway

    @property
    def p(self) -> Array | float:
        """The probability with which a sample shows a link."""
        p: Array | float = self.objective.numbers.p
        return p

    @property
    def links(self) -> int:
        """T, the number of links."""
        return self.objective.links

    @override
    def draw(self, key: Array) -> Coins:
        of_links, of_sign = jax.random.split(key)
        dtype = jnp.result_type(float)
        return Coins(jax.random.uniform(of_links, (self.links,), dtype), jax.random.normal(of_sign, (), dtype))

    @override
    def batch(self, noise: Coins, size: Array) -> Coins:
        b = jnp.asarray(size, noise.sign.dtype)
        return Coins(successes(noise.shown, b, self.p) / b, mean_of_signs(noise.sign, size))

    @override
    def at(self, x: Array) -> RunwayPoint:
        f = self.objective
        link = noisy_link(f.coordinates(x))
        return RunwayPoint(x, f.grad(x), link, f.link_noise(x)[1], f.grad_without_link(x), f.carrier(x)[1])

    @override
    def grad(self, point: RunwayPoint, sample: Coins) -> Array:
        return point.rest + self._shown(point.link, sample) * point.hidden + sample.sign * point.carrier

    def value(self, x: Array, sample: Coins) -> Array:
        """f(x; ξ), whose gradient in x is `grad`."""
        f = self.objective
        shown = self._shown(noisy_link(f.coordinates(x)), sample)
        return f.value(x) + (shown - 1) * f.link_noise(x)[0] + sample.sign * f.carrier(x)[0]

    def _shown(self, link: Array, sample: Coins) -> Array:
        """ζ_i/p, the factor of the hidden link."""
        return sample.shown[jnp.minimum(link, self.links - 1)] / self.p

    @override
    def variance(self, point: RunwayPoint) -> Array:
        return (1 - self.p) / self.p * jnp.sum(point.hidden**2) + jnp.sum(point.carrier**2)

    @property
    @override
    def bg0(self) -> Bg0 | None:
        of_bg0 = self.objective.growth == 2
        return Bg0(float(self.objective.B), 0.0, np.asarray(self.objective.start), affine=False) if of_bg0 else None

    @property
    @override
    def expected_constants(self) -> Constants:
        return self.objective.expected_constants
