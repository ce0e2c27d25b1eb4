"""Functions on which every zero-respecting method is slow: the zero-chain, alone and behind a runway.

The chain and the gate are those of `problems.hard.zero_chain`. From x⁰ = 0 a method that stays in the span of what it
has seen, as all of this library do, moves at most one coordinate further per success of a coin of probability p. Under
bounded variance σ² that makes Ω(ε⁻⁴) (Carmon et al. 2020; Arjevani et al. 2023).

The chain alone lies at a distance of order √(Δ/L) from its start, whatever ε is, where BG-0 noise is no larger than
G² + O(B²). A runway of a length of order Δ/ε in front of it, derived in this project, makes Ω(ε⁻⁶), and Ω(ε^−(4+a)) for
noise of growth a. `SmoothRunway` is that for methods that do not respect zeros, `Blocks` for steps in other norms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from evidence.verification.rotated_runway import RotatedRunway
from gladstorm.core.constants import Constants
from gladstorm.core.hardness import LINK, Hardness
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import NON_NEGATIVE, POSITIVE, PROBABILITY, VECTOR
from gladstorm.problems.functions import Tree, flatten
from gladstorm.problems.hard.zero_chain import DEPTH, LARGEST, SMOOTHNESS, GatedChain, chain_grad, chain_value, progress
from gladstorm.problems.oracle import Oracle
from gladstorm.problems.sampling import successes

SEEN = 0.25  # a coordinate of F_T counts as moved beyond this


@part
class ZeroChain:
    """f(x) = (L λ²/ℓ1) F_T(x/λ), λ = 2 ε ℓ1/L: the zero-chain, on which every zero-respecting method is slow.

    f is L-smooth, and ‖∇f‖ > 2ε until the last coordinate has been moved. Carmon et al. 2020; Arjevani et al. 2023.
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
        """Value of f at x."""
        return self.L * self.scale**2 / SMOOTHNESS * chain_value(x / self.scale)

    def grad(self, x: Array) -> Array:
        """∇f(x) = 2 ε ∇F_T(x/λ)."""
        return 2 * self.eps * chain_grad(x / self.scale)

    def hidden(self, x: Array) -> Array:
        """Coordinates that the oracle shows only with probability p: those beyond prog_¼(x/λ)."""
        return jnp.arange(1, x.size + 1) > progress(x / self.scale, SEEN)


@part
class GatedRunway(GatedChain):
    """f(y, z) = h(y) + Θ(y) κ (F_T(z/λ) − 12 T): down a slope of 2ε for a length R = Δ/(8ε), then a zero-chain.

    The gate Θ opens between R/2 and R, so the noise is 0 closer to x⁰ than R/2. f is L-smooth for ε ≤ √(L Δ)/100, and
    ‖∇f‖ ≥ 2ε on the runway and after it until the last coordinate of the chain has been moved.
    """

    start: Data = leaf(VECTOR)  #: x⁰ = 0 in 1 + T dimensions
    L: Number = leaf(POSITIVE)  #: smoothness constant, > 0
    gap: Number = leaf(POSITIVE)  #: Δ > 0, a bound on f(x⁰) − inf f
    eps: Number = leaf(POSITIVE)  #: ε > 0
    constants: ClassVar[Constants | None] = None
    rotated: ClassVar[bool] = False

    @property
    def links(self) -> int:
        """T, the number of links."""
        return int(np.size(self.start) - 1)

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
    def scale(self) -> Array | float:
        """λ = 608 ε/L, how far a coordinate of the chain has to be moved."""
        return 608 * self.eps / self.L

    @property
    def ramp(self) -> Array | float:
        """8 ε/L: f is L-smooth."""
        return 8 * self.eps / self.L

    def hidden(self, x: Array) -> Array:
        """Coordinates that the oracle shows only with probability p: those of the chain beyond prog_¼(z/λ)."""
        beyond = jnp.arange(1, x.size) > progress(self.coordinates(x), SEEN)
        return jnp.concatenate([jnp.zeros(1, bool), beyond])


class Visible(NamedTuple):
    """x, ∇f(x), and which of its coordinates are shown by chance."""

    x: Array
    grad: Array
    hidden: Array


