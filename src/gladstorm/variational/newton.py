"""A stage that looks at the shape of the density around a Gaussian, and moves there if that is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array
from gladstorm.variational.gaussians import Diagonal, Factored, Gaussian, Triangular
from gladstorm.variational.stages import Gain, GaussianStage

DRAWS_PER_COORDINATE, FEWEST = 8, 3  # of a stage; with fewer for each coordinate, curvature is not known
SHARES = (1.0, 0.5, 0.2)  # of the way to the optimum of the quadratic model, that are tried
FLATTEST = 1e-4  # the smallest curvature that is believed, by the largest


class Sums(NamedTuple):
    """What is remembered of draws at one Gaussian, in its standard deviations."""

    q: Any
    draws: Array
    y: Array  # Σ y, where z = m + Ly
    w: Array  # Σ w, where w = Lᵀh
    yy: Array  # Σ yyᵀ
    wy: Array  # Σ wyᵀ
    skipped: Array


@dataclass(frozen=True)
class NewtonStage(GaussianStage):
    """Draw z from a fixed q, regress w = Lᵀh on y = L⁻¹(z − m), w ≈ a + By, and try the optimum of that model.

    It is m − LB⁻¹a with, in the family of q, the covariance LB⁻¹Lᵀ: exact for a Gaussian density after d + 1 draws. A
    part of the way is tried as well, and q stays as it is where nothing is better. So the gain of this stage also tells
    whether the stages before it had arrived.
    """

    @override
    def begin(self, found: Any, key: Array) -> Sums:
        zero, square = jnp.zeros_like(found.loc), jnp.zeros((found.loc.size,) * 2, found.loc.dtype)
        return Sums(found, zero.sum(), zero, zero, square, square, zero.sum())

    @override
    def _gaussian(self, state: Sums) -> Any:
        return state.q

    @override
    def advance(self, state: Sums, drawn: Any) -> tuple[Sums, Gain]:
        q = state.q
        noise, elbo, h = self.at_draw(q, drawn)
        if isinstance(q, Triangular):
            y, w = noise, q.tril.T @ h
        else:
            y, w = (q.place(noise) - q.loc) / q.scale, q.scale * h
        good = jnp.isfinite(w).all()
        w = jnp.where(good, w, 0.0)
        y = jnp.where(good, y, 0.0)
        seen = good.astype(w.dtype)
        sums = Sums(
            q,
            state.draws + seen,
            state.y + y,
            state.w + w,
            state.yy + jnp.outer(y, y),
            state.wy + jnp.outer(w, y),
            state.skipped + 1 - seen,
        )
        return sums, Gain(elbo, jnp.sum((w - y) ** 2))

    @override
    def found(self, state: Sums) -> tuple[Any, ...]:
        n = jnp.maximum(state.draws, 1.0)
        y, w = state.y / n, state.w / n
        spread = state.yy / n - jnp.outer(y, y)
        slope = jnp.linalg.solve(spread + 1e-6 * jnp.eye(y.size, dtype=y.dtype), (state.wy / n - jnp.outer(w, y)).T)
        curvature, axes = jnp.linalg.eigh((slope + slope.T) / 2)
        curvature = jnp.maximum(jnp.abs(curvature), FLATTEST * jnp.max(jnp.abs(curvature)))
        level = w - (axes * curvature) @ (axes.T @ y)  # a
        shift = -(axes / curvature) @ (axes.T @ level)
        shape = (axes * curvature) @ axes.T  # B
        return (state.q, *(_moved(state.q, shift, shape, share) for share in SHARES))

    @override
    def skipped(self, state: Sums) -> Array:
        return state.skipped


class FullRankNewtonStage(NewtonStage):
    """The same with a full covariance, whatever family the stage before it had."""

    @override
    def begin(self, found: Any, key: Array) -> Sums:
        return super().begin(Triangular(found.loc, found.scale_tril()), key)


def _moved(q: Gaussian, shift: Array, shape: Array, share: float) -> Gaussian:
    """A share of the way to the optimum; a model that is no good is not finite, and not chosen."""
    if isinstance(q, Triangular):
        partly = (1 - share) * jnp.eye(shift.size, dtype=shift.dtype) + share * shape
        flipped = jnp.linalg.cholesky(partly[::-1, ::-1])[::-1, ::-1]  # B = UUᵀ with U upper: U⁻ᵀ is lower
        tril = jax.scipy.linalg.solve_triangular(flipped, jnp.eye(shift.size, dtype=shift.dtype), lower=False).T
        return Triangular(q.loc + share * (q.tril @ shift), q.tril @ tril)
    loc = q.loc + share * q.scale * shift
    if isinstance(q, Factored):
        return Factored(loc, q.scale, q.factor)
    return Diagonal(loc, q.scale * jnp.diagonal(shape) ** (-share / 2))
