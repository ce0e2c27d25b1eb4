"""Frozen dataclasses that are pytrees: what objectives, oracles, estimators, steps and batch rules share.

Numbers are leaves, so a sweep is a stack of parts and changing a number never recompiles. A part cannot check itself
when it is built (JAX rebuilds parts around tracers), so each field states its rule and the edges call `check`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, dataclass_transform, runtime_checkable

import jax
import numpy as np

from gladstorm.core.rules import Rule
from gladstorm.core.screen import fields_shown, shown

C = TypeVar("C")

Array = jax.Array
Numbers = jax.typing.ArrayLike | Sequence[float]  # one number, or as many as a sweep has configurations


@runtime_checkable
class Varying(Protocol):
    """A schedule, as far as this file knows: it stands in place of a number and has a value for every step."""

    def reach(self) -> tuple[Any, Any]:
        """The smallest and the largest value it can have: those a rule is checked with."""


class Number(Protocol):
    """The type of a field that holds a number. Numbers and schedules are given for it; formulas read one number.

    Type checkers see what `__set__` takes and what `__get__` returns; there are no objects of this class.
    """

    def __get__(self, part: object, kind: type) -> Array | float: ...

    def __set__(self, part: object, given: Numbers | Varying) -> None: ...


class Data(Protocol):
    """The type of a field that holds an array: NumPy's is given for it as well; formulas read JAX's."""

    def __get__(self, part: object, kind: type) -> Array: ...

    def __set__(self, part: object, given: jax.typing.ArrayLike) -> None: ...


def leaf(rule: Rule, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that holds numbers, with the rule they must obey. New numbers need no new compilation."""
    return dataclasses.field(default=default, metadata={"rule": rule})


