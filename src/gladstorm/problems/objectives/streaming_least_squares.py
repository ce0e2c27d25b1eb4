"""Least squares on a stream: every sample is new, and its noise grows with the distance to the solution."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import AT_LEAST_ONE, MATRIX, NON_NEGATIVE, POSITIVE, VECTOR, unlike_shapes


@part
class StreamingLeastSquares:
    """f(x) = ½ E(a·x − y)² = ½ (x − x*)ᵀΣ(x − x*) + σ²/2, where a ~ N(0, Σ) and y = a·x* + σε, ε ~ N(0, 1).

    Σ is diagonal, given by its eigenvalues. Methods that do not depend on the axes behave alike for every Σ with these
    eigenvalues; `from_covariance` turns a problem with any Σ into this form.
    """

    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    optimum: Data = leaf(VECTOR)  #: x*, the solution
    spectrum: Data = leaf(POSITIVE)  #: the eigenvalues λ > 0 of Σ, one for each coordinate
    sigma: Number = leaf(NON_NEGATIVE, default=1.0)  #: σ ≥ 0, the standard deviation of the measurement error
    own_oracle: ClassVar[str] = "streaming-least-squares"

    @classmethod
    def from_seed(
        cls, seed: int, sigma: float = 1.0, condition: float = 1.0, *, dim: int = 10
    ) -> StreamingLeastSquares:
        """x* ~ N(0, I), x⁰ ~ N(5, I), and eigenvalues that fall in equal ratios from 1 to 1/condition."""
        AT_LEAST_ONE.require("StreamingLeastSquares", "condition", condition)
        rng = np.random.default_rng(seed)
        return cls(rng.normal(5, 1, dim), rng.normal(0, 1, dim), np.geomspace(1, 1 / condition, dim), sigma)

    @classmethod
    def from_covariance(
        cls, covariance: ArrayLike, optimum: ArrayLike, start: ArrayLike, sigma: float = 1.0
    ) -> StreamingLeastSquares:
        """The problem with a covariance Σ, symmetric and positive definite, in the coordinates of its eigenvectors.

        >>> StreamingLeastSquares.from_covariance([[2, 1], [1, 2]], optimum=[0, 0], start=[1, 1]).spectrum.tolist()
        [1.0, 3.0]
        """
        matrix = np.asarray(covariance, np.float64)
        MATRIX.require("StreamingLeastSquares", "covariance", matrix)
        if matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0):
            raise ValueError(
                f"StreamingLeastSquares: covariance must be a symmetric matrix; got one of shape {matrix.shape}."
            )
        spectrum, axes = np.linalg.eigh(matrix)
        if not spectrum[0] > 0:
            raise ValueError(
                "StreamingLeastSquares: covariance must be positive definite; "
                f"got one with the eigenvalue {spectrum[0]:.4g}: leave out the directions that are never measured."
            )
        return cls(np.asarray(start, np.float64) @ axes, np.asarray(optimum, np.float64) @ axes, spectrum, sigma)

    @property
    def flaw(self) -> str | None:
        """None if its numbers fit together; otherwise a sentence that says what is wrong."""
        return unlike_shapes("StreamingLeastSquares", start=self.start, optimum=self.optimum, spectrum=self.spectrum)

    @property
    def f_inf(self) -> float:
        """f(x*) = σ²/2."""
        return float(self.sigma) ** 2 / 2

    def value(self, x: Array) -> Array:
        """f(x)."""
        return (jnp.sum(self.spectrum * (x - self.optimum) ** 2) + self.sigma**2) / 2

    def grad(self, x: Array) -> Array:
        """∇f(x) = Σ (x − x*)."""
        return self.spectrum * (x - self.optimum)

    @property
    def constants(self) -> Constants:
        """The Hessian is Σ."""
        return Constants(L0=float(np.max(self.spectrum)), L1=0.0, alpha=0.0, f_inf=self.f_inf)
