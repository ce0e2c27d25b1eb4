"""Objectives: f with value, gradient, start point x⁰ and, where known, smoothness constants.

One file per objective, one class per file, the class named as the file. The folder is the registry: a new file is found
here and by `gladstorm simulate --objective` under its name.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any, Protocol

import numpy as np

from gladstorm.constants import Constants
from gladstorm.objectives.cauchy import Cauchy
from gladstorm.objectives.cosh import Cosh
from gladstorm.objectives.double_well import DoubleWell
from gladstorm.objectives.dro import Dro
from gladstorm.objectives.from_function import FromFunction, from_function
from gladstorm.objectives.geman_mcclure import GemanMcclure
from gladstorm.objectives.phase_retrieval import PhaseRetrieval
from gladstorm.objectives.power import Power
from gladstorm.objectives.quadratic import Quadratic
from gladstorm.parts import Array
from gladstorm.rules import COUNT, VECTOR

__all__ = [
    "Cauchy",
    "Constants",
    "Cosh",
    "DoubleWell",
    "Dro",
    "FromFunction",
    "GemanMcclure",
    "Objective",
    "PhaseRetrieval",
    "Power",
    "Quadratic",
    "from_function",
    "named",
    "names",
]


class Objective(Protocol):
    """What the oracle needs of f."""

    @property
    def start(self) -> Array:
        """x⁰."""

    @property
    def f_inf(self) -> float | None:
        """inf f, or None where it is not known."""

    @property
    def constants(self) -> Constants | None:
        """Smoothness constants, or None where none are known in closed form."""

    def value(self, x: Array) -> Array:
        """f(x)."""

    def grad(self, x: Array) -> Array:
        """∇f(x)."""


def names() -> list[str]:
    """The objectives that can be named on the command line.

    >>> names()
    ['cauchy', 'cosh', 'double-well', 'dro', 'geman-mcclure', 'phase-retrieval', 'power', 'quadratic']
    """
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return [name.replace("_", "-") for name in modules if hasattr(_class_of(name), "from_seed")]


def named(spec: str, *, seed: int = 0, dim: int | None = None, start: float | None = None) -> Any:
    """The objective written NAME or NAME:NUMBER[,NUMBER…], its instance drawn from the seed.

    `start` puts every coordinate of x⁰ at that number instead.

    >>> named("power:4", dim=2, start=5.0)
    Power(start=array([5., 5.]), p=4.0)
    """
    name, _, text = spec.partition(":")
    if name not in names():
        raise ValueError(f"objective: must be one of {', '.join(names())}; got {name!r}.")
    cls: Any = _class_of(name.replace("-", "_"))
    try:
        numbers = [float(word) for word in text.split(",")] if text else []
    except ValueError:
        raise ValueError(
            f"objective: what follows {name!r} must be numbers separated by commas; got {text!r}."
        ) from None
    if dim is not None:
        COUNT.require("objective", "dim", dim)
    try:
        objective = cls.from_seed(seed, *numbers, **({} if dim is None else {"dim": dim}))
    except TypeError:
        raise ValueError(f"objective: {name!r} takes fewer numbers; got {text!r}.") from None
    if start is None:
        return objective
    VECTOR.require("objective", "start", [start])
    return dataclasses.replace(objective, start=np.full(objective.start.shape, float(start)))


def _class_of(module: str) -> Any:
    camel = "".join(word.capitalize() for word in module.split("_"))
    return getattr(importlib.import_module(f"{__name__}.{module}"), camel, None)
