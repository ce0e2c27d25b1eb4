"""Gaussians without and with correlations, and updates: how one start improves its q with one gradient a step.

A member q makes draws z from standard normal numbers ε, which may have leading axes, and knows its density there. Its
arrays are NumPy's or JAX's.

h = −∇ log p(z), z a draw from q. Every update takes the path derivative of log q(z) − log p(z), in which the parameters
of log q are held fixed ("sticking the landing", Roeder et al. 2017): its noise vanishes where q = p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.equations import GROWTH, average_weight
from gladstorm.core.parts import Array
from gladstorm.methods.norms import length
from gladstorm.methods.steps import untuned as per_coordinate
from gladstorm.methods.steps.untuned import Bounded, UntunedState
from gladstorm.variational.programs import Draw, Gain, LogDensity, Update

BOLDEST = 0.3  # of a natural-gradient step, the share that a full-rank step may be
CAREFUL = 0.1  # the first length of a careful start, by that of a usual one
SHARES = (1.0, 0.5, 0.2)  # of the way to the optimum of the quadratic model, that are tried
FLATTEST = 1e-4  # the smallest curvature that is believed, by the largest
LOG_2PI = math.log(2 * math.pi)


class Diagonal(NamedTuple):
    """Independent normal coordinates, z = m + σ⊙ε."""

    loc: Any  # m
    scale: Any  # σ

    @property
    def noise_size(self) -> int:
        """Length of ε, for a member or a stack of them."""
        return int(self.loc.shape[-1])

    @property
    def sds(self) -> Any:
        """Standard deviations of the coordinates."""
        return self.scale

    def place(self, noise: Any) -> Any:
        """Return z at ε."""
        return self.loc + self.scale * noise

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of ε."""
        xp = self.loc.__array_namespace__()
        return log_standard(noise) - xp.log(self.scale).sum()

    def log_density(self, z: Any) -> Any:
        """Return log q(z)."""
        return self.log_density_at((z - self.loc) / self.scale)

    def scale_tril(self) -> Any:
        """Return L, with LLᵀ the covariance."""
        return self.scale[..., None] * self.loc.__array_namespace__().eye(self.noise_size, dtype=self.loc.dtype)


