"""Variational inference of a logistic regression on scikit-learn's breast-cancer data: a development problem.

The data come with scikit-learn: pip install 'gladstorm[data]'.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.stats import norm

from gladstorm.core.parts import Array, Data, Number, leaf, part, static
from gladstorm.core.rules import MATRIX, POSITIVE, VECTOR
from gladstorm.problems.oracle import Differentiated, Streamed
from gladstorm.problems.own_noise.variational_gaussian import GaussianFamily, entropy_slope, negative_entropy

EXAMPLES, DIM, PRIOR = 100, 6, 1.0  # examples used, an intercept and five measurements, the prior's precision
# How `expected_loss` integrates: Gauss–Hermite's nodes move apart with the deviation and miss the bend at 0. With 32 of
# them the error is 3e-8 at deviation 2, and 0.01 at 10. Here a function with the same tails, −tΦ(−ct) + φ(ct)/c, is
# integrated in closed form. What is left is a bump around 0, analytic in a strip of half-width π, and the midpoint rule
# converges exponentially on it.
NODES = 48
BUMP = 22.0  # beyond, the bump is below 3e-10
DEVIATIONS = 8.5  # beyond, the normal is
SLOPE = 0.6  # c


@part
class LogisticPosterior(Differentiated):
    """f(m, C) = 1/n (E U(z) − ½ log det(CCᵀ + δ²I)), z ~ N(m, CCᵀ + δ²I), U(z) = Σ_i log(1 + e^(−s_i·z)) + p‖z‖²/2.

    Up to a constant this is KL(N(m, CCᵀ + δ²I) ‖ posterior)/n for logistic regression with n examples and a normal
    prior of precision p; s_i is the label ±1 times the features of example i. Each s_i·z is normal, so f is n integrals
    in one dimension, each by quadrature within 1e-9; ∇f is the derivative of that quadrature.
    """

    start: Data = leaf(VECTOR)  #: x⁰ = (m⁰, the free entries of C⁰)
    examples: Data = leaf(MATRIX)  #: a row s_i for each example
    prior: Number = leaf(POSITIVE)  #: p > 0, the precision of the prior
    floor: Number = leaf(POSITIVE)  #: δ > 0, the least standard deviation of the approximation
    family: GaussianFamily = static()  #: which entries of C are free
    f_inf: ClassVar[None] = None
    constants: ClassVar[None] = None

    def value(self, x: Array) -> Array:
        """Return f(x), by quadrature."""
        m, C = self.family.unflatten(x)
        SC = jnp.einsum("rbi,bij->rbj", self.examples.reshape(-1, *C.shape[:2]), C)
        square = jnp.sum(SC * SC, axis=(1, 2)) + self.floor**2 * jnp.sum(self.examples**2, axis=1)
        losses = jnp.sum(expected_loss(self.examples @ m, jnp.sqrt(square)))
        spread = jnp.sum(m * m) + jnp.sum(C * C) + m.size * self.floor**2
        return (losses + self.prior * spread / 2 + negative_entropy(C, self.floor)) / len(self.examples)


class PointWithEntropy(NamedTuple):
    """Point x with ∇f(x), and the entropy's part of it, which all samples have."""

    x: Array
    grad: Array
    entropy: Array


@part
class LogisticPosteriorOracle(Streamed):
    """∇f(x; u, w) = (r, r uᵀ) + ∇ of the entropy, r = ∇U(z)/n, z = m + Cu + δw, u and w ~ N(0, I)."""

    objective: LogisticPosterior
    noise_of: ClassVar = LogisticPosterior
    at_once: ClassVar[int] = 1  # each multiplies all examples

    def at(self, x: Array) -> PointWithEntropy:
        """Return the point x with ∇f(x) and the entropy's part of it."""
        objective = self.objective
        m, C = objective.family.unflatten(x)
        entropy = objective.family.flatten(jnp.zeros_like(m), entropy_slope(C, objective.floor))
        return PointWithEntropy(x, objective.grad(x), entropy / len(objective.examples))

    def single(self, key: Array) -> Array:
        """Draw u and w."""
        return jax.random.normal(key, (2, *self.objective.family.shape[:2]), jnp.result_type(float))

    def gradient(self, point: Any, single: Array) -> Array:
        """Return ∇f(x; u, w)."""
        objective, family, (u, w) = self.objective, self.objective.family, single
        m, C = family.unflatten(point.x)
        z = m + ((C @ u[..., None])[..., 0] + objective.floor * w).ravel()
        wrong = jax.nn.sigmoid(-(objective.examples @ z))
        r = (objective.prior * z - wrong @ objective.examples) / len(objective.examples)
        noisy: Array = family.flatten(r, family.rows(r) * u[..., None, :]) + point.entropy
        return noisy


def logistic_posterior(seed: int) -> LogisticPosteriorOracle:
    """Return the mean-field problem of the first examples, standardized: m⁰ ~ N(0, I) from the seed, C⁰ = I."""
    from sklearn.datasets import load_breast_cancer  # a second that only this problem should take

    features, labels = load_breast_cancer(return_X_y=True)
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    columns = np.column_stack([np.ones(len(features)), standard])[:EXAMPLES, :DIM]
    examples = columns * np.where(labels[:EXAMPLES] == 1, 1.0, -1.0)[:, None]
    floor = 0.5 * float(np.linalg.eigvalsh(examples.T @ examples)[-1] / 4 + PRIOR) ** -0.5
    family = GaussianFamily("mean-field", DIM)
    start = family.start(np.random.default_rng(seed).normal(0, 1, DIM), 1.0)
    return LogisticPosteriorOracle(LogisticPosterior(start, examples, PRIOR, floor, family))


def expected_loss(mean: Array, deviation: Array) -> Array:
    """Return E log(1 + e^(−t)), t ~ N(mean, deviation²), within 1e-9 for every mean and deviation > 0.

    >>> with jax.enable_x64(True):
    ...     print(f"{expected_loss(jnp.array(0.5), jnp.array(10.0)):.9f}")
    3.809219486
    """
    low = jnp.maximum(-BUMP, mean - DEVIATIONS * deviation)
    high = jnp.minimum(BUMP, mean + DEVIATIONS * deviation)
    # Nodes stay where they are when the integral is differentiated: the derivative is as exact as the value.
    step = lax.stop_gradient(jnp.maximum(high - low, 0.0) / NODES)[..., None]
    t = lax.stop_gradient(low)[..., None] + step * (jnp.arange(NODES) + 0.5)
    bump = jax.nn.softplus(-t) - _wide_loss(t, 1 / SLOPE)
    density = norm.pdf(t, mean[..., None], deviation[..., None])
    return _wide_loss(mean, jnp.sqrt(deviation**2 + SLOPE**-2)) + jnp.sum(step * bump * density, axis=-1)


def _wide_loss(t: Array, deviation: Array | float) -> Array:
    """E max(−(t + deviation · normal), 0)."""
    return deviation * norm.pdf(t / deviation) - t * norm.cdf(-t / deviation)
