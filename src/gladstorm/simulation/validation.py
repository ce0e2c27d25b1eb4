"""Validates what a sweep is given before it runs: seeds, oracles, methods, memory.

Parts of this package are compatible by its tests, and described by their numbers and the package's source. A user's own
are traced once, abstractly, which costs nothing: the trace of the first steps says whether everything has the shape of
what it replaces, and the hash of its operations and of the arrays it captures is what a store knows the parts by. Of
every objective, f and ∇f are evaluated at x⁰.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import check, describe, in_float64
from gladstorm.core.rules import COUNT, NUMBER, SEED, VECTOR, VECTORS, require_free_memory, require_memory_for_a_run
from gladstorm.core.screen import shown
from gladstorm.jobs.provenance import digest, is_followed
from gladstorm.methods import Method
from gladstorm.methods.averages import Average
from gladstorm.methods.batches import MeasuringBatch
from gladstorm.methods.estimators import Estimator
from gladstorm.methods.method import rule
from gladstorm.methods.schedules import Clock, resolved
from gladstorm.methods.steps import Step
from gladstorm.problems.functions import require_finite, tree_of
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.one_run import (
    CURVES,
    arrive,
    begin,
    draw,
    draw_more,
    gradients,
    move,
    path_entries,
    report,
    snapshot,
)

COPIES = 3  # of what has been recorded so far: before and after a call of the program, and taken out of it
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of functions, in the text of some operations: another in every process


def validate_seeds(seeds: Any) -> Sequence[int]:
    """The seeds that a number of them, or a sequence of them, stands for."""
    if isinstance(seeds, bool | int | np.integer):
        COUNT.require("sweep", "seeds", seeds)
        SEED.require("sweep", "the last seed", int(seeds) - 1)
        return range(int(seeds))
    if not hasattr(seeds, "__len__") or np.ndim(seeds) != 1:
        raise ValueError(f"sweep: seeds must be a whole number ≥ 1, or a list of seeds; got seeds={shown(seeds)}.")
    SEED.require("sweep", "seeds", seeds)
    listed = [int(seed) for seed in seeds]
    if len(set(listed)) != len(listed):
        raise ValueError(f"sweep: seeds must be distinct, or the same run counts twice; got seeds={shown(listed)}.")
    return listed


class Instances(NamedTuple):
    """The oracle of all seeds or one for each, and what is known of them without holding them all."""

    oracles: Sequence[Oracle]  # a lazy one makes each when it is asked for
    first: Oracle
    described: list[Any]
    f_inf: float | None  # where all have the same
    bytes_each: int

    @property
    def dim(self) -> int:
        """The number of entries of x."""
        return np.size(self.first.objective.start)


def validate_oracles(oracle: Any, seeds: int) -> Instances:
    """The oracle, or one for each seed, all of one structure and size, and f finite at the start of each."""
    several = isinstance(oracle, Sequence) and not isinstance(oracle, str)
    oracles = oracle if several else [oracle]
    if several and len(oracles) != seeds:
        raise ValueError(
            f"sweep: oracle must be one oracle, or a sequence with one for each seed; got {len(oracles)} oracles for "
            f"{seeds} seeds."
        )
    first = oracles[0]
    described, infima = [], set()
    for number, instance in enumerate(oracles):
        _require_oracle(instance)
        if _kind(instance) != _kind(first):
            raise ValueError(
                "sweep: oracles must be of one structure, and their arrays of one shape; oracle 0 is "
                f"{shown(first, 60)}, oracle {number} is {shown(instance, 60)}. A function of your own must be "
                "the same for all seeds: define it once, outside of what makes an oracle of a seed."
            )
        if number == 0:
            require_memory_for_a_run("sweep", np.size(instance.objective.start))  # all that follows copies x
        with jax.enable_x64(True):
            require_finite(in_float64(instance).objective)
        described.append(describe(instance))
        infima.add(instance.objective.f_inf)
    bytes_each = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(first))
    return Instances(oracles, first, described, infima.pop() if len(infima) == 1 else None, bytes_each)


def validate_method(method: Any) -> Method:
    """The method, its batch size a rule if it was a number."""
    if not isinstance(method, Method):
        raise ValueError(f"sweep: methods must be Method objects such as nsgdm(...); got {shown(method)}.")
    for name, kind in {"estimator": Estimator, "step": Step, "average": Average | None}.items():
        if not isinstance(getattr(method, name), kind):
            inherits = f"must be of a class that inherits {name.capitalize()}, with @part above it"
            raise ValueError(f"Method: {name} {inherits}; got {shown(getattr(method, name))}.")
    made: Method = dataclasses.replace(method, batch=rule(method.batch))
    check(made)
    inside = jax.tree.leaves(
        made.batch, is_leaf=lambda node: isinstance(node, MeasuringBatch) and node is not made.batch
    )
    for rule_inside in inside:
        if isinstance(rule_inside, MeasuringBatch):
            raise ValueError(
                f"{type(made.batch).__name__}: its rules must not measure, since they would see some batches only; got "
                f"{shown(rule_inside)}. Give it as the batch of the method."
            )
    return made


def require_compatible(oracle: Oracle, methods: Iterable[Method]) -> dict[Any, Any]:
    """Raise a ValueError if a method, its numbers single ones, cannot be run on the oracle.

    Returns:
        By the methods' structures, the trace of the first steps of a run; None where no part is a user's own.
    """
    structures = {}
    for method in methods:
        structures[jax.tree.structure(method)] = method
        for part in (method.estimator, method.step):
            if why := part.incompatible(oracle):
                raise ValueError(why)
    return {structure: _trace(oracle, method) for structure, method in structures.items()}


def _trace(oracle: Oracle, method: Method) -> Any:
    if not (is_user_defined(oracle) or is_user_defined(method)):
        return None
    with jax.enable_x64(True):
        return _first_steps.trace(in_float64(oracle), in_float64(method)).jaxpr


def fingerprint(traced: Any) -> str | None:
    """A hash of what a trace computes: every operation and every array it captures, wherever they are written."""
    if traced is None:
        return None
    arrays = map(np.asarray, _constants(traced))
    captured = (f"{array.dtype}{array.shape}".encode() + array.tobytes() for array in arrays)
    return digest(_ADDRESS.sub("", str(traced)).encode() + b"".join(captured))


def is_user_defined(value: Any) -> bool:
    """Whether a class or function takes part whose source is not followed: a user's own."""
    if isinstance(value, FunctionType):
        return not is_followed(str(value.__module__))
    if not dataclasses.is_dataclass(value):
        return callable(value)
    held = (getattr(value, field.name) for field in dataclasses.fields(value))
    return not is_followed(type(value).__module__) or any(map(is_user_defined, held))


