"""Norms of matrices: spectral, exact or by Newton–Schulz, of rows, of columns, and the default choice for layers.

A tensor with more axes than two is a matrix: one axis is kept, the others are one. A vector is a matrix of one column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, part, static
from gladstorm.core.rules import COUNT
from gladstorm.methods.norms.norm import ByTensor, PerLayer, Sign, StepNorm, together


class OfMatrices(ByTensor):
    """A norm of matrices, of which each row makes one output of a layer."""

    outputs: int = 0  # a field: which axis has the outputs

    def _matrix(self, tensor: Array) -> Array:
        """The tensor as a matrix with a row for each output."""
        rows = jnp.moveaxis(jnp.atleast_1d(tensor), self._axis(tensor), 0)
        return rows.reshape(rows.shape[0], -1)

    def _through(self, function: Callable[[Array], Array], tensor: Array) -> Array:
        """A function of matrices of the tensor, in the tensor's form."""
        axis, shape = self._axis(tensor), jnp.atleast_1d(tensor).shape
        rows = function(self._matrix(tensor)).reshape(shape[axis], *shape[:axis], *shape[axis + 1 :])
        return jnp.moveaxis(rows, 0, axis).reshape(tensor.shape)

    def _axis(self, tensor: Array) -> int:
        return self.outputs % tensor.ndim if tensor.ndim > 1 else 0


@part
class Spectral(OfMatrices):
    """‖x‖ = σ₁, the largest singular value, and d(v) = UVᵀ for v = UΣVᵀ: Muon's step, by an exact decomposition."""

    outputs: int = static(default=0)  #: the axis of a layer's outputs: 0 in torch and Equinox, −1 in Flax

    @override
    def _unit(self, v: Array) -> Array:
        return self._through(self.polar, v)

    def polar(self, matrix: Array) -> Array:
        """Return UVᵀ, over the singular values that are not 0."""
        u, sigma, vt = jnp.linalg.svd(matrix, full_matrices=False)
        rounding = max(matrix.shape) * jnp.finfo(sigma.dtype).eps * sigma[:1]
        orthogonal: Array = (u * (sigma > rounding)) @ vt
        return orthogonal

    @override
    def _length(self, x: Array) -> Array:
        return jnp.max(jnp.linalg.svd(self._matrix(x), compute_uv=False))

    @override
    def _dual(self, v: Array) -> Array:
        return jnp.sum(jnp.linalg.svd(self._matrix(v), compute_uv=False))

    @override
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
    """‖x‖ = max_i ‖x_i‖ over the rows of a matrix: d(v) has rows of length 1."""

    outputs: int = static(default=0)  #: as in `Spectral`
    along: ClassVar[int] = 1  # the axis that a vector lies along

    @override
    def _unit(self, v: Array) -> Array:
        return self._through(lambda matrix: equations.normalized(matrix, self.along, jnp), v)

    @override
    def _length(self, x: Array) -> Array:
        return jnp.max(jnp.linalg.norm(self._matrix(x), axis=self.along))

    @override
    def _dual(self, v: Array) -> Array:
        return jnp.sum(jnp.linalg.norm(self._matrix(v), axis=self.along))

    @override
    def _text(self, x: Array) -> str:
        return together(["euclid"] * self._matrix(x).shape[1 - self.along])


@part
class Columns(Rows):
    """‖x‖ = max_j ‖x_j‖ over the columns of a matrix: d(v) has columns of length 1."""

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
