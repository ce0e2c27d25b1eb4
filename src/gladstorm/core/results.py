"""Results as dataclasses, and JSON: one pair of functions for every file of results."""

import dataclasses
import math
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

Kind = TypeVar("Kind")


def to_json(value: Any, name: str = "results") -> Any:
    """Return dataclasses, containers and NumPy's numbers as JSON holds them.

    A number that is not finite is refused by the name of its field; a field that may be without a number holds None.

    >>> to_json({"norm": [1.0, float("nan")]})
    Traceback (most recent call last):
    ValueError: results.norm[1] must be finite; got nan.
    """
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name), f"{name}.{field.name}") for field in _fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(each, f"{name}.{key}") for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist(), name)
    if isinstance(value, list | tuple):
        return [to_json(each, f"{name}[{place}]") for place, each in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be finite; got {value}.")
    return value


def from_json(kind: type[Kind], data: Any, name: str = "results") -> Kind:
    """Return what `to_json` was given, of this kind; a ValueError names the field that is missing or of another kind.

    >>> from_json(dict[int, tuple[float, ...]], {"3": [1, 2.5]})
    {3: (1.0, 2.5)}
    """
    made: Kind = _made(kind, data, name)
    return made


def _made(kind: Any, data: Any, name: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or origin is Literal:
        return data
    if origin in (Union, types.UnionType):
        return None if data is None else _made(next(each for each in inner if each is not type(None)), data, name)
    if dataclasses.is_dataclass(kind):
        return _structure(kind, _of(dict, data, name), name)
    if origin in (dict, Mapping):
        items = _of(dict, data, name).items()
        return {inner[0](key): _made(inner[1], each, f"{name}.{key}") for key, each in items}
    if origin in (list, tuple):
        each_kind = inner[:1] * len(_of(list, data, name)) if origin is list or inner[1:] == (...,) else inner
        made = [
            _made(of, each, f"{name}[{place}]") for place, (of, each) in enumerate(zip(each_kind, data, strict=True))
        ]
        return made if origin is list else tuple(made)
    if kind is float:
        return float(_of((int, float), data, name))
    return _of(kind, data, name)


def _structure(kind: Any, data: dict[str, Any], name: str) -> Any:
    hints, names = _hints(kind), [field.name for field in _fields(kind)]
    if unknown := data.keys() - names:
        raise ValueError(f"{name} must have the fields {', '.join(names)}; got {', '.join(sorted(unknown))}.")
    needed = {field.name for field in _fields(kind) if field.default is field.default_factory is dataclasses.MISSING}
    if missing := [each for each in names if each in needed and each not in data]:
        raise ValueError(f"{name}.{missing[0]} is missing.")
    return kind(**{each: _made(hints[each], data[each], f"{name}.{each}") for each in names if each in data})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _fields(kind: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(kind) if field.init]


def _of(kind: Any, data: Any, name: str) -> Any:
    if not isinstance(data, kind):
        raise ValueError(f"{name} must be of the kind {getattr(kind, '__name__', 'float')}; got {data!r}.")
    return data
