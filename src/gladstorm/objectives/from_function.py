"""Any JAX function as an objective."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from gladstorm.constants import Constants
from gladstorm.parts import Array, leaf, part, static
from gladstorm.rules import VECTOR


@part
class FromFunction:
    """f given as a function of a vector; the gradient by autodiff."""

    start: Array = leaf(VECTOR)  # x⁰
    function: Callable[[Array], Array] = static()
    constants: Constants | None = static(default=None)

    @property
    def f_inf(self) -> float | None:
        """inf f, if it was declared."""
        return self.constants.f_inf if self.constants else None

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.function(x)

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return jax.grad(self.function)(x)


def from_function(
    function: Callable[[Array], Array], start: Array, *, constants: Constants | None = None
) -> FromFunction:
    """An objective from your own function of a vector to a number, written with jax.numpy.

    Give `constants` if you know them; theorems ask for them, simulations do not.

    >>> import jax.numpy as jnp
    >>> objective = from_function(lambda x: jnp.sum(x**4), start=[1.0, 2.0])
    >>> objective.grad(jnp.array([1.0, 2.0])).tolist()
    [4.0, 32.0]
    """
    if not callable(function):
        raise ValueError(f"from_function: function must be callable; got {function!r}.")
    start = np.atleast_1d(np.asarray(start, np.float64))
    VECTOR.require("from_function", "start", start)
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct(start.shape, np.float32)).shape
    if shape != ():
        raise ValueError(f"from_function: function must return one number; got an array of shape {shape}.")
    return FromFunction(start, function, constants)
