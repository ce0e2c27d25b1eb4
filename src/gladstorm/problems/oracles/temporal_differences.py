"""TD(0): an update with a mean field that is no gradient."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0
from gladstorm.core.parts import Array, part
from gladstorm.problems.objectives.temporal_differences import TemporalDifferences as Objective
from gladstorm.problems.oracles.counts import counts, uniforms_for
from gladstorm.problems.oracles.oracle import Point
from gladstorm.problems.oracles.own_noise import OwnNoise


@part
class TemporalDifferences(OwnNoise):
    """g(θ; s, s') = φ_s (φ_s·θ − r_s − γ φ_s'·θ), s ~ μ, s' ~ P_s: what TD(0) subtracts, for independent pairs.

    Its mean, the mean field h(θ) = Φᵀ D (Φθ − r − γPΦθ), takes the place of ∇f. It is not the gradient of a function,
    so the theorems do not apply. Its variance is quadratic in θ, so BG-0 holds around the θ where it is smallest, with
    B² its largest curvature. A batch is the share of each pair (s, s') among b, and costs O(n²) for n states.
    """

    objective: Objective
    field: ClassVar[str] = "mean field"
    outside: ClassVar[str] = "its direction is a mean field and not the gradient of a function"

    @override
    def draw(self, key: Array) -> Array:
        """Uniform random numbers for the counts of pairs."""
        return jax.random.uniform(key, (uniforms_for(self.objective.transitions.size),), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        """The share of each pair (s, s') among b."""
        P = self.objective.transitions
        pairs = (self.objective.stationary[:, None] * P).ravel()
        return counts(noise, size, pairs).reshape(P.shape) / size

    @override
    def at(self, x: Array) -> Point:
        """θ and the mean field there."""
        return Point(x, self._mean(x, self.objective.stationary[:, None] * self.objective.transitions))

    @override
    def grad(self, point: Point, sample: Array) -> Array:
        return self._mean(point.x, sample)

    def _mean(self, x: Array, shares: Array) -> Array:
        """Over pairs with these shares."""
        values = self.objective.features @ x
        visited = jnp.sum(shares, axis=1)
        errors = visited * (values - self.objective.rewards) - self.objective.discount * (shares @ values)
        return errors @ self.objective.features

    @override
    def variance(self, point: Point) -> Array:
        """Σ_ss' μ_s P_ss' ‖φ_s‖² (φ_s·θ − r_s − γ φ_s'·θ)² − ‖h‖²."""
        objective = self.objective
        values = objective.features @ point.x
        errors = (values - objective.rewards)[:, None] - objective.discount * values
        squares = objective.stationary * jnp.sum(objective.features**2, axis=1)
        return jnp.sum(squares[:, None] * objective.transitions * errors**2) - point.grad @ point.grad

    @property
    @override
    def bg0(self) -> Bg0:
        """g = Mθ − q with M = φ_s (φ_s − γ φ_s')ᵀ and q = φ_s r_s: its variance is θᵀVθ − 2 c·θ + k."""
        features, P, r, mu = (
            np.asarray(each)
            for each in (
                self.objective.features,
                self.objective.transitions,
                self.objective.rewards,
                self.objective.stationary,
            )
        )
        steps = features[:, None, :] - float(self.objective.discount) * features[None, :, :]
        weights = mu[:, None] * P
        lengths = weights * np.sum(features**2, axis=1)[:, None]
        A, q = np.einsum("st,si,stj->ij", weights, features, steps), (mu * r) @ features
        V = np.einsum("st,sti,stj->ij", lengths, steps, steps) - A.T @ A
        c = np.einsum("st,s,sti->i", lengths, r, steps) - A.T @ q
        k = float(np.sum(lengths * (r**2)[:, None]) - q @ q)
        anchor = np.linalg.pinv(V, hermitian=True) @ c
        least = max(0.0, k - float(c @ anchor))
        return Bg0(float(np.linalg.eigvalsh(V)[-1]) ** 0.5, least**0.5, anchor, "the θ where it is least")
