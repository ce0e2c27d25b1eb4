"""Variational inference of a Gaussian by reparameterized samples, of which a batch leaves a few moments."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0
from gladstorm.core.parts import Array, part
from gladstorm.problems.objectives.variational_gaussian import VariationalGaussian as Objective
from gladstorm.problems.oracles.oracle import Point
from gladstorm.problems.oracles.own_noise import OwnNoise
from gladstorm.problems.oracles.wishart import PER_LENGTH, bartlett


class Draws(NamedTuple):
    """The randomness of a step, a row for each block of C."""

    u: Array
    w: Array
    others: Array  # of the samples beyond the first, where there are: their w as the Bartlett factor of their u sees it
    factor: Array  # what that is made of
    key: Array


class Moments(NamedTuple):
    """Means over a batch, of each block: all that a batch leaves of its u and w in the gradient."""

    u: Array
    w: Array
    uu: Array  # u uᵀ
    wu: Array  # w uᵀ


@part
class VariationalGaussian(OwnNoise):
    """∇f(x; u, w) = (r, r uᵀ) + ∇ of the entropy, r = Λ(z − z̄), z = m + Cu + δw, u and w ~ N(0, I); free entries only.

    This is the reparameterization trick: the gradient of the energy at z, taken through z. The entropy's gradient is
    exact. With n_i free entries in row i, e = m − z̄ and rows C_i, the second moment of the energy's gradient is
    Σ_i λ_i² [(n_i + 1)(e_i² + δ²) + (n_i + 3)‖C_i‖²], so the variance is Σ_i λ_i² [n_i e_i² + (n_i + 1) δ² +
    (n_i + 2)‖C_i‖²]. So BG-0 holds around z̄ and C = 0, which is neither x⁰ nor the solution, with
    B² = max_i λ_i² (n_i + 2) and G² = δ² Σ_i λ_i² (n_i + 1). The noise is affine in x.

    A batch of any size costs O(d²), or O(d) if C is diagonal, and is exact at any number of points: with the mean ū and
    Bartlett's factor T of b − 1 vectors, the mean of uuᵀ is ūūᵀ + TTᵀ/b and that of wuᵀ is w̄ūᵀ + NTᵀ/b, N normal.
    """

    objective: Objective

    @override
    def draw(self, key: Array) -> Draws:
        n, k, _ = self.objective.family.shape
        normals = jax.random.normal(key, (n, k, 2 + k + k + PER_LENGTH), jnp.result_type(float))
        u, w, others, factor = jnp.split(normals, [1, 2, 2 + k], axis=-1)
        return Draws(u[..., 0], w[..., 0], others, factor, jax.random.key_data(key))

    @override
    def batch(self, noise: Draws, size: Array) -> Moments:
        b, key = jnp.asarray(size), jax.random.wrap_key_data(noise.key, impl="threefry2x32")
        keys = jax.vmap(lambda block: jax.random.fold_in(key, block))(2**29 + jnp.arange(noise.u.shape[0]))
        T = jax.vmap(bartlett, (0, 0, None))(noise.factor, keys, b - 1) / jnp.sqrt(b)
        u, w = noise.u / jnp.sqrt(b), noise.w / jnp.sqrt(b)
        across = (noise.others @ T.mT) / jnp.sqrt(b)
        return Moments(u, w, u[..., :, None] * u[..., None, :] + T @ T.mT, w[..., :, None] * u[..., None, :] + across)

    @override
    def grad(self, point: Point, sample: Moments) -> Array:
        """∇f(x), plus what the sample's moments differ from their means."""
        objective, family = self.objective, self.objective.family
        m, C = family.read(point.x)
        e = family.rows(m - objective.center)
        on_m = (C @ sample.u[..., None])[..., 0] + objective.floor * sample.w
        on_C = e * sample.u[..., None, :] + C @ (sample.uu - jnp.eye(C.shape[-1])) + objective.floor * sample.wu
        scale = family.rows(objective.precision)
        return point.grad + family.written(scale[..., 0] * on_m, scale * on_C)

    @override
    def variance(self, point: Point) -> Array:
        """Σ_i λ_i² [n_i e_i² + (n_i + 1) δ² + (n_i + 2)‖C_i‖²]."""
        objective, n = self.objective, self.objective.family.per_row
        m, C = objective.family.read(point.x)
        rows = jnp.sum(C * C, axis=-1).ravel()
        each = n * (m - objective.center) ** 2 + (n + 1) * objective.floor**2 + (n + 2) * rows
        return jnp.sum(objective.precision**2 * each)

    @property
    @override
    def bg0(self) -> Bg0:
        objective, n = self.objective, self.objective.family.per_row
        squares = np.asarray(objective.precision) ** 2
        anchor = objective.family.start(np.asarray(objective.center), 0.0)
        G = float(objective.floor) * float(np.sum(squares * (n + 1))) ** 0.5
        return Bg0(float(np.max(squares * (n + 2))) ** 0.5, G, anchor, "z̄ and C = 0")
