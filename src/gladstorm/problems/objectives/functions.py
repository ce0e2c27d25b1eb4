"""What a user's own function must be: JAX traces it, it returns one number, computed in float64, its indices exist.

All this is known beforehand, from one abstract evaluation; indices, and whether f is finite at x⁰, from one real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from gladstorm.core.parts import Array

INDEXING = ("gather", "scatter", "dynamic_slice", "dynamic_update_slice")  # how the names of JAX's primitives begin


def require_number(owner: str, name: str, function: Callable[..., Array], *arguments: Any) -> None:
    """Raise a ValueError unless a function of such arguments is one real number, and computed in float64.

    `owner` and `name` say whose it is; arguments are arrays, or shapes and types.
    """
    with jax.enable_x64(True):
        try:
            result = jax.eval_shape(function, *arguments)
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as problem:
            raise ValueError(
                f"{owner}: {name} must be written with jax.numpy, and without `if` on its numbers; "
                f"JAX cannot trace it ({str(problem).partition(chr(10))[0].rstrip('.')})."
            ) from problem
        require_result(owner, name, result)
        program = jax.make_jaxpr(jax.value_and_grad(function))(*arguments)
    narrow = next((aval for aval in _arrays(program) if _is_narrow(aval.dtype)), None)
    if narrow is not None:
        raise ValueError(
            f"{owner}: {name} must compute in float64; it has a {narrow.dtype} array of shape {narrow.shape}: "
            "arrays that it captures must be NumPy arrays that no float32 program of JAX has captured before: copy "
            "them, np.array(array, np.float64)."
        )


def require_result(owner: str, name: str, result: Any) -> None:
    """Raise a ValueError unless what a function returned, abstractly, is one real number."""
    if not isinstance(result, jax.ShapeDtypeStruct):
        kind = "None" if result is None else f"a {type(result).__name__}"
        raise ValueError(f"{owner}: {name} must return one number; got {kind}.")
    if result.shape != ():
        raise ValueError(f"{owner}: {name} must return one number; got an array of shape {result.shape}.")
    if not jnp.issubdtype(result.dtype, np.floating):
        raise ValueError(f"{owner}: {name} must return one real number; got one of type {result.dtype}.")


def require_finite(objective: Any) -> None:
    """Raise a ValueError unless f(x⁰) and ∇f(x⁰) are finite, or every number of every run would be NaN."""
    value, gradient = map(np.asarray, _at_start(objective))
    if np.isfinite(value) and np.isfinite(gradient).all():
        return
    got = f"∇f = {gradient[~np.isfinite(gradient)][0]} in a coordinate" if np.isfinite(value) else f"f = {value}"
    way_out = "Start elsewhere, or change f there."
    if hasattr(objective, "losses"):
        wrong = np.flatnonzero(~np.isfinite(objective.losses(jnp.asarray(objective.start))))
        if wrong.size:
            way_out = f"Look at the data: the loss of example {wrong[0]} is not finite."
    raise ValueError(f"{type(objective).__name__}: f and ∇f must be finite at the start; got {got}. {way_out}")


@jax.jit
def _at_start(objective: Any) -> tuple[Array, Array]:
    x = jnp.asarray(objective.start)
    return objective.value(x), objective.grad(x)


def require_indices(owner: str, name: str, function: Callable[[Any], Array], rows: Any) -> None:
    """Raise a ValueError naming the first of `rows` (along leading axes) at which the function's index is no index.

    JAX itself takes the nearest entry, or writes NaN, without a word.
    """
    one = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape[1:], array.dtype), rows)
    with jax.enable_x64(True):
        if not any(each.startswith(INDEXING) for each in _primitives(jax.make_jaxpr(function)(one))):
            return
        checked = jax.vmap(checkify.checkify(function, errors=checkify.index_checks))
        error, _ = jax.jit(checked)(rows)
    if said := error.get():
        where, _, what = said.partition("\n")[0].strip().rstrip(".").removeprefix("at mapped index ").partition(": ")
        raise ValueError(f"{owner}: {name} must use indices that exist; at example {where}: {what}.")


def _programs(program: Any) -> Iterator[Any]:
    """A traced program and those within."""
    program = getattr(program, "jaxpr", program)
    yield program
    for equation in program.eqns:
        for value in equation.params.values():
            for each in value if isinstance(value, list | tuple) else [value]:
                if hasattr(getattr(each, "jaxpr", each), "eqns"):
                    yield from _programs(each)


def _arrays(program: Any) -> Iterator[Any]:
    """The shape and type of everything a program has or computes."""
    for each in _programs(program):
        held = (
            *each.constvars,
            *(variable for equation in each.eqns for variable in equation.invars + equation.outvars),
        )
        yield from (variable.aval for variable in held if hasattr(variable.aval, "dtype"))


def _primitives(program: Any) -> set[str]:
    return {equation.primitive.name for each in _programs(program) for equation in each.eqns}


def _is_narrow(dtype: Any) -> bool:
    if jnp.issubdtype(dtype, np.complexfloating):
        return bool(dtype.itemsize < 16)
    return bool(jnp.issubdtype(dtype, np.floating) and dtype.itemsize < 8)
