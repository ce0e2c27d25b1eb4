"""Objectives of matrices: functions of singular values with known constants, matrix sensing, a network of two layers.

x is a vector as elsewhere; `tree` says how it is read, and steps see matrices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part, static
from gladstorm.core.rules import COUNT, FINITE, MATRIX, VECTOR
from gladstorm.core.singular_values import singular_values, svd
from gladstorm.problems.functions import Tree, flatten
from gladstorm.problems.objectives.vectors import require_memory_for_rows
from gladstorm.problems.oracle import Differentiated


def _tree(**shapes: tuple[int, ...]) -> Tree:
    tree = flatten("tree", {name: np.zeros(shape) for name, shape in shapes.items()})[1]
    assert tree is not None
    return tree


@part
class OfSingularValues(ABC):
    """f(X) = Σ_i φ(σ_i) over the singular values of a matrix; φ is even, and φ(0) = φ'(0) = 0."""

    start: Data = leaf(VECTOR)  #: x⁰, the rows of X one after the other
    rows: int = static(COUNT)  #: m
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, rows: float = 0, *, dim: int = 25) -> Self:
        """X⁰ ~ N(0, I), as square as `dim` allows if `rows` is not given."""
        side = int(rows) or next(side for side in range(math.isqrt(dim), 0, -1) if dim % side == 0)
        if side < 0 or side != (rows or side) or dim % side:
            raise ValueError(f"objective: rows must be a whole number that divides dim={dim}; got rows={rows:g}.")
        return cls(np.random.default_rng(seed).normal(0, 1, dim), side)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return self.rows, np.shape(self.start)[-1] // self.rows

    @property
    def tree(self) -> Tree:
        """One matrix, X."""
        return _tree(X=self.shape)

    @abstractmethod
    def phi(self, sigma: Array) -> Array:
        """Return φ of each singular value."""

    @abstractmethod
    def slope(self, sigma: Array) -> Array:
        """Return φ' of each singular value."""

    def value(self, x: Array) -> Array:
        """Return the value f(X)."""
        return jnp.sum(self.phi(singular_values(x.reshape(self.shape))))

    def grad(self, x: Array) -> Array:
        """∇f(X) = U φ'(Σ) Vᵀ, for X = UΣVᵀ."""
        u, sigma, vt = svd(x.reshape(self.shape))
        return jnp.ravel((u * self.slope(sigma)) @ vt)

    @abstractmethod
    def constants_for(self, rank: int) -> Constants:
        """Return L0, L1 and α: with rank 1 in the Euclidean norm, with min{m, n} from the spectral to the nuclear."""

    @property
    def constants(self) -> Constants:
        """Constants in the Euclidean norm, where curvature is at most that of φ at the largest singular value."""
        return self.constants_for(1)

    @property
    def spectral_constants(self) -> Constants:
        """Constants for steps in the spectral norm: ‖∇f(Y) − ∇f(X)‖_* ≤ (L0 + L1 max ‖∇f‖_*^α) ‖Y − X‖_op."""
        return self.constants_for(min(self.shape))


@part
class SpectralLog(OfSingularValues):
    """f(X) = Σ_i log(1 + σ_i²), with singular values σ of a matrix: in the spectral norm α = 0 and L0 = 2 min{m, n}."""

    @override
    def phi(self, sigma: Array) -> Array:
        return jnp.log1p(sigma * sigma)

    @override
    def slope(self, sigma: Array) -> Array:
        return 2 * sigma / (1 + sigma * sigma)

    @override
    def constants_for(self, rank: int) -> Constants:
        return Constants(L0=2.0 * rank, L1=0.0, alpha=0.0, f_inf=self.f_inf)


@part
class SpectralCube(OfSingularValues):
    """f(X) = Σ_i σ_i³, with singular values σ of a matrix: in the spectral norm α = ½, L0 = 0, L1 = 2√(3 min{m, n})."""

    @override
    def phi(self, sigma: Array) -> Array:
        return sigma**3

    @override
    def slope(self, sigma: Array) -> Array:
        return 3 * sigma * sigma

    @override
    def constants_for(self, rank: int) -> Constants:
        return Constants(L0=0.0, L1=2 * math.sqrt(3 * rank), alpha=0.5, f_inf=self.f_inf)


@part
class SpectralCosh(OfSingularValues):
    """f(X) = Σ_i (cosh σ_i − 1), σ singular values of a matrix: in the spectral norm α = 1, L0 = min{m, n}, L1 = 1."""

    @override
    def phi(self, sigma: Array) -> Array:
        return 2 * jnp.sinh(sigma / 2) ** 2

    @override
    def slope(self, sigma: Array) -> Array:
        return jnp.sinh(sigma)

    @override
    def constants_for(self, rank: int) -> Constants:
        return Constants(L0=float(rank), L1=1.0, alpha=1.0, f_inf=self.f_inf)


