"""The options of the transformations: their rules, and numbers that may be schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax

from gladstorm.foundation.parts import Array
from gladstorm.foundation.rules import Rule

UpdateSchedule = Callable[[Array], Array]  # of the number of updates made
AxisName = str | tuple[str, ...]

NORMS = ("global", "tensor")
RULES = {
    "learning_rate": Rule("a schedule or a number, finite and ≥ 0", lambda v: v.ndim == 0 and 0 <= v < math.inf),
    "momentum": Rule("a schedule or a number in [0, 1)", lambda v: v.ndim == 0 and 0 <= v < 1),
    "every_k": Rule("a schedule or a whole number ≥ 1", lambda v: v.ndim == 0 and 1 <= v < 2**31 and v % 1 == 0),
    "horizon": Rule("a whole number ≥ 1", lambda v: v.ndim == 0 and v >= 1 and v % 1 == 0),
    "n_init": Rule("a whole number from 1 to 2³¹ − 1", lambda v: v.ndim == 0 and 1 <= v < 2**31 and v % 1 == 0),
    "weight_decay": Rule("a number, finite and ≥ 0", lambda v: v.ndim == 0 and 0 <= v < math.inf),
    "max_grad_norm": Rule("a number, finite and > 0", lambda v: v.ndim == 0 and 0 < v < math.inf),
}
SCHEDULED = ("learning_rate", "momentum", "every_k")


def check(owner: str, norm: str, **values: Any) -> None:
    """Raise a ValueError for the first option that breaks its rule."""
    if norm not in NORMS:
        raise ValueError(f"{owner}: norm must be one of {', '.join(NORMS)}; got norm={norm!r}.")
    for name, value in values.items():
        require(owner, name, value)


def require(owner: str, name: str, value: Any) -> None:
    """Raise a ValueError if an option breaks its rule."""
    scheduled = callable(value) and name in SCHEDULED
    # A JAX array may be a tracer; `inject_hyperparams` makes one of a schedule.
    if not scheduled and not (isinstance(value, jax.Array) and value.ndim == 0):
        RULES[name].require(owner, name, value)


def at(value: Any, count: Array) -> Any:
    """A number, or a schedule's."""
    return value(count) if callable(value) else value
