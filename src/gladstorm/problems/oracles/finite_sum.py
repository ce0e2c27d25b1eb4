"""Finite sums: f is the mean of n losses, and a sample is a few of them, drawn with replacement."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, as_data, part
from gladstorm.core.rules import MATRIX
from gladstorm.core.screen import shown
from gladstorm.problems.functions import PerExample, flatten, require_number, unflatten
from gladstorm.problems.objectives import registry as objective_classes
from gladstorm.problems.oracle import Objective, Oracle, Point
from gladstorm.problems.sampling import key_of, keys_of

AT_ONCE = 32  # indices drawn together: a batch costs a loop over as many of these as it needs


class Sum(Objective, Protocol):
    """An objective that is a mean of losses."""

    def losses(self, x: Array) -> Array:
        """f_1(x), …, f_n(x), whose mean is f(x)."""


@part
class FiniteSum(Oracle):
    """∇f(x; ξ) = Σ_i w_i ∇f_i(x): examples are drawn with replacement, and w_i is the share of example i in the batch.

    f must be a mean of n losses. A batch of n or more samples is every example once.

    >>> from gladstorm import objectives
    >>> oracle = FiniteSum(objectives.PhaseRetrieval.from_seed(0, m=30, dim=4))
    >>> oracle.largest
    30
    """

    objective: Sum

    @override
    @classmethod
    def incompatible(cls, objective: Any) -> str | None:
        fitting = " or ".join(name for name, kind in objective_classes().items() if hasattr(kind, "losses"))
        wanted, got = f"a mean of losses, such as {fitting}", type(objective).__name__
        return None if hasattr(objective, "losses") else f"FiniteSum: the objective must be {wanted}; got {got}."

    @property
    @override
    def largest(self) -> int:
        return int(jax.eval_shape(self.objective.losses, self.objective.start).shape[0])

    @override
    def draw(self, key: Array) -> Array:
        return jax.random.key_data(key)

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        weights: Array = _weights(noise, size, self.largest)
        return weights

    @override
    def grad(self, point: Point, sample: Array) -> Array:
        gradient: Array = jax.grad(lambda x: sample @ self.objective.losses(x))(point.x)
        return gradient

    def examples(self, point: Point) -> Array:
        """∇f_1(x), …, ∇f_n(x), one row for each example. SAGA remembers them."""
        rows: Array = jax.jacfwd(self.objective.losses)(point.x)
        return rows

    @override
    def variance(self, point: Point) -> Array:
        return jnp.mean(jnp.sum((self.examples(point) - point.grad) ** 2, axis=1))


@partial(jax.jit, static_argnums=2)
def _weights(noise: Array, size: Array, n: int) -> Array:
    key = key_of(noise)

    def more(chunk: Array, counts: Array) -> Array:
        begun = AT_ONCE * chunk
        indices = jax.random.randint(jax.random.fold_in(key, begun), (AT_ONCE,), 0, n)
        wanted = begun + jnp.arange(AT_ONCE) < size
        return counts.at[indices].add(wanted.astype(counts.dtype))

    # One chunk at a time: jitted XLA runs a loop that counts by 32 up to a constant below 32 not at all.
    chunks = jnp.where(size < n, -(-size // AT_ONCE), 0)
    counts = lax.fori_loop(0, chunks, more, jnp.zeros(n))
    return jnp.where(size < n, counts / size, 1 / n)


def finite_sum(
    loss: Callable[[Any, Any], Array], data: Any, start: Any, *, constants: Constants | None = None
) -> FiniteSum:
    """Make an oracle from your own loss and your own examples.

    Args:
        loss: Takes (x, example) and returns one number; written with jax.numpy, as in `from_function`.
        data: The examples, stacked along the first axis of an array or of every array of a tree. `loss` gets one row
            of each. Integers and booleans stay as they are, other numbers become float64.
        start: x⁰, a vector or any tree of arrays. x has the same form.
        constants: The smoothness constants, if you know them. Theorems need them, simulations do not.

    Raises:
        ValueError: If the examples are no such arrays, or JAX cannot trace the loss.

    >>> A, y = np.eye(3), np.ones(3)
    >>> oracle = finite_sum(lambda x, example: (example[0] @ x - example[1]) ** 2, (A, y), start=np.zeros(3))
    >>> float(oracle.objective.value(np.zeros(3)))
    1.0
    """
    if not callable(loss):
        raise ValueError(f"finite_sum: loss must be callable; got {loss!r}.")
    vector, tree = flatten("finite_sum", start)
    kinds = {np.asarray(array).dtype for array in jax.tree.leaves(data)}
    if unknown := sorted(str(kind) for kind in kinds if kind.kind not in "iufb"):
        raise ValueError(f"finite_sum: data must be arrays of real numbers or booleans; got {', '.join(unknown)}.")
    data = jax.tree.map(as_data, data)
    arrays = jax.tree.leaves(data)
    sizes = {array.shape[0] if array.ndim else None for array in arrays}
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        shapes = shown([array.shape for array in arrays])
        raise ValueError(
            "finite_sum: data must be arrays with one example per row and as many rows in each, np.array(…) of lists; "
            f"got {shapes}."
        )

    def of_one(x: ArrayLike, example: Any) -> Array:
        return loss(unflatten(tree, x), example)

    require_number("finite_sum", "loss", of_one, vector, jax.tree.map(lambda array: array[0], data))
    return FiniteSum(PerExample(vector, data, loss, constants, tree))


def measured_variance(
    oracle: Oracle, points: ArrayLike, *, draws: int = 1000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Measure the noise: ‖x − x⁰‖ and E‖∇f(x; ξ) − ∇f(x)‖² of one sample, at each row x of `points`.

    Args:
        oracle: The source of the samples.
        points: A matrix, one point in each row.
        draws: How many samples each mean is over.
        seed: Decides the samples.

    Returns:
        The distances from x⁰, and the variances.

    >>> from gladstorm import BlumGladyshev, objectives
    >>> oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=0.0), B=2.0, G=0.0)
    >>> measured_variance(oracle, np.array([[3.0, 4.0]]), draws=10)
    (array([5.]), array([100.]))
    """
    MATRIX.require("measured_variance", "points", points)
    dim = np.size(oracle.objective.start)
    if np.shape(points)[1] != dim:
        raise ValueError(f"measured_variance: points must be rows of {dim} numbers; got shape {np.shape(points)}.")
    with jax.enable_x64(True):

        def squared(x: Array, key: Array) -> Array:
            point = oracle.at(x)
            return jnp.sum((oracle.grad(point, oracle.sample(key, point)) - oracle.exact(point)) ** 2)

        def variance(x: Array) -> Array:
            return jax.vmap(squared, (None, 0))(x, keys_of(seed, draws)).mean()

        at = jnp.asarray(points, float)
        distance = jnp.linalg.norm(at - oracle.objective.start, axis=1)
        return np.asarray(distance), np.asarray(lax.map(variance, at))
