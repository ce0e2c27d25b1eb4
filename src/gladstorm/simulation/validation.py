"""Validates what a sweep is given before it runs: seeds, oracles, methods, memory.

Parts of this package are compatible by its tests. A user's own are evaluated once abstractly, which costs nothing: it
is the trace that the program is made from. Of every objective, f and ∇f are evaluated at x⁰.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.memory import NUMBER, VECTORS, require_free_memory, require_memory_for_a_run
from gladstorm.core.parts import check, describe, in_float64, require_single_numbers
from gladstorm.core.rules import COUNT, SEED, VECTOR
from gladstorm.core.screen import shown
from gladstorm.methods import Method
from gladstorm.methods.averages import Average
from gladstorm.methods.estimators import Estimator
from gladstorm.methods.method import rule
from gladstorm.methods.schedules import Clock, Schedule, resolved
from gladstorm.methods.steps import Step
from gladstorm.problems.functions import require_finite, require_result, tree_of
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.fingerprint import is_user_defined
from gladstorm.simulation.one_run import CURVES, arrive, begin, draw, draw_more, gradients, move, path_entries

COPIES = 3  # of what has been recorded so far: before and after a call of the program, and taken out of it


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
                f"{_in_short(first)}, oracle {number} is {_in_short(instance)}."
            )
        if number == 0:
            require_memory_for_a_run("sweep", np.size(instance.objective.start))  # all that follows copies x
        with jax.enable_x64(True):
            exact = in_float64(instance)
            if number == 0:
                _require_gradients(exact)
            require_finite(exact.objective)
        described.append(describe(instance))
        infima.add(instance.objective.f_inf)
    bytes_each = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(first))
    return Instances(oracles, first, described, infima.pop() if len(infima) == 1 else None, bytes_each)


def validate_method(method: Any) -> Method:
    """The method, its batch size a rule if it was a number."""
    if not isinstance(method, Method):
        raise ValueError(f"sweep: methods must be Method objects such as nsgdm(...); got {shown(method)}.")
    for name, kind, otherwise in (("estimator", Estimator, ""), ("step", Step, ""), ("average", Average, ", or None")):
        if not isinstance(value := getattr(method, name), kind) and not (value is None and otherwise):
            raise ValueError(
                f"Method: {name} must be of a class that inherits {kind.__name__}, with @part above it{otherwise}; "
                f"got {shown(value)}."
            )
    made: Method = dataclasses.replace(method, batch=rule(method.batch))
    nodes = jax.tree.leaves(made.batch, is_leaf=lambda node: isinstance(node, Schedule))
    if any(isinstance(node, Schedule) for node in nodes):
        raise ValueError(
            f"Method: batch must be a whole number or a batch rule, not a schedule; got {shown(made.batch)}."
        )
    check(made)
    return made


def require_compatible(oracle: Oracle, methods: Iterable[Method]) -> None:
    """Raise a ValueError if a method, its numbers single ones, cannot be run on the oracle."""
    structures = {}
    for method in methods:
        structures[jax.tree.structure(method)] = method
        for part in (method.estimator, method.step):
            if why := part.incompatible(oracle):
                raise ValueError(why)
    for method in structures.values():
        if is_user_defined(oracle) or is_user_defined(method):
            with jax.enable_x64(True):
                _try_out(in_float64(oracle), in_float64(method))


def require_memory(instances: Instances, runs: int, times: int, capacity: int, at_once: int = 1) -> None:
    """Raise a ValueError if so many runs, some of them at once, recorded at so many times, would not fit in memory."""
    dim = instances.dim
    curves = (len(CURVES) + path_entries(dim)) * NUMBER
    kept = runs * (times * curves + 3 * dim * NUMBER)
    advanced = at_once * (COPIES * capacity * curves + VECTORS * dim * NUMBER)
    held = isinstance(instances.oracles, list | tuple)  # others are made when they are asked for
    data = len(instances.oracles) * instances.bytes_each if held else 0
    what = f"{runs:,} × x of dimension {dim:,}, recorded at {times:,} steps,"
    require_free_memory("sweep", what, kept + advanced + data, "ask for fewer records, configurations or seeds at once")


def _require_oracle(oracle: Any) -> None:
    if not isinstance(oracle, Oracle) and all(hasattr(oracle, name) for name in ("start", "value", "grad")):
        raise ValueError(
            "sweep: oracle must be a source of stochastic gradients, not an objective: wrap it, "
            f"BlumGladyshev(objective, B=0.5, G=1.0); got {shown(oracle, 60)}."
        )
    if not isinstance(oracle, Oracle):
        raise ValueError(
            "sweep: oracle must be an oracle such as BlumGladyshev(objective, B, G), of a class that inherits Oracle, "
            f"or a list with one for each seed; got {shown(oracle, 60)}."
        )
    check(oracle)
    require_single_numbers(oracle)
    owner = type(oracle.objective).__name__
    for name in ("start", "f_inf", "value", "grad"):
        if not hasattr(oracle.objective, name):
            raise ValueError(f"{owner}: an objective must have start, f_inf, value and grad; {name} is missing.")
    VECTOR.require(owner, "start", oracle.objective.start)
    if why := oracle.incompatible(oracle.objective):
        raise ValueError(why)


def _kind(oracle: Any) -> Any:
    """What the oracles of one program have in common."""
    leaves, structure = jax.tree.flatten(oracle)
    return structure, [np.shape(leaf) for leaf in leaves]


def _in_short(oracle: Any) -> str:
    """An oracle by its shapes first: where two differ in them, it is seen in a line."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(oracle) if np.ndim(leaf)]
    return f"of shapes {shown(shapes, 60)}, {shown(oracle, 60)}"


