"""Variational inference of a logistic regression: the posterior of scikit-learn's breast-cancer data, or of yours."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.stats import norm
from typing_extensions import override

from gladstorm.core.constants import Bg0, Constants
from gladstorm.core.extras import needing_extras
from gladstorm.core.parts import Array, Data, Number, leaf, part, static
from gladstorm.core.rules import COUNT, MATRIX, POSITIVE, VECTOR
from gladstorm.problems.oracle import Differentiated, Streamed
from gladstorm.problems.own_noise.variational_gaussian import (
    WORDS,
    GaussianFamily,
    entropy_slope,
    negative_entropy,
    smoothness,
)

# How `expected_loss` integrates: Gauss–Hermite's nodes move apart with the deviation and miss the bend at 0. With 32 of
# them the error is 3e-8 at deviation 2, and 0.01 at 10. Here a function with the same tails, −tΦ(−ct) + φ(ct)/c, is
# integrated in closed form. What is left is a bump around 0, analytic in a strip of half-width π, and the midpoint rule
# converges exponentially on it.
NODES = 48
BUMP = 22.0  # beyond, the bump is below 3e-10
DEVIATIONS = 8.5  # beyond, the normal is
SLOPE = 0.6  # c


@part
class VariationalLogistic(Differentiated):
    """f(m, C) = 1/n (E U(z) − ½ log det(CCᵀ + δ²I)), z ~ N(m, CCᵀ + δ²I), U(z) = Σ_i log(1 + e^(−s_i·z)) + p‖z‖²/2.

    Up to a constant this is KL(N(m, CCᵀ + δ²I) ‖ posterior)/n for logistic regression with n examples and a normal
    prior of precision p; s_i is the label ±1 times the features of example i. Each s_i·z is normal, so f is n integrals
    in one dimension, each by quadrature within 1e-9; ∇f is the derivative of that quadrature.
    """

    start: Data = leaf(VECTOR)  #: x⁰ = (m⁰, the free entries of C⁰)
    examples: Data = leaf(MATRIX)  #: a row s_i for each example
    mode: Data = leaf(VECTOR)  #: z̄, where U is smallest
    prior: Number = leaf(POSITIVE)  #: p > 0, the precision of the prior
    floor: Number = leaf(POSITIVE)  #: δ > 0, the least standard deviation of the approximation
    family: GaussianFamily = static()  #: which entries of C are free
    f_inf: ClassVar[None] = None
    own_oracle: ClassVar[str] = "variational-logistic"
    words: ClassVar[tuple[str, ...]] = WORDS

    @classmethod
    def from_seed(
        cls, seed: int, family: str = "mean-field", prior: float = 1.0, examples: float = 569, *, dim: int = 31
    ) -> VariationalLogistic:
        """scikit-learn's breast-cancer data, standardized; m⁰ ~ N(0, I), C⁰ = I.

        `examples` is how many of the 569 examples are used, and `dim` counts the intercept and dim − 1 measurements.
        """
        COUNT.require("VariationalLogistic", "examples", examples)
        features, labels = _breast_cancer()
        columns = np.column_stack([np.ones(len(features)), features])
        for name, wanted, most in (("dim", dim, columns.shape[1]), ("examples", int(examples), columns.shape[0])):
            if wanted > most:
                raise ValueError(f"VariationalLogistic: {name} must be ≤ {most}, as the data; got {name}={wanted}.")
        chosen, rows = GaussianFamily(family, dim), slice(int(examples))
        start = chosen.start(np.random.default_rng(seed).normal(0, 1, dim), 1.0)
        return cls.from_data(columns[rows, :dim], labels[rows], start, chosen, prior)

    @classmethod
    def from_data(
        cls, features: np.ndarray, labels: np.ndarray, start: np.ndarray, family: GaussianFamily, prior: float = 1.0
    ) -> VariationalLogistic:
        """The posterior of your own data, with δ = ½ M^(−½).

        Args:
            features: A row for each example.
            labels: 0 or 1 for each example.
            start: x⁰.
            family: Which entries of C are free.
            prior: p > 0. It makes the posterior proper even for separable data, whose likelihood alone has no mode.
        """
        POSITIVE.require("VariationalLogistic", "prior", prior)
        features, labels = np.asarray(features, np.float64), np.asarray(labels)
        MATRIX.require("VariationalLogistic", "features", features)
        if labels.shape != features.shape[:1] or not np.isin(labels, (0, 1)).all():
            raise ValueError("VariationalLogistic: labels must be a 0 or a 1 for each row of features.")
        if (empty := np.flatnonzero(~features.any(axis=1))).size:
            raise ValueError(
                "VariationalLogistic: every row of features must have a number other than 0, or it says nothing about "
                f"the weights; got only zeros in row {empty[0]}: leave it out, or add a column of ones."
            )
        examples = features * np.where(labels == 1, 1.0, -1.0)[:, None]
        floor = 0.5 * _largest_curvature(examples, prior) ** -0.5
        return cls(start, examples, _mode(examples, prior), prior, floor, family)

    @property
    def flaw(self) -> str | None:
        """None if its numbers fit together; otherwise a sentence that says what is wrong."""
        shapes = [np.shape(self.start), np.shape(self.examples)[1:], np.shape(self.mode)]
        wanted = [(self.family.size,), (self.family.dim,), (self.family.dim,)]
        if shapes == wanted:
            return None
        return f"VariationalLogistic: start, a row of features and mode must have the shapes {wanted}; got {shapes}."

    @override
    def value(self, x: Array) -> Array:
        m, C = self.family.unflatten(x)
        SC = jnp.einsum("rbi,bij->rbj", self.examples.reshape(-1, *C.shape[:2]), C)
        square = jnp.sum(SC * SC, axis=(1, 2)) + self.floor**2 * jnp.sum(self.examples**2, axis=1)
        losses = jnp.sum(expected_loss(self.examples @ m, jnp.sqrt(square)))
        spread = jnp.sum(m * m) + jnp.sum(C * C) + m.size * self.floor**2
        return (losses + self.prior * spread / 2 + negative_entropy(C, self.floor)) / len(self.examples)

    @property
    def largest_curvature(self) -> float:
        """M: ‖∇²U‖/n ≤ ‖SᵀS‖/(4n) + p/n."""
        return _largest_curvature(np.asarray(self.examples), float(self.prior)) / len(self.examples)

    @property
    def constants(self) -> Constants:
        """The energy is as smooth in (m, C) as U/n is in z (Domke 2020); U ≥ p‖z‖²/2 bounds f from below."""
        n, d, p = len(self.examples), self.family.dim, float(self.prior)
        L0 = smoothness(n * self.largest_curvature, p, float(self.floor)) / n
        return Constants(L0=L0, L1=0.0, alpha=0.0, f_inf=d / 2 * (1 + np.log(p)) / n)


def _largest_curvature(examples: np.ndarray, prior: float) -> float:
    return float(np.linalg.eigvalsh(examples.T @ examples)[-1] / 4 + prior)


def _mode(examples: np.ndarray, prior: float) -> np.ndarray:
    """Where U is smallest, by Newton's method with a line search: U is strongly convex."""

    def energy(z: np.ndarray) -> float:
        return float(np.logaddexp(0, -examples @ z).sum() + prior * z @ z / 2)

    z = np.zeros(examples.shape[1])
    for _ in range(200):
        wrong = 1 / (1 + np.exp(np.clip(examples @ z, -700, 700)))
        slope = prior * z - wrong @ examples
        step = np.linalg.solve((examples.T * (wrong * (1 - wrong))) @ examples + prior * np.eye(z.size), slope)
        length = 1.0
        while length > 1e-10 and energy(z - length * step) > energy(z) - length / 4 * (slope @ step):
            length /= 2
        z = z - length * step
        if np.linalg.norm(slope) <= 1e-10 * (1 + np.abs(examples).sum()):
            break
    return z


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    with needing_extras("variational-logistic"):
        from sklearn.datasets import load_breast_cancer  # a second that only this problem should take
    features, labels = load_breast_cancer(return_X_y=True)
    return (features - features.mean(axis=0)) / features.std(axis=0), labels


