"""What a run computes, as a hash: a user's function has a name, and its name says nothing of what it does.

Results are kept under a description of what was run. This package's own parts are described by their numbers and the
package's source. A user's part is traced once, abstractly: every operation of a step and every array it captures,
wherever they are written, decide the hash.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import in_float64
from gladstorm.jobs.provenance import digest, is_followed
from gladstorm.methods import Method
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.one_run import arrive, begin, draw, draw_more, move, report, snapshot

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of functions, in the text of some operations: another in every process


def is_user_defined(value: Any) -> bool:
    """Whether a class or function takes part whose source is not followed: a user's own."""
    if isinstance(value, FunctionType):
        return not is_followed(str(value.__module__))
    if not dataclasses.is_dataclass(value):
        return callable(value)
    held = (getattr(value, field.name) for field in dataclasses.fields(value))
    return not is_followed(type(value).__module__) or any(map(is_user_defined, held))


def fingerprint(oracle: Oracle, method: Method) -> str | None:
    """A hash of the first two steps of a run; None where no part is a user's own.

    >>> import gladstorm as gs
    >>> fingerprint(gs.BlumGladyshev(gs.objectives.named("cauchy"), B=0.5, G=1.0), gs.sgd(0.1)) is None
    True
    """
    if not (is_user_defined(oracle) or is_user_defined(method)):
        return None
    with jax.enable_x64(True):
        traced = jax.make_jaxpr(_two_steps)(in_float64(oracle), in_float64(method))
    text = _ADDRESS.sub("", str(traced)).encode()
    arrays = map(np.asarray, _constants(traced))
    return digest(text + b"".join(f"{array.dtype}{array.shape}".encode() + array.tobytes() for array in arrays))


def _two_steps(oracle: Any, method: Any) -> Any:
    seed, zero, one = jnp.zeros((), jnp.uint32), jnp.zeros((), int), jnp.ones((), int)
    state = begin(oracle, method, seed, zero, one)
    x, memory = move(oracle, method, state, one, one)
    noise, more = draw(oracle, seed, one), draw_more(oracle, method.estimator, seed, one)
    state = arrive(oracle, method, state, memory, oracle.at(x), noise, more, one, one, one)
    reported = ((), ()) if method.average is None else report(oracle, state)
    return snapshot(oracle, method, state, oracle.objective.value(state.point.x), reported, one)


def _constants(traced: Any) -> Iterator[Any]:
    """The arrays that a traced function and all functions inside it capture."""
    yield from getattr(traced, "consts", ())
    for equation in getattr(traced, "jaxpr", traced).eqns:
        for held in jax.tree.leaves(equation.params, is_leaf=lambda node: hasattr(node, "eqns")):
            if hasattr(held, "eqns"):
                yield from _constants(held)
