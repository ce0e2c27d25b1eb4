"""Variational inference of a Gaussian: everything about it is known in closed form."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, leaf, part, static
from gladstorm.core.rules import AT_LEAST_ONE, POSITIVE, VECTOR
from gladstorm.problems.objectives.gaussian_families import (
    WORDS,
    GaussianFamily,
    entropy_slope,
    negative_entropy,
    smoothness,
)


@part
class VariationalGaussian:
    """f(m, C) = KL(N(m, CCᵀ + δ²I) ‖ N(z̄, Λ⁻¹)), Λ = diag(λ): variational inference of a Gaussian.

    With C_i the rows of C, f is ½ Σ_i λ_i ((m_i − z̄_i)² + ‖C_i‖² + δ²) − ½ log det(CCᵀ + δ²I) − ½ Σ_i log λ_i − d/2. It
    is 0 at m = z̄, CCᵀ = Λ⁻¹ − δ²I. It is not convex: C and −C have the same value, and C = 0 is a saddle. The floor δ
    makes f smooth.
    """

    start: Data = leaf(VECTOR)  #: x⁰ = (m⁰, the free entries of C⁰)
    center: Data = leaf(VECTOR)  #: z̄, the mean of the target
    precision: Data = leaf(POSITIVE)  #: λ > 0, the precisions of the target
    floor: Number = leaf(POSITIVE)  #: δ > 0, the least standard deviation of the approximation
    family: GaussianFamily = static()  #: which entries of C are free
    f_inf: ClassVar[float] = 0.0
    own_oracle: ClassVar[str] = "variational-gaussian"
    words: ClassVar[tuple[str, ...]] = WORDS

    @classmethod
    def from_seed(
        cls, seed: int, family: str = "full-rank", condition: float = 1.0, *, dim: int = 5
    ) -> VariationalGaussian:
        """z̄ ~ N(0, I), m⁰ ~ N(3, I), C⁰ = I, δ = ½ λ_max^(−½), and λ that grows in equal ratios from 1 to `condition`.

        `family` says which entries of C are free: full-rank, lower-triangular or mean-field.
        """
        AT_LEAST_ONE.require("VariationalGaussian", "condition", condition)
        rng = np.random.default_rng(seed)
        chosen = GaussianFamily(family, dim)
        start = chosen.start(rng.normal(3, 1, dim), 1.0)
        return cls(start, rng.normal(0, 1, dim), np.geomspace(1, condition, dim), 0.5 * condition**-0.5, chosen)

    @property
    def flaw(self) -> str | None:
        """None if its numbers fit together; otherwise a sentence that says what is wrong."""
        sizes = [np.size(each) for each in (self.start, self.center, self.precision)]
        if sizes != [self.family.size, self.family.dim, self.family.dim]:
            wanted = f"{self.family.size}, {self.family.dim} and {self.family.dim} numbers"
            return f"VariationalGaussian: start, center and precision must have {wanted}; got {sizes}."
        most = float(np.max(self.precision)) ** -0.5
        if not float(self.floor) < most:
            return f"VariationalGaussian: floor must be < {most:.4g}, the target's least deviation; got {self.floor}."
        return None

    def value(self, x: Array) -> Array:
        """f(x)."""
        m, C = self.family.read(x)
        spread = jnp.sum(C * C, axis=-1).ravel() + self.floor**2
        energy = jnp.sum(self.precision * ((m - self.center) ** 2 + spread) - jnp.log(self.precision) - 1) / 2
        return energy + negative_entropy(C, self.floor)

    def grad(self, x: Array) -> Array:
        """∇f(x) = (Λ (m − z̄), ΛC − (CCᵀ + δ²I)⁻¹ C)."""
        m, C = self.family.read(x)
        slope = self.family.rows(self.precision) * C + entropy_slope(C, self.floor)
        return self.family.written(self.precision * (m - self.center), slope)

    @property
    def constants(self) -> Constants:
        """α = 0: the curvatures of the energy are λ, those of the entropy lie within [−1/δ², 1/(8δ²)]."""
        L0 = smoothness(float(np.max(self.precision)), float(np.min(self.precision)), float(self.floor))
        return Constants(L0=L0, L1=0.0, alpha=0.0, f_inf=self.f_inf)
