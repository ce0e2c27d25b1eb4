"""Distributionally robust regression, as in the experiments of Chen et al. 2023, on data drawn here."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.memory import require_room
from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import COUNT, MATRIX, POSITIVE, VECTOR


@part
class Dro:
    """Distributionally robust regression: f(w, t) = λ/n Σ_i ψ*((l_i(w) − t)/λ) + t, ψ*(s) = max(s/2 + 1, 0)² − 1.

    The variable is x = (w, t), the loss of example i is l_i(w) = ½ (a_i·w − y_i)² + 0.1 Σ_j ln(1 + |w_j|), and ψ* is
    the conjugate of the χ² divergence. The curvature grows like 1/λ.
    """

    A: Data = leaf(MATRIX)  #: the features, a row a_i for each example
    y: Data = leaf(VECTOR)  #: the labels
    start: Data = leaf(VECTOR)  #: x⁰, where runs start
    lam: float = leaf(POSITIVE, default=0.01)  #: λ > 0: the smaller, the more robust
    constants: ClassVar[None] = None
    f_inf: ClassVar[None] = None

    @classmethod
    def from_seed(cls, seed: int, n: float = 2000, *, dim: int = 35) -> Dro:
        """n examples: a_i and w⁰ standard normal, y = a·w* + N(0, 1) standardised, t⁰ = 0.1. `dim` counts w and t."""
        COUNT.require("Dro", "n", n)
        if dim < 2:
            raise ValueError(f"Dro: dim must be at least 2, one of them t; got dim={dim}.")
        require_room(
            "Dro", f"n = {int(n):,} examples of dim = {dim:,} numbers", 8 * int(n) * dim, "choose a smaller dim or n"
        )
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(int(n), dim - 1))
        y = A @ rng.normal(size=dim - 1) / np.sqrt(dim - 1) + rng.normal(size=int(n))
        start = np.append(rng.normal(size=dim - 1), 0.1)
        return cls(A, (y - y.mean()) / (y.std() or 1.0), start)

    def losses(self, x: Array) -> Array:
        """λ ψ*((l_i − t)/λ) + t for every i: their mean is f."""
        w, t = x[:-1], x[-1]
        loss = (self.A @ w - self.y) ** 2 / 2 + 0.1 * jnp.sum(jnp.log1p(jnp.abs(w)))
        return self.lam * (jnp.maximum((loss - t) / self.lam / 2 + 1, 0) ** 2 - 1) + t

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.losses(x).mean()

    def grad(self, x: Array) -> Array:
        """∇f(x), with 0 for the derivative of |w_j| where w_j = 0."""
        gradient: Array = jax.grad(self.value)(x)
        return gradient
