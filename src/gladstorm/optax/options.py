"""The options of the transformations: their rules, and numbers that may be schedules."""

import math
from collections.abc import Callable
from typing import Any

import jax

from gladstorm.core.parts import Array
from gladstorm.core.rules import Rule
from gladstorm.methods.norms import StepNorm

UpdateSchedule = Callable[[Array], Array]  # of the number of updates made
AxisName = str | tuple[str, ...]
Choice = Callable[[str, Any], StepNorm]  # of a leaf's name and the leaf
NormOption = str | StepNorm | Choice

NORMS = ("global", "tensor")
RULES = {
    "learning_rate": Rule("a schedule or a number, finite and ≥ 0", lambda v: v.ndim == 0 and 0 <= v < math.inf),
    "momentum": Rule("a schedule or a number in [0, 1)", lambda v: v.ndim == 0 and 0 <= v < 1),
    "every_k": Rule("a schedule or a whole number ≥ 1", lambda v: v.ndim == 0 and 1 <= v < 2**31 and v % 1 == 0),
    "horizon": Rule("a whole number ≥ 1", lambda v: v.ndim == 0 and v >= 1 and v % 1 == 0),
    "n_init": Rule("a whole number from 1 to 2³¹ − 1", lambda v: v.ndim == 0 and 1 <= v < 2**31 and v % 1 == 0),
    "scale": Rule("a number, finite and ≥ 0", lambda v: v.ndim == 0 and 0 <= v < math.inf),
    "weight_decay": Rule("a number, finite and ≥ 0", lambda v: v.ndim == 0 and 0 <= v < math.inf),
    "max_grad_norm": Rule("a number, finite and > 0", lambda v: v.ndim == 0 and 0 < v < math.inf),
}
SCHEDULED = ("learning_rate", "momentum", "every_k")


def check(owner: str, norm: NormOption, axis_name: AxisName | None, **values: Any) -> None:
    """Raise a ValueError for the first option that breaks its rule."""
    if norm not in NORMS and (isinstance(norm, str) or not (callable(norm) or isinstance(norm, StepNorm))):
        raise ValueError(
            f"{owner}: norm must be one of {', '.join(NORMS)}, a norm of gladstorm.norms, or a function of a leaf's "
            f"name and the leaf that returns one, such as gladstorm.optax.by_layer; got norm={norm!r}."
        )
    if norm not in NORMS and axis_name:
        raise ValueError(
            f"{owner}: axis_name must be left out unless norm is one of {', '.join(NORMS)}, since others need whole "
            f"tensors; got axis_name={axis_name!r}. Under jax.jit, sharded parameters are whole."
        )
    for name, value in values.items():
        require(owner, name, value)


def require(owner: str, name: str, value: Any) -> None:
    """Raise a ValueError if an option breaks its rule."""
    scheduled = callable(value) and name in SCHEDULED
    # A JAX array may be a tracer; `inject_hyperparams` makes one of a schedule.
    if not scheduled and not (isinstance(value, jax.Array) and value.ndim == 0):
        RULES[name].require(owner, name, value)


def require_axes(owner: str, axis_name: AxisName | None, tree: Any) -> None:
    """Raise a ValueError if leaves are parts, along axes of `jax.shard_map` that nobody has named."""
    axes = axes_of(tree)
    if axis_name is None and axes:
        raise ValueError(
            f"{owner}: axis_name must name the axes that parameters are cut along inside jax.shard_map, or the norm "
            f"would be that of a part; got None for {', '.join(axes)}. Where devices train models of their own, give "
            "axis_name=()."
        )


def axes_of(tree: Any) -> list[str]:
    """The axes of `jax.shard_map` along which leaves differ."""
    kinds = [getattr(jax.typeof(leaf), "manual_axis_type", None) for leaf in jax.tree.leaves(tree)]
    return sorted({axis for kind in kinds if kind is not None for axis in kind.varying})


def at(value: Any, count: Array) -> Any:
    """A number, or a schedule's."""
    return value(count) if callable(value) else value
