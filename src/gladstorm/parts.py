"""What objectives, oracles, estimators, steps and batch rules share: frozen dataclasses that are pytrees.

Numbers are leaves, so a sweep is a stack of parts and changing a number never recompiles. A part cannot check itself
when it is built (JAX rebuilds parts around tracers), so each field states its rule and the edges call `check`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import pkgutil
from typing import Any, TypeVar, cast, dataclass_transform

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
    """Make a class a frozen dataclass and a pytree.

    Not with `jax.tree_util.register_dataclass`: as of JAX 0.10 two structures that differ only in which dataclasses
    they are made of compare equal, and `jax.jit` now and then runs the program of the other one. Here the class is
    part of the structure.

    >>> from gladstorm.steps import Normalized, Plain
    >>> jax.tree.structure(Plain(1.0)) == jax.tree.structure(Normalized(1.0))
    False
    """
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    fixed = [field.name for field in dataclasses.fields(made) if field.metadata.get("static")]
    traced = [field.name for field in dataclasses.fields(made) if field.name not in fixed]

    def structure(self: Any) -> Any:
        return made, tuple(getattr(self, name) for name in fixed)

    def flatten(self: Any) -> Any:
        return tuple(getattr(self, name) for name in traced), structure(self)

    def flatten_with_keys(self: Any) -> Any:
        return tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in traced), structure(self)

    def unflatten(structure: Any, leaves: Any) -> Any:
        self = object.__new__(made)  # not __init__: JAX rebuilds parts around tracers and placeholders
        for name, value in (*zip(traced, leaves, strict=True), *zip(fixed, structure[1], strict=True)):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    return cast("type[C]", made)


def check(part: Any) -> None:
    """Raise a ValueError for the first number, here or in a nested part, that breaks its field's rule."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        rule = field.metadata.get("rule")
        if dataclasses.is_dataclass(value):
            check(value)
            if rule and hasattr(value, "first"):  # a schedule in place of a number; none ever grows
                rule.require(type(part).__name__, field.name, value.first())
        elif rule:
            if field.metadata.get("static") and isinstance(value, list | np.ndarray):
                name = f"{type(part).__name__}: {field.name}"
                raise ValueError(f"{name} must be one number, another makes another program; got {list(value)}.")
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


def found(package: str, base: type[Any]) -> dict[str, type[Any]]:
    """The parts of one kind by name: every module of the package with a class of its own name in CamelCase.

    >>> list(found("gladstorm.steps", object))[:2]
    ['anchored', 'clipped']
    """
    modules = [module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__)]
    classes = {name: getattr(importlib.import_module(f"{package}.{name}"), _camel(name), None) for name in modules}
    return {name.replace("_", "-"): cls for name, cls in classes.items() if cls and _is_part(cls, base)}


def _is_part(cls: type[Any], base: type[Any]) -> bool:
    return issubclass(cls, base) and dataclasses.is_dataclass(cls)


def _camel(module: str) -> str:
    return "".join(word.capitalize() for word in module.split("_"))
