"""Objectives: f with value, gradient, start point x⁰ and, where known, smoothness constants.

One file per objective, one class per file, the class named as the file. The folder is the registry: a new file is found
here and by `gladstorm simulate --objective` under its name.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gladstorm.foundation.constants import Constants
from gladstorm.foundation.memory import require_room
from gladstorm.foundation.parts import discover
from gladstorm.foundation.rules import COUNT, SEED, VECTOR
from gladstorm.objectives.cauchy import Cauchy
from gladstorm.objectives.cosh import Cosh
from gladstorm.objectives.double_well import DoubleWell
from gladstorm.objectives.dro import Dro
from gladstorm.objectives.from_function import FromFunction, from_function
from gladstorm.objectives.gated_runway import GatedRunway
from gladstorm.objectives.geman_mcclure import GemanMcclure
from gladstorm.objectives.objective import Objective
from gladstorm.objectives.phase_retrieval import PhaseRetrieval
from gladstorm.objectives.poisson_regression import PoissonRegression
from gladstorm.objectives.power import Power
from gladstorm.objectives.quadratic import Quadratic
from gladstorm.objectives.sampled_phase_retrieval import SampledPhaseRetrieval
from gladstorm.objectives.streaming_least_squares import StreamingLeastSquares
from gladstorm.objectives.temporal_differences import TemporalDifferences
from gladstorm.objectives.variational_gaussian import VariationalGaussian
from gladstorm.objectives.variational_logistic import VariationalLogistic
from gladstorm.objectives.zero_chain import ZeroChain

__all__ = [
    "Cauchy",
    "Constants",
    "Cosh",
    "DoubleWell",
    "Dro",
    "FromFunction",
    "GatedRunway",
    "GemanMcclure",
    "Objective",
    "PhaseRetrieval",
    "PoissonRegression",
    "Power",
    "Quadratic",
    "SampledPhaseRetrieval",
    "StreamingLeastSquares",
    "TemporalDifferences",
    "VariationalGaussian",
    "VariationalLogistic",
    "ZeroChain",
    "from_function",
    "named",
    "names",
    "own_oracle",
    "registry",
]


def registry() -> dict[str, Any]:
    """The classes of all objectives that the command line can name: those that can be drawn from a seed.

    >>> registry()["power"].__name__
    'Power'
    """
    return {name: cls for name, cls in discover(__name__, object).items() if hasattr(cls, "from_seed")}


def names() -> list[str]:
    """The names of all objectives that the command line and `named` know.

    >>> names()[:3]
    ['cauchy', 'cosh', 'double-well']
    """
    return list(registry())


def named(spec: str, *, seed: int = 0, dim: int | None = None, start: float | None = None) -> Any:
    """Make an objective from a text NAME or NAME:NUMBER,NUMBER,….

    spec: the text. The numbers are the arguments of the class's `from_seed`; some objectives also know words, as in
        variational-gaussian:mean-field.
    seed: the objective's data and start are drawn from it.
    dim: the dimension of x; the objective's own if not given.
    start: every coordinate of x⁰; the objective's own start if not given.

    >>> named("power:4", dim=2, start=5.0)
    Power(start=array([5., 5.]), p=4.0)
    """
    kind, text = _read(spec)
    name = spec.partition(":")[0]
    try:
        words = text.split(",") if text else []
        numbers = [word if word in getattr(kind, "words", ()) else float(word) for word in words]
    except ValueError:
        raise ValueError(
            f"objective: what follows {name!r} must be {_what_follows(kind)} separated by commas; got {text!r}."
        ) from None
    SEED.require("objective", "seed", seed)
    if start is not None:
        VECTOR.require("objective", "start", [start])
    if dim is not None:
        COUNT.require("objective", "dim", dim)
        require_room("objective", f"x of dimension {dim:,}", 8 * int(dim), "choose a smaller dim")
    try:
        objective = kind.from_seed(seed, *numbers, **({} if dim is None else {"dim": dim}))
    except TypeError:
        raise ValueError(f"objective: {name!r} takes fewer numbers; got {text!r}.") from None
    except MemoryError:
        raise ValueError(f"objective: {name!r} must fit in memory; got dim={dim}, {text!r}: choose less.") from None
    if start is None:
        return objective
    return dataclasses.replace(objective, start=np.full(objective.start.shape, float(start)))


def _what_follows(kind: Any) -> str:
    return " or ".join([*getattr(kind, "words", ()), "numbers"])


def own_oracle(spec: str) -> str | None:
    """The name of the oracle for an objective's own noise; None if the objective has no noise of its own.

    >>> own_oracle("streaming-least-squares"), own_oracle("power:3")
    ('streaming-least-squares', None)
    """
    return getattr(_read(spec)[0], "own_oracle", None)


def _read(spec: str) -> tuple[Any, str]:
    """The class of an objective, and what was written after its name."""
    name, _, text = str(spec).partition(":")
    known = registry()
    if name not in known:
        raise ValueError(f"objective: must be one of {', '.join(known)}; got {name!r}.")
    return known[name], text
