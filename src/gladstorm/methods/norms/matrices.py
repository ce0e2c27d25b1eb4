"""Norms of matrices: spectral, exact or by Newton–Schulz, of rows, of columns, and the default choice for layers.

A tensor with more axes than two is a matrix, its first axis × all others if not told. A vector is one column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, part, static
from gladstorm.core.rules import COUNT
from gladstorm.core.singular_values import singular_values, svd
from gladstorm.methods.norms.norm import PerLayer, Sign, StepNorm, together


class OfMatrices(StepNorm):
    """A norm of matrices, of which each row makes one output of a layer."""

    leading: int = 1  # fields of the parts
    inputs_first: bool = False

    def _matrix(self, tensor: Array) -> Array:
        """The tensor as a matrix with a row for each output."""
        rows = math.prod(tensor.shape[: self.leading]) if tensor.ndim > 1 else tensor.size
        matrix = tensor.reshape(rows, -1)
        return matrix.T if self.inputs_first and tensor.ndim > 1 else matrix

    def _through(self, function: Callable[[Array], Array], tensor: Array) -> Array:
        """A function of matrices of the tensor, in the tensor's form."""
        matrix = function(self._matrix(tensor))
        return (matrix.T if self.inputs_first and tensor.ndim > 1 else matrix).reshape(tensor.shape)


@part
class Spectral(OfMatrices):
    """‖x‖ = σ₁, the largest singular value, and d(v) = UVᵀ for v = UΣVᵀ: Muon's step, by an exact decomposition."""

    leading: int = static(default=1)  #: how many axes, from the first, make the rows of a matrix; −1: all but the last
    inputs_first: bool = static(default=False)  #: whether these are a layer's inputs, as in Flax; else its outputs

    def _unit(self, v: Array) -> Array:
        return self._through(self.polar, v)

    def polar(self, matrix: Array) -> Array:
        """Return UVᵀ, over the singular values that are not 0."""
        u, sigma, vt = svd(matrix)
        rounding = max(matrix.shape) * jnp.finfo(sigma.dtype).eps * jnp.max(sigma)
        orthogonal: Array = (u * (sigma > rounding)) @ vt
        return orthogonal

    def _length(self, x: Array) -> Array:
        return jnp.max(singular_values(self._matrix(x)))

    def _dual(self, v: Array) -> Array:
        return jnp.sum(singular_values(self._matrix(v)))

    def _text(self, x: Array) -> str:
        rows, columns = self._matrix(x).shape
        return f"spectral({rows}, {columns})"

    @override
    def unit_length(self, tensor: Any, /) -> float:
        rows, columns = self._matrix(tensor).shape
        return equations.spectral_length(rows, columns)


@part
class NewtonSchulz(Spectral):
    """The spectral norm with UVᵀ by a few matrix products: nearly, by `agreement`, but at a fraction of the price.

    After five steps d(v) has singular values from 0.68 to 1.21 where those of v are not below ‖v‖_F/500.
    """

    steps: int = static(COUNT, default=equations.NEWTON_SCHULZ_STEPS)  #: how many

    @override
    def polar(self, matrix: Array) -> Array:
        orthogonal: Array = equations.newton_schulz(matrix, jnp, self.steps)
        return orthogonal


@part
class Rows(OfMatrices):
    """‖x‖ = max_i ‖x_i‖ over the rows of a matrix, one for each output of a layer: d(v) has rows of length 1."""

    leading: int = static(default=1)  #: as in `Spectral`
    inputs_first: bool = static(default=False)  #: as in `Spectral`
    along: ClassVar[int] = 1  # the axis that a vector lies along

    def _unit(self, v: Array) -> Array:
        return self._through(lambda matrix: equations.normalized(matrix, self.along, jnp), v)

    def _length(self, x: Array) -> Array:
        return jnp.max(jnp.linalg.norm(self._matrix(x), axis=self.along))

    def _dual(self, v: Array) -> Array:
        return jnp.sum(jnp.linalg.norm(self._matrix(v), axis=self.along))

    def _text(self, x: Array) -> str:
        return together(["euclid"] * self._matrix(x).shape[1 - self.along])


@part
class Columns(Rows):
    """‖x‖ = max_j ‖x_j‖ over the columns of a matrix, one for each input: d(v) has columns of length 1."""

    along: ClassVar[int] = 0


@part
class Layers(PerLayer):
    """max_l ‖x_l‖_l/w_l over the tensors: one norm for matrices and one for vectors, each with its unit length w_l.

    w is √max{1, m/n} for the spectral norm of an m × n matrix, ¼ for signs, else 1, times what `Scaled` says.
    """

    matrix: StepNorm = Spectral()  #: of tensors with two axes or more
    vector: StepNorm = Sign()  #: of all others

    @override
    def choose(self, name: str, tensor: Any) -> StepNorm:
        return self.matrix if tensor.ndim > 1 else self.vector