class PointWithEntropy(NamedTuple):
    """x, ∇f(x), and the entropy's part of it, which all samples have."""

    x: Array
    grad: Array
    entropy: Array


@part
class VariationalLogisticOracle(Streamed):
    """∇f(x; u, w) = (r, r uᵀ) + ∇ of the entropy, r = ∇U(z)/n, z = m + Cu + δw, u and w ~ N(0, I); free entries only.

    U/n is M-smooth and smallest at z̄, so E‖(r, r uᵀ)‖² ≤ M² [(d + 1)(‖m − z̄‖² + dδ²) + (d + 3)‖C‖²] (Domke 2019). Hence
    BG-0 holds around z̄ and C = 0 with B² = M² (d + 3) and G² = M² d (d + 1) δ², also for differences of one sample. On
    the breast-cancer data this is loose by orders of magnitude. A batch of b samples costs b draws.
    """

    objective: VariationalLogistic
    noise_of: ClassVar = VariationalLogistic
    at_once: ClassVar[int] = 1  # each multiplies all examples

    @override
    def at(self, x: Array) -> PointWithEntropy:
        objective = self.objective
        m, C = objective.family.unflatten(x)
        entropy = objective.family.flatten(jnp.zeros_like(m), entropy_slope(C, objective.floor))
        return PointWithEntropy(x, objective.grad(x), entropy / len(objective.examples))

    @override
    def single(self, key: Array) -> Array:
        return jax.random.normal(key, (2, *self.objective.family.shape[:2]), jnp.result_type(float))

    @override
    def gradient(self, point: PointWithEntropy, single: Array) -> Array:
        objective, family, (u, w) = self.objective, self.objective.family, single
        m, C = family.unflatten(point.x)
        z = m + ((C @ u[..., None])[..., 0] + objective.floor * w).ravel()
        wrong = jax.nn.sigmoid(-(objective.examples @ z))
        r = (objective.prior * z - wrong @ objective.examples) / len(objective.examples)
        return family.flatten(r, family.rows(r) * u[..., None, :]) + point.entropy

    @property
    @override
    def bg0(self) -> Bg0:
        objective, d, M = self.objective, self.objective.family.dim, self.objective.largest_curvature
        anchor = objective.family.start(np.asarray(objective.mode), 0.0)
        return Bg0(M * (d + 3) ** 0.5, M * float(objective.floor) * (d * (d + 1)) ** 0.5, anchor, "z̄ and C = 0")


def expected_loss(mean: Array, deviation: Array) -> Array:
    """E log(1 + e^(−t)), t ~ N(mean, deviation²), within 1e-9 for every mean and deviation > 0.

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