@part
class MatrixSensing(Differentiated):
    """f(U, V) = 1/(2n) Σ_r (⟨A_r, UVᵀ⟩ − y_r)²: recover a matrix of low rank from linear measurements of it."""

    A: Data = leaf(FINITE)  #: the measurements, a matrix A_r for each
    y: Data = leaf(VECTOR)  #: what they say
    start: Data = leaf(VECTOR)  #: x⁰, the rows of U and then those of V
    rank: int = static(COUNT)  #: columns of U and of V
    constants: ClassVar[None] = None
    f_inf: ClassVar[float] = 0.0

    @classmethod
    def from_seed(cls, seed: int, n: float = 200, rank: float = 2, *, dim: int = 40) -> MatrixSensing:
        """`n` measurements, A_r ~ N(0, I) each, without error, of a matrix U*V*ᵀ; all factors ~ N(0, I/rank)."""
        k = int(COUNT.whole("MatrixSensing", "rank", rank))
        if dim % k or dim < 2 * k:
            raise ValueError(f"MatrixSensing: dim must be a multiple of rank={k}, at least twice; got dim={dim}.")
        sides = dim // k
        require_memory_for_rows("MatrixSensing", "n", n, "measurements", sides * sides)
        rng = np.random.default_rng(seed)
        signal, start = rng.normal(0, 1 / math.sqrt(k), (2, sides, k))
        left = sides - sides // 2
        A = rng.normal(size=(int(n), left, sides - left))
        y = np.einsum("rij,ik,jk->r", A, signal[:left], signal[left:])
        return cls(A, y, start.ravel(), k)

    @property
    def tree(self) -> Tree:
        """How x is read as U and V."""
        return _tree(U=(self.A.shape[-2], self.rank), V=(self.A.shape[-1], self.rank))

    def losses(self, x: Array) -> Array:
        """½ (⟨A_r, UVᵀ⟩ − y_r)² for every r: their mean is f."""
        factors = self.tree.unflatten(x)
        return (jnp.einsum("rij,ij->r", self.A, factors["U"] @ factors["V"].T) - self.y) ** 2 / 2

    @override
    def value(self, x: Array) -> Array:
        return self.losses(x).mean()


@part
class TwoLayerNetwork(Differentiated):
    """f(W, b, w) = 1/(2n) Σ_i (w·tanh(W a_i + b) − y_i)²: a network of two layers, on n examples."""

    A: Data = leaf(MATRIX)  #: the inputs, a row a_i for each example
    y: Data = leaf(VECTOR)  #: the labels
    start: Data = leaf(VECTOR)  #: x⁰
    hidden: int = static(COUNT)  #: the width of the hidden layer
    constants: ClassVar[None] = None
    f_inf: ClassVar[None] = None

    @classmethod
    def from_seed(cls, seed: int, n: float = 200, hidden: float = 8, *, dim: int = 96) -> TwoLayerNetwork:
        """`n` examples a ~ N(0, I) with labels of another such network and N(0, 0.1²); weights ~ N(0, 1/inputs)."""
        h = int(COUNT.whole("TwoLayerNetwork", "hidden", hidden))
        if dim % h or dim < 3 * h:
            raise ValueError(
                f"TwoLayerNetwork: dim must be a multiple of hidden={h}, at least three times; got dim={dim}."
            )
        inputs = dim // h - 2
        require_memory_for_rows("TwoLayerNetwork", "n", n, "examples", inputs + h)
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(int(n), inputs))
        scale = np.concatenate([np.full(h * inputs, inputs**-0.5), np.full(h, 0.1), np.full(h, h**-0.5)])
        teacher, start = scale * rng.normal(size=(2, dim))
        made = cls(A, np.zeros(int(n)), start, h)
        with jax.enable_x64(True):
            labels = np.asarray(made.outputs(jnp.asarray(teacher))) + 0.1 * rng.normal(size=int(n))
        return cls(A, labels, start, h)

    @property
    def tree(self) -> Tree:
        """W, b and w: a matrix, a vector, and a matrix of one row."""
        return _tree(W=(self.hidden, self.A.shape[-1]), b=(self.hidden,), w=(1, self.hidden))

    def outputs(self, x: Array) -> Array:
        """w·tanh(W a_i + b) for every i."""
        layers = self.tree.unflatten(x)
        outputs: Array = jnp.tanh(self.A @ layers["W"].T + layers["b"]) @ layers["w"][0]
        return outputs

    def losses(self, x: Array) -> Array:
        """½ (w·tanh(W a_i + b) − y_i)² for every i: their mean is f."""
        return (self.outputs(x) - self.y) ** 2 / 2

    @override
    def value(self, x: Array) -> Array:
        return self.losses(x).mean()