def require_memory(instances: Instances, runs: int, times: int, capacity: int, at_once: int = 1) -> None:
    """Raise a ValueError if so many runs, some of them at once, recorded at so many times, would not fit in memory."""
    dim = instances.dim
    curves = (len(CURVES) + path_entries(dim)) * NUMBER
    recorded = runs * (times * curves + 3 * dim * NUMBER)
    advanced = at_once * (COPIES * capacity * curves + VECTORS * dim * NUMBER)
    held = isinstance(instances.oracles, list | tuple)  # others are made when they are asked for
    data = len(instances.oracles) * instances.bytes_each if held else 0
    what = f"{runs:,} × x of dimension {dim:,}, recorded at {times:,} steps,"
    require_free_memory(
        "sweep", what, recorded + advanced + data, "ask for fewer records, configurations or seeds at once"
    )


def _require_oracle(oracle: Any) -> None:
    if not isinstance(oracle, Oracle):
        raise ValueError(
            "sweep: oracle must be of a class that inherits Oracle, such as BlumGladyshev(objective, B=0.5, G=1.0), or "
            f"a list with one for each seed; got {shown(oracle, 60)}."
        )
    check(oracle, single=True)
    owner = type(oracle.objective).__name__
    for name in ("start", "f_inf", "value", "grad"):
        if not hasattr(oracle.objective, name):
            raise ValueError(f"{owner}: an objective must have start, f_inf, value and grad; {name} is missing.")
    VECTOR.require(owner, "start", oracle.objective.start)
    if why := oracle.incompatible(oracle.objective):
        raise ValueError(why)


