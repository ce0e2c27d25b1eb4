"""Variational inference of a logistic regression by reparameterized samples."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0
from gladstorm.core.parts import Array, part
from gladstorm.problems.objectives.variational_logistic import VariationalLogistic as Objective
from gladstorm.problems.oracles.streamed import Streamed


class Reparameterized(NamedTuple):
    """One sample: z = m + Cu + δw."""

    u: Array
    w: Array


class PointWithEntropy(NamedTuple):
    """x, ∇f(x), and the entropy's part of it, which all samples have."""

    x: Array
    grad: Array
    entropy: Array


@part
class VariationalLogistic(Streamed):
    """∇f(x; u, w) = (r, r uᵀ) + ∇ of the entropy, r = ∇U(z)/n, z = m + Cu + δw, u and w ~ N(0, I); free entries only.

    U/n is M-smooth and smallest at z̄, so E‖(r, r uᵀ)‖² ≤ M² [(d + 1)(‖m − z̄‖² + dδ²) + (d + 3)‖C‖²] (Domke 2019). Hence
    BG-0 holds around z̄ and C = 0 with B² = M² (d + 3) and G² = M² d (d + 1) δ², also for differences of one sample. On
    the breast-cancer data this is loose by orders of magnitude. A batch of b samples costs b draws.
    """

    objective: Objective
    at_once: ClassVar[int] = 1  # each multiplies all examples

    @override
    def at(self, x: Array) -> PointWithEntropy:
        objective = self.objective
        m, C = objective.family.read(x)
        entropy = objective.family.written(jnp.zeros_like(m), objective.slope(C)) / len(objective.examples)
        return PointWithEntropy(x, objective.grad(x), entropy)

    @override
    def single(self, key: Array) -> Reparameterized:
        normals = jax.random.normal(key, (2, *self.objective.family.shape[:2]), jnp.result_type(float))
        return Reparameterized(normals[0], normals[1])

    @override
    def gradient(self, point: PointWithEntropy, single: Reparameterized) -> Array:
        objective, family = self.objective, self.objective.family
        m, C = family.read(point.x)
        z = m + ((C @ single.u[..., None])[..., 0] + objective.floor * single.w).ravel()
        wrong = jax.nn.sigmoid(-(objective.examples @ z))
        r = (objective.prior * z - wrong @ objective.examples) / len(objective.examples)
        return family.written(r, family.rows(r) * single.u[..., None, :]) + point.entropy

    @property
    @override
    def bg0(self) -> Bg0:
        objective, d, M = self.objective, self.objective.family.dim, self.objective.largest_curvature
        anchor = objective.family.start(np.asarray(objective.mode), 0.0)
        return Bg0(M * (d + 3) ** 0.5, M * float(objective.floor) * (d * (d + 1)) ** 0.5, anchor, "z̄ and C = 0")
