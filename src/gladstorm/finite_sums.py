"""Finite sums: f is the mean of n losses, and a sample is a few of them, drawn with replacement."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gladstorm.constants import Constants
from gladstorm.objectives import Objective
from gladstorm.parts import Array, leaf, part, static
from gladstorm.rules import VECTOR

AT_ONCE = 32  # indices drawn together: a batch costs a loop over as many of these as it needs


class Sum(Objective, Protocol):
    """An objective that is a mean of losses."""

    def losses(self, x: Array) -> Array:
        """f_1(x), …, f_n(x), whose mean is f(x)."""


class Visited(NamedTuple):
    """x and ∇f(x), computed once for the record."""

    x: Array
    grad: Array


@part
class FiniteSum:
    """∇f(x; ξ) = Σ_i w_i ∇f_i(x), w_i = how often example i was drawn/b. A batch of n or more is every example once.

    >>> from gladstorm import objectives
    >>> oracle = FiniteSum(objectives.PhaseRetrieval.from_seed(0, m=30, dim=4))
    >>> oracle.largest
    30
    """

    objective: Sum

    @property
    def largest(self) -> int:
        """n, the largest batch there is."""
        size: int = jax.eval_shape(self.objective.losses, self.objective.start).shape[0]
        return size

    def draw(self, key: Array) -> Array:
        """A key: how much will be drawn from it depends on the batch size."""
        return jax.random.key_data(key)

    def batch(self, noise: Array, size: Array) -> Array:
        """w: counts of `size` draws with replacement over n examples, divided by `size`."""
        return _weights(noise, size, self.largest)

    def at(self, x: Array) -> Visited:
        """x and its exact gradient."""
        return Visited(x, self.objective.grad(x))

    def grad(self, point: Visited, sample: Array) -> Array:
        """Σ_i w_i ∇f_i(x)."""
        return jax.grad(lambda x: sample @ self.objective.losses(x))(point.x)

    def exact(self, point: Visited) -> Array:
        """∇f(x)."""
        return point.grad

    def examples(self, point: Visited) -> Array:
        """∇f_1(x), …, ∇f_n(x), a row each."""
        return jax.jacfwd(self.objective.losses)(point.x)


@partial(jax.jit, static_argnums=2)
def _weights(noise: Array, size: Array, n: int) -> Array:
    key = jax.random.wrap_key_data(noise, impl="threefry2x32")

    def more(chunk: Array, counts: Array) -> Array:
        begun = AT_ONCE * chunk
        indices = jax.random.randint(jax.random.fold_in(key, begun), (AT_ONCE,), 0, n)
        wanted = begun + jnp.arange(AT_ONCE) < size
        return counts.at[indices].add(wanted.astype(counts.dtype))

    # One chunk at a time: jitted XLA runs a loop that counts by 32 up to a constant below 32 not at all.
    chunks = jnp.where(size < n, -(-size // AT_ONCE), 0)
    counts = lax.fori_loop(0, chunks, more, jnp.zeros(n))
    return jnp.where(size < n, counts / size, 1 / n)


@part
class PerExample:
    """f(x) = 1/n Σ_i loss(x, example_i), the examples stacked along the first axis of every array of `data`."""

    start: Array = leaf(VECTOR)  # x⁰
    data: Any
    loss: Callable[[Array, Any], Array] = static()
    constants: Constants | None = static(default=None)

    @property
    def f_inf(self) -> float | None:
        """inf f, if it was declared."""
        return self.constants.f_inf if self.constants else None

    def losses(self, x: Array) -> Array:
        """loss(x, example_i) for every i."""
        return jax.vmap(self.loss, (None, 0))(x, self.data)

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.losses(x).mean()

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return jax.grad(self.value)(x)


def finite_sum(
    loss: Callable[[Array, Any], Array], data: Any, start: Array, *, constants: Constants | None = None
) -> FiniteSum:
    """An oracle from your own loss of (x, example) and your examples, stacked along the first axis of every array.

    >>> A, y = np.eye(3), np.ones(3)
    >>> oracle = finite_sum(lambda x, example: (example[0] @ x - example[1]) ** 2, (A, y), start=np.zeros(3))
    >>> float(oracle.objective.value(np.zeros(3)))
    1.0
    """
    start = np.atleast_1d(np.asarray(start, np.float64))
    VECTOR.require("finite_sum", "start", start)
    data = jax.tree.map(lambda array: np.asarray(array, np.float64), data)
    sizes = {np.shape(array)[0] if np.ndim(array) else None for array in jax.tree.leaves(data)}
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        shapes = [np.shape(array) for array in jax.tree.leaves(data)]
        raise ValueError(f"finite_sum: data must be arrays with one example per row, equally many; got {shapes}.")
    shape = jax.eval_shape(loss, start, jax.tree.map(lambda array: array[0], data)).shape
    if shape != ():
        raise ValueError(f"finite_sum: loss must return one number; got an array of shape {shape}.")
    return FiniteSum(PerExample(start, data, loss, constants))


def measured_variance(oracle: Any, points: Array, *, draws: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """‖x − x⁰‖ and E‖∇f(x; ξ) − ∇f(x)‖² of a single sample at each row of `points`, over `draws` samples.

    >>> from gladstorm import BlumGladyshev, objectives
    >>> oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=0.0), B=2.0, G=0.0)
    >>> measured_variance(oracle, np.array([[3.0, 4.0]]), draws=10)
    (array([5.]), array([100.]))
    """
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed, impl="threefry2x32"), draws)

        def squared(x: Array, key: Array) -> Array:
            point = oracle.at(x)
            sample = oracle.batch(oracle.draw(key), jnp.ones((), int))
            return jnp.sum((oracle.grad(point, sample) - oracle.exact(point)) ** 2)

        def variance(x: Array) -> Array:
            return jax.vmap(squared, (None, 0))(x, keys).mean()

        points = jnp.asarray(points, float)
        distance = jnp.linalg.norm(points - oracle.objective.start, axis=1)
        return np.asarray(distance), np.asarray(lax.map(variance, points))
