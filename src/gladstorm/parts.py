"""What objectives, oracles, estimators, steps and batch rules share: frozen dataclasses that are pytrees.

Numbers are leaves, so a sweep is a stack of parts and changing a number never recompiles. A part cannot check itself
when it is built (JAX rebuilds parts around tracers), so each field states its rule and the edges call `check`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

from gladstorm.rules import Rule

C = TypeVar("C")

Number = Any  # a float; an array of them in a sweep; a tracer inside the compiled program
Array = Any  # likewise


def leaf(rule: Rule, default: Any = dataclasses.MISSING) -> Any:
    """A traced field with the rule its value must obey."""
    return dataclasses.field(default=default, metadata={"rule": rule})


def static(rule: Rule | None = None, default: Any = dataclasses.MISSING) -> Any:
    """A field that belongs to the structure: another value is another program."""
    return dataclasses.field(default=default, metadata={"rule": rule, "static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(leaf, static, dataclasses.field))
def part(cls: type[C]) -> type[C]:
    """Make a class a frozen dataclass and a pytree."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


def check(part: Any) -> None:
    """Raise a ValueError for the first number, here or in a nested part, that breaks its field's rule."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value):
            check(value)
        elif rule := field.metadata.get("rule"):
            rule.require(type(part).__name__, field.name, value)


def describe(value: Any) -> Any:
    """A part as JSON-ready data: its class and numbers; arrays by shape and SHA-256, functions by name.

    >>> from gladstorm.steps import Normalized
    >>> describe(Normalized(gamma=0.5))
    {'type': 'Normalized', 'gamma': 0.5}
    """
    if dataclasses.is_dataclass(value):
        named = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__} | named
    if callable(value):
        return getattr(value, "__qualname__", repr(value))
    if value is None or isinstance(value, bool | str):
        return value
    array = np.asarray(value)
    if array.size <= 16:
        return array.tolist()
    return {"shape": list(array.shape), "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}