def _kind(oracle: Any) -> Any:
    """Structure and shapes, which the oracles of one program have in common."""
    leaves, structure = jax.tree.flatten(oracle)
    return structure, [np.shape(leaf) for leaf in leaves]


@jax.jit
def _first_steps(oracle: Any, method: Any) -> Any:
    """Two steps of a run, in which everything must have the shape of what it replaces."""
    x, zero, one, seed = jnp.asarray(oracle.objective.start), jnp.int64(0), jnp.int64(1), jnp.uint32(0)
    owner, estimating, stepping = (type(part).__name__ for part in (oracle, method.estimator, method.step))
    point = oracle.at(x)
    if not hasattr(point, "x"):
        raise ValueError(f"{owner}: at must return a point with a field x, a NamedTuple; got {_what(point)}.")
    _require_like(owner, "at(x).x", point.x, x)
    _require_like(owner, "exact", oracle.exact(point), x)
    noise = draw(oracle, seed, one)
    _require_like(owner, "grad", oracle.grad(point, oracle.sample_of(noise, point, one)), x)
    size = method.batch(zero, jnp.zeros(()))
    if np.shape(size) or not jnp.issubdtype(jnp.result_type(size), np.integer):
        whose = type(method.batch).__name__
        raise ValueError(f"{whose}: a batch rule must return one whole number; got {_what(size)}.")
    more = draw_more(oracle, method, seed, one)
    now = resolved(method.estimator, Clock(zero, jnp.zeros(()), zero))
    v = now.direction(now.init(gradients(oracle, method, point, noise, more, one), point))
    _require_like(estimating, "direction", v, x)
    state = begin(oracle, method, seed, zero, one)
    try:
        x, memory = move(oracle, method, state, one, one)
    except TypeError as problem:
        if tree_of(oracle.objective) is None:
            raise
        way_out = "x and v are the tree that f takes, so move them by jax.tree.map"
        raise ValueError(f"{stepping}: {way_out}; got {problem}.") from None
    _require_like(stepping, "move", x, state.point.x)
    _require_like(stepping, "what move remembers", memory, state.memory)
    after = arrive(oracle, method, state, memory, oracle.at(x), noise, more, one, one, one)
    _require_like(estimating, "update", after.estimate, state.estimate)
    _require_like(type(method.average).__name__, "weight times x", after.average, state.average)
    reported = ((), ()) if method.average is None else report(oracle, after)
    return snapshot(oracle, method, after, oracle.objective.value(after.point.x), reported, one)


def _require_like(owner: str, name: str, value: Any, model: Any) -> None:
    """Raise a ValueError unless both are the same tree of arrays of the same shapes and types."""
    if _what(value) != _what(model):
        raise ValueError(f"{owner}: {name} must be {_what(model)}; got {_what(value)}.")


def _what(tree: Any) -> str:
    """The shape and type of an array, or of all arrays of a tree."""
    arrays = [
        f"{getattr(leaf, 'dtype', type(leaf).__name__)} of shape {np.shape(leaf)}" for leaf in jax.tree.leaves(tree)
    ]
    if jax.tree_util.all_leaves([tree]):
        return arrays[0]
    return "None" if tree is None else f"{type(tree).__name__} of {', '.join(arrays) or 'nothing'}"


def _constants(traced: Any) -> Iterator[Any]:
    """The arrays that a traced function and all functions inside it capture."""
    yield from getattr(traced, "consts", ())
    for equation in getattr(traced, "jaxpr", traced).eqns:
        for held in jax.tree.leaves(equation.params, is_leaf=lambda node: hasattr(node, "eqns")):
            if hasattr(held, "eqns"):
                yield from _constants(held)
