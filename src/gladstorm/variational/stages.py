"""Stages of a fit: how the parameters of a family move, one stochastic gradient a step, without a learning rate.

h = −∇ log p(z), z a draw from q. Every stage uses the path derivative of log q(z) − log p(z), in which the parameters
of log q are held fixed ("sticking the landing", Roeder et al. 2017): its noise vanishes where q = p.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.equations import AVERAGED
from gladstorm.core.parts import Array
from gladstorm.methods.norms import length
from gladstorm.methods.steps import per_coordinate
from gladstorm.methods.steps.per_coordinate import Bounded
from gladstorm.methods.steps.untuned import UntunedState
from gladstorm.variational.gaussians import Diagonal, Factored, Gaussian, Triangular

LogDensity = Callable[[Array, Array], Array]  # of z, with a key for a subsample of the data
BOLDEST = 0.3  # of a natural-gradient step, the share that a full-rank step may be
FACTOR_SCALE = 0.1  # of the factor's first entries: at 0 their gradient is 0


class Gain(NamedTuple):
    """What is recorded of a step."""

    elbo: Array  # log p(z) − log q(z) at the draw of the step
    noise: Array  # the squared length of the gradient in standard deviations of q: all noise at the end


@dataclass(frozen=True)
class Stage(ABC):
    """A number of steps with one family. What was found before is where it begins."""

    steps: int

    @abstractmethod
    def begin(self, found: Any, key: Array) -> Any:
        """The state at the first step."""

    @abstractmethod
    def draw(self, state: Any, key: Array) -> Any:
        """What is random in a step. It is drawn for many steps at once: of the state, only shapes count."""

    @abstractmethod
    def advance(self, state: Any, drawn: Any) -> tuple[Any, Gain]:
        """One step."""

    @abstractmethod
    def found(self, state: Any) -> tuple[Any, ...]:
        """What it may report: first what it usually does, the average of late iterates, then other candidates."""

    @property
    @abstractmethod
    def score(self) -> Callable[[Any, Array], Array]:
        """From q and a key to log p(z) − log q(z) at one draw z from q; equal where stages share it."""

    @abstractmethod
    def skipped(self, state: Any) -> Array:
        """How many gradients were not finite."""


@dataclass(frozen=True)
class LogWeight:
    """log p(z) − log q(z) at one draw z from a Gaussian q."""

    log_density: LogDensity

    def __call__(self, q: Any, key: Array) -> Array:
        """At the draw that the key decides."""
        z = self.draw(q, key)
        log_q: Array = q.log_density(z)
        return self.log_density(z, jax.random.split(key)[1]) - log_q

    def draw(self, q: Any, key: Array) -> Array:
        """z."""
        z: Array = q.place(q.noise(jax.random.split(key)[0]))
        return z


@dataclass(frozen=True)
class GaussianStage(Stage):
    """A stage of a Gaussian family in unconstrained space."""

    log_density: LogDensity
    least_z: float = field(default=0.0, kw_only=True)  # `per_coordinate.SUBSAMPLED` where data are

    @abstractmethod
    def _gaussian(self, state: Any) -> Any:
        """q."""

    @override
    def draw(self, state: Any, key: Array) -> tuple[Array, Array]:
        noise_key, data_key = jax.random.split(key)
        return self._gaussian(state).noise(noise_key), data_key

    def at_draw(self, q: Gaussian, drawn: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        """ε, log p(z) − log q(z) and h at one draw."""
        noise, data_key = drawn
        value, gradient = jax.value_and_grad(self.log_density)(q.place(noise), data_key)
        return noise, value - q.log_density_at(noise), -gradient

    @property
    @override
    def score(self) -> Callable[[Any, Array], Array]:
        return LogWeight(self.log_density)


class Walk(NamedTuple):
    """The state of a stage whose parameters move each by itself."""

    x: Any
    journey: UntunedState


class _PerCoordinate(GaussianStage):
    """Numbers that move each by itself, a row of d for each vector; `_distribution` makes a Gaussian of them."""

    @abstractmethod
    def _distribution(self, x: Array) -> Any:
        """The Gaussian with these numbers."""

    @override
    def _gaussian(self, state: Walk) -> Any:
        return self._distribution(state.x)

    @override
    def found(self, state: Walk) -> tuple[Any, Any]:
        return self._distribution(state.journey.average), self._distribution(state.x)

    @override
    def skipped(self, state: Walk) -> Array:
        return state.journey.skipped


@dataclass(frozen=True)
class MeanFieldStage(_PerCoordinate):
    """m and s, σ = softplus(s), by g_m = h − ε/σ and g_s = g_m ε σ′, each coordinate by itself.

    No step is longer than one along the natural gradient would be: |Δm| ≤ σ²|g_m|, and for s, whose natural gradient is
    noisier, |Δs| ≤ min{½|g_s|(σ/σ′)²/(1 + ε²), ½σ/σ′}.
    """

    @override
    def begin(self, found: Any, key: Array) -> Walk:
        x = jnp.stack([found.loc, _inverse_softplus(found.scale)])
        return Walk(x, per_coordinate.begin(x))

    @override
    def advance(self, state: Walk, drawn: Any) -> tuple[Walk, Gain]:
        q = self._gaussian(state)
        noise, elbo, h = self.at_draw(q, drawn)
        by_loc = h - noise / q.scale
        slope = -jnp.expm1(-q.scale)  # σ′
        by_width = by_loc * noise * slope
        reach = q.scale / slope
        natural = jnp.minimum(0.5 * jnp.abs(by_width) * reach**2 / (1 + noise**2), 0.5 * reach)
        longest = jnp.stack([q.scale**2 * jnp.abs(by_loc), natural])
        gradient = jnp.stack([by_loc, by_width])
        x, journey = per_coordinate.move(self.steps, state.journey, state.x, gradient, longest, self.least_z)
        return Walk(x, journey), Gain(elbo, jnp.sum((q.scale * by_loc) ** 2))

    @override
    def _distribution(self, x: Array) -> Diagonal:
        return Diagonal(x[0], jax.nn.softplus(x[1]))


@dataclass(frozen=True)
class LowRankStage(_PerCoordinate):
    """m, s and U of z = m + σ⊙(ε₁ + Uε₂), each number by itself, beginning with a small random U."""

    rank: int

    @override
    def begin(self, found: Any, key: Array) -> Walk:
        factor = FACTOR_SCALE * jax.random.normal(key, (self.rank, found.loc.size), found.loc.dtype)
        x = jnp.concatenate([jnp.stack([found.loc, _inverse_softplus(found.scale)]), factor])
        return Walk(x, per_coordinate.begin(x))

    @override
    def advance(self, state: Walk, drawn: Any) -> tuple[Walk, Gain]:
        q = self._gaussian(state)
        noise, elbo, h = self.at_draw(q, drawn)
        by_z = h + jax.grad(q.log_density)(q.place(noise))
        gradient = jax.vjp(lambda x: self._distribution(x).place(noise), state.x)[1](by_z)[0]
        longest = jnp.full_like(state.x, jnp.inf).at[0].set(q.scale**2 * jnp.abs(by_z))
        x, journey = per_coordinate.move(self.steps, state.journey, state.x, gradient, longest, self.least_z)
        return Walk(x, journey), Gain(elbo, jnp.sum((q.scale * by_z) ** 2))

    @override
    def _distribution(self, x: Array) -> Factored:
        return Factored(x[0], jax.nn.softplus(x[1]), x[2:].T)


class Turning(NamedTuple):
    """The state of a full-rank stage."""

    q: Triangular
    average: Triangular
    shift: tuple[Array, UntunedState]  # how far m was moved, in standard deviations
    shape: tuple[Array, UntunedState]  # how L was changed


@dataclass(frozen=True)
class FullRankStage(GaussianStage):
    """m and L along natural gradients: with v = Lᵀh − ε and γ = 1 − k/K,

    w₁ = v,  w₂ = (vεᵀ below the diagonal, v⊙ε/√2 on it)
    u₁ and u₂ are steps of `Untuned` for w₁ and w₂, ‖u₁‖ ≤ 0.3γ‖w₁‖ and ‖u₂‖ ≤ 0.3γ‖w₂‖/(1 + ‖ε‖²)
    m ← m − Lu₁,  L ← L(I − below u₂)·exp(−diag u₂/√2)
    """

    @override
    def begin(self, found: Any, key: Array) -> Turning:
        q = Triangular(found.loc, found.scale_tril())
        return Turning(q, q, _at_origin(q.loc), _at_origin(q.tril))

    @override
    def _gaussian(self, state: Turning) -> Triangular:
        return state.q

    @override
    def advance(self, state: Turning, drawn: Any) -> tuple[Turning, Gain]:
        q, k = state.q, state.shift[1].k
        noise, elbo, h = self.at_draw(q, drawn)
        v = q.tril.T @ h - noise
        turn = jnp.tril(jnp.outer(v, noise), -1) + jnp.diag(v * noise / jnp.sqrt(2.0))
        bold = BOLDEST * (1 - k / self.steps)
        u1, shift = self._moved(state.shift, v, bold * length(v))
        u2, shape = self._moved(state.shape, turn, bold * length(turn) / (1 + noise @ noise))
        loc = q.loc + q.tril @ u1
        tril = (q.tril + q.tril @ jnp.tril(u2, -1)) * jnp.exp(jnp.diagonal(u2) / jnp.sqrt(2.0))
        w = (AVERAGED + 1) / (k + AVERAGED + 2)
        later = Triangular(loc, tril)
        average = jax.tree.map(lambda old, new: old + w * (new - old), state.average, later)
        return Turning(later, average, shift, shape), Gain(elbo, v @ v)

    def _moved(
        self, walk: tuple[Array, UntunedState], v: Array, longest: Array
    ) -> tuple[Array, tuple[Array, UntunedState]]:
        """How the step moves, and where to."""
        finite = jnp.isfinite(longest)
        x, journey = Bounded(steps=self.steps, longest=jnp.where(finite, longest, 1.0)).move(
            walk[1], walk[0], v, lambda _: jnp.zeros(())
        )
        return x - walk[0], (x, journey)

    @override
    def found(self, state: Turning) -> tuple[Triangular, Triangular]:
        return state.average, state.q

    @override
    def skipped(self, state: Turning) -> Array:
        return state.shift[1].skipped


def _at_origin(like: Array) -> tuple[Array, UntunedState]:
    origin = jnp.zeros_like(like)
    return origin, Bounded().init(origin)


def _inverse_softplus(value: Array) -> Array:
    return value + jnp.log(-jnp.expm1(-value))
