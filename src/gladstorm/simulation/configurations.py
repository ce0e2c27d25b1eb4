"""The configurations that methods stand for: one for each entry of the arrays among their numbers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from gladstorm.core.screen import shown
from gladstorm.methods import Method
from gladstorm.methods.method import is_list
from gladstorm.simulation.validation import validate_method


@dataclass(frozen=True)
class Configuration:
    """A method with single numbers: its name, all its numbers by field, and the fields that were given as lists.

    >>> Configuration("SGD", {"gamma": 0.1, "size": 1.0}, ("gamma",)).label
    'SGD (gamma=0.1)'
    """

    name: str
    numbers: Mapping[str, float]
    swept: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The configuration for people: its name, and the numbers that tell it from the others of that name."""
        values = ", ".join(f"{field}={self.numbers[field]:.6g}" for field in self.swept)
        return f"{self.name} ({values})" if values else self.name

    @property
    def text(self) -> str:
        """The label for a table: each list of numbers in the name is replaced by the one of them that was run.

        >>> Configuration("sgd(gamma=[0.1,1])", {"gamma": 0.1, "eta": 0.5}, ("gamma", "eta")).text
        'sgd(gamma=0.1) (eta=0.5)'
        """
        name, others = fill_in(self.name, {field: f"{self.numbers[field]:.4g}" for field in self.swept})
        return f"{name} ({', '.join(map('='.join, others.items()))})" if others else name

    def as_dict(self) -> dict[str, Any]:
        """The configuration as JSON-ready data; infinite numbers, which JSON does not have, are texts."""
        numbers = {field: value if math.isfinite(value) else str(value) for field, value in self.numbers.items()}
        return {"name": self.name, "numbers": numbers, "swept": list(self.swept)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Configuration:
        """The configuration that `as_dict` made into this data."""
        numbers = {field: float(value) for field, value in data["numbers"].items()}
        return cls(data["name"], numbers, tuple(data["swept"]))


def argument(field: str) -> str:
    """Return the name under which a method's text has a number: that of its batch rule, if it is the rule's size.

    >>> [argument(field) for field in ("gamma", "step.gamma.initial", "size", "large.size")]
    ['gamma', 'initial', 'batch', 'large']
    """
    *_, rule, last = ("batch", *field.split("."))
    return rule if last == "size" else last


def fill_in(text: str, numbers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Replace the lists in a method's text by one number each; return the text, and the numbers of no list.

    >>> fill_in("spider(q=9,large=[4,8],batch=grid(1,4,2))", {"size": "1", "large.size": "8", "gamma": "0.1"})
    ('spider(q=9,large=8,batch=1)', {'gamma': '0.1'})
    """
    others: dict[str, str] = {}
    for field, number in numbers.items():
        written = rf"\b({re.escape(argument(field))})=(\[[^\]]*\]|grid\([^()]*\))"
        text, count = re.subn(written, rf"\g<1>={number}", text)
        others |= {} if count else {field: number}
    return text, others


class Configured(NamedTuple):
    """A configuration, and the method it is."""

    configuration: Configuration
    method: Method
    structure: int  # the same for methods of a sweep that differ in numbers only, which can be stacked


def name_methods(methods: Any) -> dict[str, Method]:
    """The methods by name, each validated."""
    if isinstance(methods, Method) or not isinstance(methods, Mapping | Sequence):
        raise ValueError(f"sweep: methods must be a list of methods, or a dict of them by name; got {shown(methods)}.")
    if not methods:
        raise ValueError("sweep: methods must be at least one Method; got none.")
    if isinstance(methods, Mapping):
        named = {str(name): validate_method(method) for name, method in methods.items()}
        if len(named) < len(methods):
            raise ValueError(
                f"sweep: names of methods must differ as text, or one is lost; got {shown(list(methods))}."
            )
        return named
    return _label([validate_method(method) for method in methods])


def expand(methods: dict[str, Method]) -> list[Configured]:
    """Every configuration the methods stand for, each with a label of its own."""
    configured: dict[str, Configured] = {}
    structures: dict[Any, int] = {}
    for name, method in methods.items():
        leaves, structure = jax.tree.flatten_with_path(method, is_leaf=is_list)
        number = structures.setdefault(structure, len(structures))
        try:
            columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(number, np.float64)) for _, number in leaves))
        except ValueError:
            shapes = [np.shape(number) for _, number in leaves]
            raise ValueError(
                f"sweep: the arrays in {name!r} must have one length; got shapes {shapes}. "
                "Lists go side by side: gladstorm.methods.crossed(gammas, etas) has every pair."
            ) from None
        if columns[0].ndim != 1:
            raise ValueError(
                f"sweep: numbers in {name!r} must be single or a plain list; got shape {columns[0].shape}."
            )
        fields = _fields([path for path, _ in leaves])
        swept = tuple(field for field, (_, given) in zip(fields, leaves, strict=True) if np.ndim(given))
        for values in zip(*(column.tolist() for column in columns), strict=True):
            configuration = Configuration(name, dict(zip(fields, values, strict=True)), swept)
            label = configuration.label
            if label in configured:
                raise ValueError(f"sweep: every configuration must have its own label; got {label!r} twice.")
            single = jax.tree.unflatten(structure, map(np.float64, values))
            configured[label] = Configured(configuration, single, number)
    return list(configured.values())


def _fields(paths: Sequence[Sequence[Any]]) -> list[str]:
    """The names of a method's numbers: within a schedule or an inner part, with the name of the field that holds it.

    >>> from gladstorm import nstorm
    >>> _fields([path for path, _ in jax.tree.flatten_with_path(nstorm(1.0, 0.5))[0]])
    ['eta', 'gamma', 'n_init', 'size']
    """
    short = [".".join(key.name for key in path[1:] if key.name != "then") for path in paths]
    count = Counter(short)  # what an estimator and a step both have is told apart by whose it is
    return [name if count[name] == 1 else f"{path[0].name}.{name}" for name, path in zip(short, paths, strict=True)]


def _label(methods: Sequence[Method]) -> dict[str, Method]:
    """Methods under the names of their parts, with the numbers that tell apart what has the same parts.

    >>> from gladstorm import nsgdm, sgd
    >>> list(_label([sgd(0.1), sgd(0.2), nsgdm(0.1, eta=0.5)]))
    ['fresh+plain (gamma=0.1)', 'fresh+plain (gamma=0.2)', 'momentum+normalized']
    """
    parts = [(method.estimator, method.step, method.average) for method in methods]
    names = ["+".join(type(part).__name__.lower() for part in of_method if part is not None) for of_method in parts]
    labels: dict[str, Method] = {}
    for place, (name, method) in enumerate(zip(names, methods, strict=True)):
        others = [_single_numbers(other) for i, other in enumerate(methods) if names[i] == name and i != place]
        distinct = ", ".join(
            f"{field}={value:.6g}"
            for field, value in _single_numbers(method).items()
            if any(other.get(field) != value for other in others)
        )
        label = f"{name} ({distinct})" if distinct else name
        labels[label if label not in labels else f"{label} (method {place + 1})"] = method
    return labels


def _single_numbers(method: Method) -> dict[str, float]:
    """The numbers of a method that are not lists."""
    leaves = jax.tree.flatten_with_path(method, is_leaf=is_list)[0]
    fields = _fields([path for path, _ in leaves])
    return {field: float(value) for field, (_, value) in zip(fields, leaves, strict=True) if np.ndim(value) == 0}