@part
class ChainOracle(Oracle):
    """[∇f(x; ζ)]_i = ∂_i f(x) (1 + 1{i hidden} (ζ/p − 1)), ζ ~ Bernoulli(p), for `ZeroChain` and `GatedRunway`.

    It is unbiased, and its variance is at most (46 ε)² (1 − p)/p. Of the hidden coordinates only the first has a
    gradient.
    """

    objective: ZeroChain | GatedRunway
    p: Number = leaf(PROBABILITY)  #: the probability in (0, 1) that a hidden coordinate is shown

    @override
    @classmethod
    def incompatible(cls, objective: Any) -> str | None:
        if hasattr(objective, "hidden"):
            return None
        got = type(objective).__name__
        return f"ChainOracle: the objective must hide coordinates, as ZeroChain and GatedRunway do; got {got}."

    @classmethod
    def with_variance(cls, objective: ZeroChain | GatedRunway, sigma2: float) -> ChainOracle:
        """The oracle with p = (46 ε)²/σ², whose variance is at most (1 − p) σ².

        On `GatedRunway` it is BG-0 noise for B²R²/4 + G² = σ².
        """
        p = (2 * LARGEST * float(objective.eps)) ** 2 / sigma2
        if p >= 1:
            raise ValueError(f"ChainOracle: sigma2 must be > {p * sigma2:.4g}, or nothing is hidden; got {sigma2=}.")
        return cls(objective, p)

    @override
    def draw(self, key: Array) -> Array:
        return jax.random.uniform(key, (), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        return successes(noise, jnp.asarray(size), self.p) / size

    @override
    def at(self, x: Array) -> Visible:
        return Visible(x, self.objective.grad(x), self.objective.hidden(x))

    @override
    def grad(self, point: Visible, sample: Array) -> Array:
        return point.grad * jnp.where(point.hidden, sample / self.p, 1.0)

    @override
    def variance(self, point: Visible) -> Array:
        return (1 - self.p) / self.p * jnp.sum(jnp.where(point.hidden, point.grad, 0.0) ** 2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RotatedSmoothHardness(Hardness):
    """Theorem 6 for all methods, and for every growth a ≥ 0 of the noise: f is L0-smooth, samples need not be."""

    rotated: bool = True

    @property
    @override
    def scale(self) -> Any:
        return RotatedRunway.smoothness * self.eps / self.L0

    @property
    @override
    def p(self) -> Any:
        return LINK * (self.steepness * self.eps) ** 2 / (self.felt * self.runway / 2) ** 2

    @property
    @override
    def guaranteed(self) -> float:
        """L0 B² Δ^(1+a)/(1.7·10⁹ 16^a ε^(4+a))."""
        a, far = self.growth, self.gap / self.eps
        return float(self.L0 * self.B**2 * self.gap * (far / 16) ** a / (1.7e9 * self.eps**4))

    @override
    def conditions(self) -> dict[str, bool]:
        h = self.growth / 2
        rare = self.B * self.gap**h / (46 * 16**h)
        return {
            "ε² ≤ L0Δ/97700": bool(self.eps**2 <= self.L0 * self.gap / 97700),
            "ε^(1+a/2) ≤ BΔ^(a/2)/(46·4^a)": bool(self.eps ** (1 + h) <= rare),
        }


@part
class SmoothRunway(RotatedRunway):
    """The rotated runway of an L0-smooth f: no carrier, as nothing is asked of samples; λ = 636 ε/L0."""

    growth: float = dataclasses.field(default=2.0, kw_only=True, metadata={"rule": NON_NEGATIVE, "static": True})

    @property
    @override
    def numbers(self) -> Hardness:
        names = [field.name for field in dataclasses.fields(Hardness) if field.name != "rotated"]
        return RotatedSmoothHardness(**{name: getattr(self, name) for name in names})

    @property
    @override
    def expected_constants(self) -> Constants | None:  # type: ignore[override]  # it has none
        return None

    @override
    def carrier(self, x: Array) -> tuple[Array, Array]:
        return jnp.zeros(()), jnp.zeros_like(x)


@part
class Blocks:
    """f(X) = Σ_i f_1(x_i) over the r rows of X: for steps in max_i ‖x_i‖, r times as hard as an instance for Euclid's.

    A method that respects zeros needs r times as many samples: this is why the price of a norm has τ² in it.
    """

    start: Data = leaf(VECTOR)  # x⁰ = 0
    single: Any  # f_1, for L0/r (√r where samples are smooth), B/√r, Δ/r and ε/r
    f_inf: ClassVar[None] = None
    constants: ClassVar[Constants | None] = None

    @classmethod
    def of(cls, rows: int, instance: Callable[..., Any], *, L: float, eps: float, gap: float, **given: Any) -> Blocks:
        """The problem of so many rows whose f is L-smooth from max_i ‖x_i‖ to Σ_i ‖∇_i f‖."""
        single = instance(L=L / rows, eps=eps / rows, gap=gap / rows, **given)
        return cls(np.zeros(rows * np.size(single.start)), single)

    @property
    def tree(self) -> Tree | None:
        """How x is read as the matrix X."""
        size = np.size(self.single.start)
        return flatten("Blocks", {"X": np.zeros((np.size(self.start) // size, size))})[1]

    def rows(self, x: Array) -> Array:
        """X, a row for each block."""
        return x.reshape(-1, self.single.start.size)

    def value(self, x: Array) -> Array:
        """Value of f at X."""
        return jnp.sum(jax.vmap(self.single.value)(self.rows(x)))

    def grad(self, x: Array) -> Array:
        """Gradient of f at X."""
        return jnp.ravel(jax.vmap(self.single.grad)(self.rows(x)))


class OfBlocks(NamedTuple):
    """X, its gradient, and the points of all blocks."""

    x: Array
    grad: Array
    blocks: Any


@part
class BlocksOracle(Oracle):
    """The noise of one instance in every block, independent from block to block."""

    objective: Blocks
    single: Oracle

    @override
    def draw(self, key: Array) -> Any:
        blocks = self.objective.start.size // self.objective.single.start.size
        return jax.vmap(self.single.draw)(jax.random.split(key, blocks))

    @override
    def batch(self, noise: Any, size: Array) -> Any:
        return jax.vmap(self.single.batch, (0, None))(noise, size)

    @override
    def at(self, x: Array) -> OfBlocks:
        return OfBlocks(x, self.objective.grad(x), jax.vmap(self.single.at)(self.objective.rows(x)))

    @override
    def grad(self, point: OfBlocks, sample: Any) -> Array:
        return jnp.ravel(jax.vmap(self.single.grad)(point.blocks, sample))

    @override
    def variance(self, point: OfBlocks) -> Array:
        return jnp.sum(jnp.asarray(jax.vmap(self.single.variance)(point.blocks)))
