"""Policy evaluation on a finite Markov chain with linear features."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Bg0, Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import BELOW_ONE, COUNT, MATRIX, VECTOR, require_free_memory
from gladstorm.problems.oracle import OwnNoise, Point
from gladstorm.problems.sampling import counts, uniforms_for


@part
class TemporalDifferences:
    """f(θ) = ½ Σ_s μ_s (φ_s·(θ − θ*))²: policy evaluation by TD(0) on a Markov chain with linear features.

    f measures how far the values φ_s·θ are from those at θ*, where TD(0) ends: Φᵀ D (Φθ* − r − γPΦθ*) = 0. The chain
    has transitions P, stationary distribution μ = diag D, rewards r, discount γ and features φ_s for each state s.
    TD(0) does not follow ∇f: the oracle of this name has its direction.
    """

    start: Data = leaf(VECTOR)  #: θ⁰, where runs start
    features: Data = leaf(MATRIX)  #: Φ, a row for each state
    transitions: Data = leaf(MATRIX)  #: P, the probabilities of going from the state of a row to that of a column
    rewards: Data = leaf(VECTOR)  #: r, one for each state
    discount: Number = leaf(BELOW_ONE)  #: γ in [0, 1)
    stationary: Data = leaf(VECTOR)  #: μ, the share of time in each state
    solution: Data = leaf(VECTOR)  #: θ*, where TD(0) ends
    f_inf: ClassVar[float] = 0.0
    own_oracle: ClassVar[str] = "temporal-differences"

    @classmethod
    def from_seed(cls, seed: int, states: float = 10, discount: float = 0.9, *, dim: int = 3) -> TemporalDifferences:
        """A random chain of so many `states`: transitions uniform on the simplex; features, rewards and θ⁰ normal."""
        COUNT.require("TemporalDifferences", "states", states)
        BELOW_ONE.require("TemporalDifferences", "discount", discount)
        if states < dim:
            raise ValueError(
                f"TemporalDifferences: states must be at least {dim=}, or θ* is not unique; got {states:g}."
            )
        rng, n = np.random.default_rng(seed), int(states)
        what = f"{n:,} states with features of dim = {dim:,} numbers"
        require_free_memory("TemporalDifferences", what, 8 * n * (n + dim), "choose a smaller dim or fewer states")
        P, features = rng.dirichlet(np.ones(n), n), rng.normal(0, 1, (n, dim))
        rewards, start = rng.normal(0, 1, n), rng.normal(0, 1, dim)
        system = np.vstack([P.T - np.eye(n), np.ones(n)])  # μP = μ, Σ_s μ_s = 1
        mu = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
        mu = mu / mu.sum()
        weighted = features.T * mu
        solution = np.linalg.solve(weighted @ (features - discount * P @ features), weighted @ rewards)
        return cls(start, features, P, rewards, discount, mu, solution)

    def value(self, x: Array) -> Array:
        """Return the value f(θ)."""
        return jnp.sum(self.stationary * (self.features @ (x - self.solution)) ** 2) / 2

    def grad(self, x: Array) -> Array:
        """∇f(θ) = Φᵀ D Φ (θ − θ*)."""
        return (self.stationary * (self.features @ (x - self.solution))) @ self.features

    @property
    def constants(self) -> Constants:
        """The Hessian is ΦᵀDΦ."""
        features = np.asarray(self.features)
        L0 = np.linalg.eigvalsh((features.T * np.asarray(self.stationary)) @ features)[-1]
        return Constants(L0=float(L0), L1=0.0, alpha=0.0, f_inf=self.f_inf)


@part
class TemporalDifferencesOracle(OwnNoise):
    """g(θ; s, s') = φ_s (φ_s·θ − r_s − γ φ_s'·θ), s ~ μ, s' ~ P_s: what TD(0) subtracts, for independent pairs.

    Its mean, the mean field h(θ) = Φᵀ D (Φθ − r − γPΦθ), takes the place of ∇f. It is not the gradient of a function,
    so the theorems do not apply. Its variance is quadratic in θ, so BG-0 holds around the θ where it is smallest, with
    B² its largest curvature. A batch is the share of each pair (s, s') among b, and costs O(n²) for n states.
    """

    objective: TemporalDifferences
    noise_of: ClassVar = TemporalDifferences
    field: ClassVar[str] = "mean field"
    no_theorem: ClassVar[str] = "its direction is a mean field and not the gradient of a function"

    @override
    def draw(self, key: Array) -> Array:
        return jax.random.uniform(key, (uniforms_for(self.objective.transitions.size),), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        P = self.objective.transitions
        pairs = (self.objective.stationary[:, None] * P).ravel()
        return counts(noise, size, pairs).reshape(P.shape) / size

    @override
    def at(self, x: Array) -> Point:
        return Point(x, self._mean(x, self.objective.stationary[:, None] * self.objective.transitions))

    @override
    def grad(self, point: Point, sample: Array) -> Array:
        return self._mean(point.x, sample)

    def _mean(self, x: Array, shares: Array) -> Array:
        """The mean over pairs with these shares."""
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
        names = ("features", "transitions", "rewards", "stationary")
        features, P, r, mu = (np.asarray(getattr(self.objective, name)) for name in names)
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
