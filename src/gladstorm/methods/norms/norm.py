"""The base classes of norms, Euclid's and that of signs, and what is made of other norms: scaled, stacked, layers.

`unit` and `length` are Euclid's for trees of any size: the largest entry is divided out first, so that squares neither
overflow nor vanish. With `axes` the result is that of a whole of which every device has a part.

x⁺ = x − γ d(v), where d(v) is the point of the unit ball that agrees most with v (a linear minimization oracle). So
‖x^k − x⁰‖ ≤ γk in this norm, whatever the gradients, and what is bounded is ‖∇f‖_*, the dual norm. docs/theory.md has
the price τ of a norm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import NEVER_ZERO
from gladstorm.theory import Norm

Axes = str | tuple[str, ...] | None  # of a mesh that every leaf is cut along, inside `jax.shard_map`


def unit(v: Any, axes: Axes = None) -> Any:
    """The unit vector v/‖v‖, and 0 where v = 0.

    >>> unit(jnp.array([3e30, 4e30])).tolist(), unit(jnp.zeros(2)).tolist()
    ([0.6000000238418579, 0.800000011920929], [0.0, 0.0])
    """
    _, scaled, norm = _split(v, axes)
    return jax.tree.map(lambda leaf: leaf / jnp.where(norm == 0, 1, norm), scaled)


def length(v: Any, axes: Axes = None) -> Array:
    """‖v‖, or the largest number that there is if ‖v‖ exceeds it; NaN unless v is finite.

    >>> float(length({"a": jnp.array([3.0]), "b": jnp.array([4.0])}))
    5.0
    """
    largest, _, norm = _split(v, axes)
    return jnp.minimum(largest * norm, float(jnp.finfo(norm.dtype).max))


def is_finite(v: Any, axes: Axes = None) -> Array:
    """Whether every entry is finite: even where ‖v‖ overflows, v/‖v‖ does not.

    >>> bool(is_finite(jnp.array([3e38, 3e38]))), bool(is_finite(jnp.array([1.0, jnp.inf])))
    (True, False)
    """
    return jnp.isfinite(_split(v, axes)[2])


def _split(v: Any, axes: Axes) -> tuple[Array, Any, Array]:
    """A number near the largest entry, v divided by it, and the length of that; NaN where an entry is not finite."""
    largest = jnp.max(jnp.array([jnp.max(jnp.abs(leaf), initial=0) for leaf in jax.tree.leaves(v)]), initial=0)
    if axes:
        largest = jax.lax.pmax(largest, axes)
    most = 1 / float(jnp.finfo(largest.dtype).tiny)  # XLA multiplies by the reciprocal, and flushes that of more to 0
    largest = jnp.where(jnp.isinf(largest), jnp.nan, jnp.minimum(largest, most))
    scaled = jax.tree.map(lambda leaf: leaf / jnp.where(largest == 0, 1, largest), v)
    squares = sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(scaled))
    return largest, scaled, jnp.sqrt(jax.lax.psum(squares, axes) if axes else squares)


class StepNorm(ABC):
    """A norm on trees of arrays, in which steps have length 1: the largest of the tensors' norms, its dual their sum.

    A norm of single tensors writes `_unit`, `_length`, `_dual` and `_text`; one of whole trees overrides the methods
    that call these.
    """

    _unit: Callable[[Array], Array]
    _length: Callable[[Array], Array]
    _dual: Callable[[Array], Array]
    _text: Callable[[Array], str]

    def unit(self, v: Any) -> Any:
        """Return d(v), the point of the unit ball that agrees most with v, and 0 where v = 0."""
        return jax.tree.map(self._unit, v)

    def length(self, x: Any) -> Array:
        """Return the length ‖x‖."""
        return jnp.max(jnp.array([self._length(tensor) for tensor in jax.tree.leaves(x)]))

    def dual(self, v: Any) -> Array:
        """Return ‖v‖_* = max ⟨v, d⟩ over the unit ball."""
        return jnp.sum(jnp.array([self._dual(tensor) for tensor in jax.tree.leaves(v)]))

    def text(self, x: Any) -> str:
        """Return the name, for trees like x, that `theory.plan` reads."""
        return together(map(self._text, jax.tree.leaves(x)))

    def unit_length(self, _tensor: Any, /) -> float:
        """Return w, the length of a step of `Layers` along such a tensor, for γ = 1."""
        return 1.0

    def in_theory(self, x: Any) -> Norm:
        """Return what theory knows of this norm, for trees like x and noise measured in Euclid's: τ, κ, ν."""
        return Norm.from_text(self.text(x))

    def agreement(self, v: Any) -> Array:
        """Return θ₁ = ⟨v, d(v)⟩/‖v‖_*, measured: 1 if the unit step is exact, and where v = 0."""
        inner, dual = sum(jax.tree.leaves(jax.tree.map(jnp.vdot, v, self.unit(v)))), self.dual(v)
        return jnp.where(dual == 0, 1.0, inner / jnp.where(dual == 0, 1.0, dual))