def static(rule: Rule | None = None, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that decides what is compiled: another value is another program."""
    return dataclasses.field(default=default, metadata={"rule": rule, "static": True})


# Frozen too, but not for mypy (2.4), which would then read the type of `__set__` from fields that a part inherits.
@dataclass_transform(field_specifiers=(leaf, static, dataclasses.field))
def part(cls: type[C]) -> type[C]:
    """Make a class a frozen dataclass that JAX can look into (a pytree).

    It does not use `jax.tree_util.register_dataclass`: in JAX 0.10, two structures that differ only in their
    dataclasses compare equal, and `jax.jit` sometimes runs the program of the other one. Here the class is part of the
    structure.

    >>> from gladstorm.methods.steps import Normalized, Plain
    >>> jax.tree.structure(Plain(1.0)) == jax.tree.structure(Normalized(1.0))
    False
    """
    made: Any = dataclasses.dataclass(frozen=True, repr=False)(cls)
    if "__repr__" not in vars(cls):
        made.__repr__ = fields_shown
    made.__reduce__ = _reduced
    _register(made)
    return cast("type[C]", made)


def _register(made: type[Any]) -> None:
    fixed = [field.name for field in dataclasses.fields(made) if field.metadata.get("static")]
    traced = [field.name for field in dataclasses.fields(made) if field.name not in fixed]

    def flatten(self: Any) -> Any:
        return tuple(getattr(self, name) for name in traced), (made, tuple(getattr(self, name) for name in fixed))

    def flatten_with_keys(self: Any) -> Any:
        leaves, structure = flatten(self)
        return tuple(zip(map(jax.tree_util.GetAttrKey, traced), leaves, strict=True)), structure

    def unflatten(structure: Any, leaves: Any) -> Any:
        self = object.__new__(made)  # not __init__: JAX rebuilds parts around tracers and placeholders
        for name, value in (*zip(traced, leaves, strict=True), *zip(fixed, structure[1], strict=True)):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)


def _reduced(self: Any) -> Any:
    return _remade, (type(self), {field.name: getattr(self, field.name) for field in dataclasses.fields(self)})


def _remade(cls: type[Any], fields: dict[str, Any]) -> Any:
    """A part in another process, to which its class may have come with it: JAX knows nothing of that one yet."""
    self = cls(**fields)
    if not is_part(self):
        _register(cls)
    return self


def check(part: Any, *, single: bool = False) -> None:
    """Raise a ValueError for the first number, here or in a nested part, that breaks its field's rule.

    Args:
        part: A part, or what is given for one.
        single: Whether a field has one number only. Only methods are swept: of an oracle, two numbers would be taken
            for one of each coordinate. Nor is a list an array: to JAX it is as many numbers.
    """
    owner, wanted = type(part).__name__, "must be a part, with @gladstorm.part above its class"
    if not is_part(part):
        raise ValueError(f"{owner}: {wanted}, so that JAX can look into it; got {shown(part)}.")
    for field in dataclasses.fields(part):
        value, name = getattr(part, field.name), field.name
        rule, is_static = field.metadata.get("rule"), field.metadata.get("static")
        nested = dataclasses.is_dataclass(value) and not isinstance(value, type)
        is_number = getattr(field.type, "__name__", field.type) in ("Number", "float")
        must_be = ""
        if single and rule and is_number and (np.ndim(value) or nested):
            must_be = f"must be one number, {rule.words}"
        elif single and rule and not is_static and isinstance(value, list | tuple):
            must_be = "must be an array, np.array(…)"
        elif nested and rule and not isinstance(value, Varying):
            must_be = f"must be {rule.words}, as a number or a schedule"
        elif nested:
            if not is_static:
                check(value, single=single)
            if rule:
                _require_throughout(rule, owner, name, *value.reach())
        elif rule and is_static and isinstance(value, list | np.ndarray):
            must_be = "must be one number, as it decides the program"
        elif rule:
            rule.require(owner, name, value)
        elif not is_static and any(np.asarray(each).dtype.kind == "O" for each in jax.tree.leaves(value)):
            must_be = f"{wanted}, or arrays"
        if must_be:
            raise ValueError(f"{owner}: {name} {must_be}; got {name}={shown(value)}.")


def _require_throughout(rule: Rule, owner: str, name: str, low: Any, high: Any) -> None:
    """Refuse a schedule from `low` to `high` unless the rule holds for all its values."""
    between = low + (high - low) / np.sqrt(2)  # a whole number only where `low` and `high` are one
    for stage, value in ((rule, high), (rule.with_zero or rule, low), (rule.with_zero or rule, between)):
        dataclasses.replace(stage, words=f"{stage.words} at every step").require(owner, name, value)


def is_part(value: Any) -> bool:
    """Whether a value is a dataclass that JAX can look into, as `part` makes them: a subclass needs it again."""
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_instance and not jax.tree_util.all_leaves([value])


def in_float64(part: Any) -> Any:
    """The part with float64 in place of every number; arrays of integers stay where a field has no rule: labels."""
    if not is_part(part):
        return jax.tree.map(as_data, part)
    changed = {}
    for field in dataclasses.fields(part):
        if not field.metadata.get("static"):
            value, rule = getattr(part, field.name), field.metadata.get("rule")
            changed[field.name] = _anew(value) if rule and not is_part(value) else in_float64(value)
    return dataclasses.replace(part, **changed)


def as_data(array: Any) -> np.ndarray:
    """Integers and booleans of an array as they are, other numbers in float64; a single number is a float64."""
    data = np.asarray(array)
    return data.view() if data.ndim and data.dtype.kind not in "f" else _anew(array)


def _anew(number: Any) -> np.ndarray:
    """A float64 array that JAX has not seen: of one that a float32 program captured, it remembers the rounded entries.

    Even where float64 is enabled later: as of JAX 0.10, the program then fails with a buffer of half its size.
    """
    return np.asarray(number, np.float64).view()


def describe(value: Any) -> Any:
    """A part as JSON-ready data: its class and numbers; arrays by shape and SHA-256, functions by name.

    >>> from gladstorm.methods.steps import Plain
    >>> describe(Plain(gamma=0.5))
    {'type': 'Plain', 'gamma': 0.5}
    >>> describe({"labels": np.array([1, 2]), "more": (0.5, np.zeros(17))})["labels"]
    [1, 2]
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__} | named
    if callable(value):
        return getattr(value, "__qualname__", repr(value))
    if value is None or isinstance(value, bool | str):
        return value
    is_list = isinstance(value, list | tuple) and all(np.ndim(entry) == 0 for entry in value)
    if not jax.tree_util.all_leaves([value]) and not is_list:
        leaves = jax.tree.leaves_with_path(value)
        return {jax.tree_util.keystr(path, simple=True, separator="."): describe(leaf) for path, leaf in leaves}
    array = np.asarray(value)
    if array.dtype.kind not in "iufb":
        return repr(value)
    if array.size <= 16 and np.isfinite(array).all():
        return array.tolist()
    return {"shape": list(array.shape), "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}


def parts_of(namespace: Mapping[str, Any], base: Any) -> dict[str, type[Any]]:
    """The parts of one kind in a module's namespace by name: the class YourName is your_name.

    >>> from gladstorm.methods import averages
    >>> list(parts_of(vars(averages), averages.Average))[:2]
    ['polynomial_average', 'tail_average']
    """
    classes = [cls for cls in namespace.values() if isinstance(cls, type) and issubclass(cls, base)]
    parts = [cls for cls in classes if dataclasses.is_dataclass(cls) and not inspect.isabstract(cls)]
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower(): cls for cls in parts}