def _require_gradients(oracle: Any) -> None:
    """That f(x) is a number and ∇f(x) is like x, and that the oracle finds them at a point."""
    objective, x = oracle.objective, np.asarray(oracle.objective.start)
    owner, its = type(oracle).__name__, type(objective).__name__
    require_result(its, "value", _shape_of(objective, "value", x))
    _require_like(its, "grad", _shape_of(objective, "grad", x), x)
    point = _shape_of(oracle, "at", x)
    if not hasattr(point, "x"):
        raise ValueError(f"{owner}: at must return a point with a field x, a NamedTuple; got {_what(point)}.")
    _require_like(owner, "at(x).x", point.x, x)
    _require_like(owner, "exact", _shape_of(oracle, "exact", point), x)


def _try_out(oracle: Any, method: Any) -> None:
    """One step of one run, abstractly: everything has the shape of what it replaces."""
    x, zero, seed = np.asarray(oracle.objective.start), np.int64(0), np.uint32(0)
    names = {role: type(getattr(method, role)).__name__ for role in ("estimator", "step", "batch")}
    point = _shape_of(oracle, "at", x)
    noise = jax.eval_shape(draw, oracle, seed, zero)
    gradient = jax.eval_shape(_gradient, oracle, point, noise)
    _require_like(type(oracle).__name__, "grad", gradient, x)
    size = jax.eval_shape(lambda rule: rule(jnp.zeros((), int), jnp.zeros(())), method.batch)
    if getattr(size, "shape", None) != () or not np.issubdtype(size.dtype, np.integer):
        raise ValueError(f"{names['batch']}: a batch rule must return one whole number; got {_what(size)}.")
    more = jax.eval_shape(draw_more, oracle, method.estimator, seed, zero)
    v = jax.eval_shape(_first_direction, oracle, method.estimator, point, noise, more)
    _require_like(names["estimator"], "direction", v, x)
    state = jax.eval_shape(begin, oracle, method, seed, zero, zero)
    try:
        moved, memory = jax.eval_shape(move, oracle, method, state, zero, zero)
    except TypeError as problem:
        if tree_of(oracle.objective) is None:
            raise
        way_out = "x and v are the tree that f takes, so move them by jax.tree.map"
        raise ValueError(f"{names['step']}: {way_out}; got {problem}.") from None
    _require_like(names["step"], "move", moved, x)
    _require_like(names["step"], "what move remembers", memory, state.memory)
    later = jax.eval_shape(arrive, oracle, method, state, memory, point, noise, more, zero, zero, zero)
    _require_like(names["estimator"], "update", later.estimate, state.estimate)
    _require_like(type(method.average).__name__, "weight times x", later.average, state.average)


def _gradient(oracle: Any, point: Any, noise: Any) -> Any:
    return oracle.grad(point, oracle.sample_of(noise, point, jnp.ones((), int)))


def _first_direction(oracle: Any, estimator: Any, point: Any, noise: Any, more: Any) -> Any:
    now = resolved(estimator, Clock(jnp.zeros((), int), jnp.zeros(()), jnp.zeros((), int)))
    return now.direction(now.init(gradients(oracle, now, point, noise, more, jnp.ones((), int)), point))


def _require_like(owner: str, name: str, value: Any, model: Any) -> None:
    """Raise a ValueError unless both are the same tree of arrays of the same shapes and types."""
    if _what(value) != _what(model):
        raise ValueError(f"{owner}: {name} must be {_what(model)}; got {_what(value)}.")


def _what(tree: Any) -> str:
    """The shape and type of an array, or of all arrays of a tree."""
    leaves = jax.tree.leaves(tree)
    arrays = [f"{np.dtype(leaf.dtype).name} of shape {leaf.shape}" for leaf in leaves]
    if jax.tree_util.all_leaves([tree]):
        return arrays[0]
    return "None" if tree is None else f"{type(tree).__name__} of {', '.join(arrays) or 'nothing'}"


def _shape_of(owner: Any, name: str, argument: Any) -> Any:
    """What a method of a part returns, abstractly."""
    try:
        return jax.eval_shape(partial(_call, name), owner, argument)
    except TypeError as problem:
        if "not a valid JAX type" not in str(problem):
            raise
        whose = type(owner).__name__
        raise ValueError(f"{whose}: {name} must return arrays, or a NamedTuple of them; got something else.") from None


@partial(jax.jit, static_argnums=0)
def _call(name: str, owner: Any, argument: Any) -> Any:
    return getattr(owner, name)(argument)