@part
class Euclid(StepNorm):
    """‖x‖ = (Σ x_i²)^½ over all tensors together, the norm of the paper; d(v) = v/‖v‖."""

    @override
    def unit(self, v: Any) -> Any:
        return unit(v)

    @override
    def length(self, x: Any) -> Array:
        return length(x)

    @override
    def dual(self, v: Any) -> Array:
        return length(v)

    @override
    def text(self, x: Any) -> str:
        return "euclid"


@part
class Sign(StepNorm):
    """‖x‖ = max_i of `|x_i|`, and d(v) = sign(v) with sign(0) = 0: sign descent."""

    def _unit(self, v: Array) -> Array:
        return jnp.sign(v)

    def _length(self, x: Array) -> Array:
        return jnp.max(jnp.abs(x))

    def _dual(self, v: Array) -> Array:
        return jnp.sum(jnp.abs(v))

    def _text(self, x: Array) -> str:
        return f"sign({jnp.size(x)})"

    @override
    def unit_length(self, tensor: Any, /) -> float:
        return equations.sign_scale(tensor.shape)


@part
class Stacked(StepNorm):
    """‖x‖ = max_i ‖x_i‖ over the slices x_i along the first axis, tensors of one shape: layers of a scan, experts."""

    norm: StepNorm  #: that of a slice

    def _unit(self, v: Array) -> Array:
        unit: Array = jax.vmap(self.norm.unit)(v)
        return unit

    def _length(self, x: Array) -> Array:
        return jnp.max(jax.vmap(self.norm.length)(x))

    def _dual(self, v: Array) -> Array:
        return jnp.sum(jax.vmap(self.norm.dual)(v))

    def _text(self, x: Array) -> str:
        return together([self.norm.text(x[0])] * x.shape[0])

    @override
    def unit_length(self, tensor: Any, /) -> float:
        return self.norm.unit_length(tensor[0])


@part
class Scaled(StepNorm):
    """‖x‖/w in terms of another norm: d(v) is w times as long."""

    norm: StepNorm  #: the other norm
    weight: Number = leaf(NEVER_ZERO)  #: w > 0

    @override
    def unit(self, v: Any) -> Any:
        return jax.tree.map(lambda d: self.weight * d, self.norm.unit(v))

    @override
    def length(self, x: Any) -> Array:
        return self.norm.length(x) / self.weight

    @override
    def dual(self, v: Any) -> Array:
        return self.weight * self.norm.dual(v)

    @override
    def text(self, x: Any) -> str:
        return _weighted(self.weight, self.norm.text(x))

    @override
    def unit_length(self, tensor: Any, /) -> float:
        return self.norm.unit_length(tensor)


class PerLayer(StepNorm):
    """max_l ‖x_l‖_l/w_l over the tensors of a tree, each with a norm of its own and its `unit_length` w_l.

    A step moves tensor l by γ w_l. A choice of your own inherits this class and writes `choose`.
    """

    @abstractmethod
    def choose(self, name: str, tensor: Any) -> StepNorm:
        """Return the norm of a tensor; names inside nested trees are joined by dots, as in layers.0.bias."""

    def _chosen(self, path: Any, tensor: Any) -> tuple[StepNorm, float]:
        norm = self.choose(jax.tree_util.keystr(path, simple=True, separator="."), tensor)
        return norm, norm.unit_length(tensor)

    def _over(self, tree: Any, each: Any) -> list[Any]:
        return [each(tensor, *self._chosen(path, tensor)) for path, tensor in jax.tree.leaves_with_path(tree)]

    @override
    def unit(self, v: Any) -> Any:
        units = self._over(v, lambda v, norm, w: w * norm.unit(v))
        return jax.tree.unflatten(jax.tree.structure(v), units)

    @override
    def length(self, x: Any) -> Array:
        return jnp.max(jnp.array(self._over(x, lambda x, norm, w: norm.length(x) / w)))

    @override
    def dual(self, v: Any) -> Array:
        return jnp.sum(jnp.array(self._over(v, lambda v, norm, w: w * norm.dual(v))))

    @override
    def text(self, x: Any) -> str:
        return together(self._over(x, lambda x, norm, w: _weighted(w, norm.text(x))))


def _weighted(w: Any, text: str) -> str:
    return text if w == 1 else f"layers({float(w)!r} * {text})"


def together(texts: Iterable[str]) -> str:
    """The largest of norms, as theory reads it."""
    first, *others = texts
    return f"layers({', '.join([first, *others])})" if others else first
