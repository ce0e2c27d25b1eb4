"""The oracle of the zero-chain: the next coordinate shows itself by chance."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import PROBABILITY
from gladstorm.problems.objectives import Objective
from gladstorm.problems.objectives.zero_chain import LARGEST
from gladstorm.problems.oracles.biased_coins import successes
from gladstorm.problems.oracles.oracle import Oracle


class Chain(Objective, Protocol):
    """An objective whose coordinates come into sight one after the other."""

    @property
    def L(self) -> Array | float:
        """How smooth it is."""

    @property
    def eps(self) -> Array | float:
        """ε: gradients are measured in multiples of it."""

    @property
    def scale(self) -> Array | float:
        """λ: how far a coordinate has to be moved."""

    def hidden(self, x: Array) -> Array:
        """Which coordinates are shown by chance."""


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

    objective: Chain
    p: Number = leaf(PROBABILITY)  #: the probability in (0, 1) that a hidden coordinate is shown

    @override
    @classmethod
    def misfit(cls, objective: Any) -> str | None:
        if hasattr(objective, "hidden"):
            return None
        got = type(objective).__name__
        return f"ChainOracle: the objective must hide coordinates, as ZeroChain and GatedRunway do; got {got}."

    @classmethod
    def with_variance(cls, objective: Chain, sigma2: float) -> ChainOracle:
        """The oracle with p = (46 ε)²/σ², whose variance is at most (1 − p) σ².

        On `GatedRunway` it is BG-0 noise for B²R²/4 + G² = σ².
        """
        p = (2 * LARGEST * float(objective.eps)) ** 2 / sigma2
        if p >= 1:
            raise ValueError(f"ChainOracle: sigma2 must be > {p * sigma2:.4g}, or nothing is hidden; got {sigma2=}.")
        return cls(objective, p)

    @override
    def draw(self, key: Array) -> Array:
        """One uniform number."""
        return jax.random.uniform(key, (), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        """The share of b samples that show the hidden coordinates."""
        b = jnp.asarray(size, noise.dtype)
        return successes(noise, b, self.p) / b

    @override
    def at(self, x: Array) -> Visible:
        """x, ∇f(x), and which coordinates are hidden there."""
        return Visible(x, self.objective.grad(x), self.objective.hidden(x))

    @override
    def grad(self, point: Visible, sample: Array) -> Array:
        return point.grad * jnp.where(point.hidden, sample / self.p, 1.0)

    @override
    def variance(self, point: Visible) -> Array:
        """(1 − p)/p Σ_hidden (∂_i f)²."""
        return (1 - self.p) / self.p * jnp.sum(jnp.where(point.hidden, point.grad, 0.0) ** 2)