class Triangular(NamedTuple):
    """A normal distribution with any covariance, z = m + Lε with L lower triangular and its diagonal positive."""

    loc: Any  # m
    tril: Any  # L

    @property
    def noise_size(self) -> int:
        """Length of ε, for a member or a stack of them."""
        return int(self.loc.shape[-1])

    @property
    def sds(self) -> Any:
        """Standard deviations of the coordinates."""
        return (self.tril**2).sum(-1) ** 0.5

    def place(self, noise: Any) -> Any:
        """Return z at ε."""
        return self.loc + noise @ self.tril.T

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of ε."""
        xp = self.loc.__array_namespace__()
        return log_standard(noise) - xp.log(xp.diagonal(self.tril)).sum()

    def log_density(self, z: Any) -> Any:
        """Return log q(z)."""
        return self.log_density_at(self.loc.__array_namespace__().linalg.solve(self.tril, (z - self.loc).T).T)

    def scale_tril(self) -> Any:
        """Return L, with LLᵀ the covariance."""
        return self.tril


def log_standard(noise: Array) -> Any:
    """Log density of standard normal numbers."""
    return -0.5 * (noise**2).sum(-1) - 0.5 * noise.shape[-1] * LOG_2PI


class Coordinates(NamedTuple):
    """The state of an update whose numbers move each by itself."""

    x: Any
    journey: UntunedState
    growth: Any  # how fast r may grow
    seen: Any  # gradients that were not 0, by number: a local variable has some only where its rows are drawn

    @classmethod
    def at(cls, x: Any, careful: Any) -> Coordinates:
        """Return the state before the first step: a careful start has steps a tenth as long, and r grows slowly."""
        first = jnp.where(careful, CAREFUL * per_coordinate.FIRST, per_coordinate.FIRST)
        growth = jnp.where(careful, GROWTH, jnp.inf)
        return cls(x, per_coordinate.begin(x, first), growth, jax.tree.map(jnp.zeros_like, x))

    def move(self, gradient: Any, steps: Array, least_z: float, longest: Any = None) -> tuple[Coordinates, Array]:
        """Return the state after a step along this gradient, and 1 if the gradient was not finite."""
        seen = jax.tree.map(lambda n, slope: n + (slope != 0), self.seen, gradient)
        x, journey = per_coordinate.move(steps, self.journey, self.x, gradient, longest, least_z, self.growth, seen)
        return Coordinates(x, journey, self.growth, seen), journey.skipped - self.journey.skipped


@dataclass(frozen=True)
class MeanFieldUpdate(Update):
    """m and s move, σ = softplus(s), by g_m = h − ε/σ and g_s = g_m ε σ′, each coordinate by itself.

    No step is longer than one along the natural gradient would be: |Δm| ≤ σ²|g_m|, and for s, whose natural gradient is
    noisier, |Δs| ≤ min{½|g_s|(σ/σ′)²/(1 + ε²), ½σ/σ′}.
    """

    @override
    def begin(self, q: Diagonal, key: Array, careful: Any = False) -> Coordinates:
        x = jnp.stack([q.loc, inverse_softplus(q.scale)])
        return Coordinates.at(x, careful)

    @override
    def noise_size(self, state: Coordinates) -> int:
        return int(state.x.shape[-1])

    @override
    def step(self, log_density: LogDensity, state: Coordinates, draw: Draw, steps: Array) -> tuple[Coordinates, Gain]:
        q, noise = Diagonal(state.x[0], jax.nn.softplus(state.x[1])), draw.noise
        elbo, h = at_draw(log_density, q, draw)
        by_loc = h - noise / q.scale
        slope = -jnp.expm1(-q.scale)  # σ′
        by_width = by_loc * noise * slope
        reach = q.scale / slope
        natural = jnp.minimum(0.5 * jnp.abs(by_width) * reach**2 / (1 + noise**2), 0.5 * reach)
        longest = jnp.stack([q.scale**2 * jnp.abs(by_loc), natural])
        after, skipped = state.move(jnp.stack([by_loc, by_width]), steps, self.least_z, longest)
        return after, Gain(elbo, jnp.sum((q.scale * by_loc) ** 2), skipped)

    @override
    def candidates(self, state: Coordinates) -> tuple[Diagonal, Diagonal]:
        average, last = (Diagonal(x[:, 0], softplus(x[:, 1])) for x in (state.journey.average, state.x))
        return average, last


class Whitened(NamedTuple):
    """The state of a full-rank update."""

    q: Triangular
    average: Triangular
    shift: tuple[Array, UntunedState]  # how far m was moved, in standard deviations
    shape: tuple[Array, UntunedState]  # how L was changed


@dataclass(frozen=True)
class FullRankUpdate(Update):
    """m and L move along natural gradients: with v = Lᵀh − ε and γ = 1 − k/K,

    w₁ = v,  w₂ = (vεᵀ below the diagonal, v⊙ε/√2 on it)
    u₁ and u₂ are steps of `Untuned` for w₁ and w₂, ‖u₁‖ ≤ 0.3γ‖w₁‖ and ‖u₂‖ ≤ 0.3γ‖w₂‖/(1 + ‖ε‖²)
    m ← m − Lu₁,  L ← L(I − below u₂)·exp(−diag u₂/√2)
    """

    @override
    def begin(self, q: Any, key: Array, careful: Any = False) -> Whitened:
        whole = Triangular(q.loc, q.scale_tril())
        at_origin = [(zero, Bounded().init(zero)) for zero in (jnp.zeros_like(whole.loc), jnp.zeros_like(whole.tril))]
        return Whitened(whole, whole, *at_origin)

    @override
    def noise_size(self, state: Whitened) -> int:
        return state.q.noise_size

    @override
    def step(self, log_density: LogDensity, state: Whitened, draw: Draw, steps: Array) -> tuple[Whitened, Gain]:
        q, k, noise = state.q, state.shift[1].k, draw.noise
        elbo, h = at_draw(log_density, q, draw)
        v = q.tril.T @ h - noise
        turn = jnp.tril(jnp.outer(v, noise), -1) + jnp.diag(v * noise / jnp.sqrt(2.0))
        bold = BOLDEST * (1 - k / steps)

        def step_along(
            before: tuple[Array, UntunedState], v: Array, longest: Array
        ) -> tuple[Array, tuple[Array, UntunedState]]:
            step = Bounded(steps=steps, longest=jnp.where(jnp.isfinite(longest), longest, 1.0))
            x, journey = step.move(before[1], before[0], v, lambda _: jnp.zeros(()))
            return x - before[0], (x, journey)

        u1, shift = step_along(state.shift, v, bold * length(v))
        u2, shape = step_along(state.shape, turn, bold * length(turn) / (1 + noise @ noise))
        tril = (q.tril + q.tril @ jnp.tril(u2, -1)) * jnp.exp(jnp.diagonal(u2) / jnp.sqrt(2.0))
        after = Triangular(q.loc + q.tril @ u1, tril)
        average = jax.tree.map(lambda old, new: old + average_weight(k) * (new - old), state.average, after)
        skipped = shift[1].skipped - state.shift[1].skipped
        return Whitened(after, average, shift, shape), Gain(elbo, v @ v, skipped)

    @override
    def candidates(self, state: Whitened) -> tuple[Triangular, Triangular]:
        return state.average, state.q


class Sums(NamedTuple):
    """Sums over draws at one Gaussian, in its standard deviations: z = m + Ly and w = Lᵀh."""

    q: Any
    draws: Array
    y: Array  # Σ y
    w: Array  # Σ w
    yy: Array  # Σ yyᵀ
    wy: Array  # Σ wyᵀ


@dataclass(frozen=True)
class NewtonUpdate(Update):
    """Draw z from a fixed q, regress w = Lᵀh on y = L⁻¹(z − m), w ≈ a + By, and try the optimum of that model.

    It is m − LB⁻¹a with, in the family of q, the covariance LB⁻¹Lᵀ (that of a low rank stays): exact for a Gaussian
    density after d + 1 draws. A part of the way is tried as well, and q stays as it is where nothing is better. So the
    gain of this update also tells whether those before it had arrived. With `full`, q becomes a Gaussian of any
    covariance first.
    """

    full: bool = False

    @override
    def begin(self, q: Any, key: Array, careful: Any = False) -> Sums:
        whole = Triangular(q.loc, q.scale_tril()) if self.full else q
        zero, square = jnp.zeros_like(q.loc), jnp.zeros((q.loc.size,) * 2, q.loc.dtype)
        return Sums(whole, zero.sum(), zero, zero, square, square)

    @override
    def noise_size(self, state: Sums) -> int:
        return int(state.q.noise_size)

    @override
    def step(self, log_density: LogDensity, state: Sums, draw: Draw, steps: Array) -> tuple[Sums, Gain]:
        q, noise = state.q, draw.noise
        elbo, h = at_draw(log_density, q, draw)
        if isinstance(q, Triangular):
            y, w = noise, q.tril.T @ h
        else:
            y, w = (q.place(noise) - q.loc) / q.scale, q.scale * h
        good = jnp.isfinite(w).all()
        w = jnp.where(good, w, 0.0)
        y = jnp.where(good, y, 0.0)
        seen = good.astype(w.dtype)
        after = Sums(
            q, state.draws + seen, state.y + y, state.w + w, state.yy + jnp.outer(y, y), state.wy + jnp.outer(w, y)
        )
        return after, Gain(elbo, jnp.sum((w - y) ** 2), 1 - seen)

    @override
    def candidates(self, state: Sums) -> tuple[Any, ...]:
        by_start = [_newton(jax.tree.map(lambda leaf, at=at: leaf[at], state)) for at in range(len(state.draws))]
        return tuple(jax.tree.map(lambda *leaves: np.stack(leaves), *each) for each in zip(*by_start, strict=True))


def at_draw(log_density: LogDensity, q: Any, draw: Draw) -> tuple[Array, Array]:
    """Return log p(z) − log q(z) and h at one draw."""
    value, gradient = jax.value_and_grad(log_density)(q.place(draw.noise), draw.key)
    return value - q.log_density_at(draw.noise), -gradient


def _newton(sums: Sums) -> tuple[Any, ...]:
    """Return q, and members on the way to the optimum of its quadratic model, which are not finite if there is none."""
    q, n = sums.q, np.maximum(sums.draws, 1.0)
    y, w = sums.y / n, sums.w / n
    spread = sums.yy / n - np.outer(y, y)
    try:
        with np.errstate(all="ignore"):
            slope = np.linalg.solve(spread + 1e-6 * np.eye(y.size, dtype=y.dtype), (sums.wy / n - np.outer(w, y)).T)
            curvature, axes = np.linalg.eigh((slope + slope.T) / 2)
            curvature = np.maximum(np.abs(curvature), FLATTEST * np.max(np.abs(curvature)))
            level = w - (axes * curvature) @ (axes.T @ y)  # a
            shift = -(axes / curvature) @ (axes.T @ level)
            shape = (axes * curvature) @ axes.T  # B
            return (q, *(_toward(q, shift, shape, share) for share in SHARES))
    except np.linalg.LinAlgError:
        return (q, *(jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), q) for _ in SHARES))


def _toward(q: Any, shift: np.ndarray, shape: np.ndarray, share: float) -> Any:
    """Return the member at this share of the way to m + L·shift with the covariance L·shape⁻¹·Lᵀ."""
    if isinstance(q, Triangular):
        partly = (1 - share) * np.eye(shift.size, dtype=shift.dtype) + share * shape
        flipped = np.linalg.cholesky(partly[::-1, ::-1])[::-1, ::-1]  # B = UUᵀ with U upper: U⁻ᵀ is lower
        return Triangular(q.loc + share * (q.tril @ shift), np.tril(q.tril @ np.linalg.inv(flipped).T))
    loc = q.loc + share * q.scale * shift
    if isinstance(q, Diagonal):
        return Diagonal(loc, q.scale * np.diagonal(shape) ** (-share / 2))
    return q._replace(loc=loc)


def softplus(value: np.ndarray) -> Any:
    """Return log(1 + eˣ)."""
    return np.logaddexp(value, np.zeros_like(value))


def inverse_softplus(value: Array) -> Array:
    """Return the x whose softplus is the value."""
    return value + jnp.log(-jnp.expm1(-value))
