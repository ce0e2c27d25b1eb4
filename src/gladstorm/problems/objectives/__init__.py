"""Objectives: f with value, gradient, start point x⁰ and, where known, smoothness constants.

One file per objective, one class per file, the class named as the file. The folder is the registry: a new file is found
here and by `gladstorm simulate --objective` under its name.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np

from gladstorm.core.calls import OWN, Call, read_call
from gladstorm.core.constants import Constants
from gladstorm.core.memory import require_room_for_runs
from gladstorm.core.names import import_own, is_own, require_known, suggest
from gladstorm.core.parts import discover
from gladstorm.core.rules import COUNT, SEED, VECTOR
from gladstorm.problems.objectives.cauchy import Cauchy
from gladstorm.problems.objectives.cosh import Cosh
from gladstorm.problems.objectives.double_well import DoubleWell
from gladstorm.problems.objectives.dro import Dro
from gladstorm.problems.objectives.from_function import FromFunction, from_function
from gladstorm.problems.objectives.gated_runway import GatedRunway
from gladstorm.problems.objectives.geman_mcclure import GemanMcclure
from gladstorm.problems.objectives.objective import Objective
from gladstorm.problems.objectives.phase_retrieval import PhaseRetrieval
from gladstorm.problems.objectives.poisson_regression import PoissonRegression
from gladstorm.problems.objectives.power import Power
from gladstorm.problems.objectives.quadratic import Quadratic
from gladstorm.problems.objectives.sampled_phase_retrieval import SampledPhaseRetrieval
from gladstorm.problems.objectives.streaming_least_squares import StreamingLeastSquares
from gladstorm.problems.objectives.temporal_differences import TemporalDifferences
from gladstorm.problems.objectives.variational_gaussian import VariationalGaussian
from gladstorm.problems.objectives.variational_logistic import VariationalLogistic
from gladstorm.problems.objectives.zero_chain import ZeroChain

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
    """Make an objective from a text: NAME, NAME(argument=number, …), or NAME:NUMBER,NUMBER,… for short.

    Args:
        spec: The text. The arguments are those of the class's `from_seed`; some objectives also know words, as in
            variational-gaussian:mean-field. MODULE:NAME(…) is a class or function of your own in the current folder,
            which gets `seed` and `dim` if it takes them.
        seed: The objective's data and start are drawn from it.
        dim: The dimension of x; the objective's own if not given.
        start: Every coordinate of x⁰; the objective's own start if not given.

    Raises:
        ValueError: If there is no such objective, or it does not take these numbers.

    >>> named("power:4", dim=2, start=5.0)
    Power(start=array([5., 5.]), p=4.0)
    >>> named("power(p=4)", dim=2, start=5.0)
    Power(start=array([5., 5.]), p=4.0)
    """
    text = _read(spec)
    SEED.require("objective", "seed", seed)
    if start is not None:
        VECTOR.require("objective", "start", [start])
    if dim is not None:
        COUNT.require("objective", "dim", dim)
        require_room_for_runs("objective", int(dim))
    objective = text.make(seed, dim)
    if start is None:
        return objective
    return dataclasses.replace(objective, start=np.full(objective.start.shape, float(start)))


@dataclasses.dataclass(frozen=True)
class _Text:
    """What a text says about an objective."""

    kind: Any  # a class with `from_seed`, or whatever a user's own name stands for
    name: str
    numbers: tuple[Any, ...]  # after a colon
    arguments: dict[str, Any]  # in brackets

    def make(self, seed: int, dim: int | None) -> Any:
        make = getattr(self.kind, "from_seed", self.kind)
        takes = inspect.signature(make).parameters
        offered = {"seed": seed} | ({} if dim is None else {"dim": dim})
        known = [
            name for name, each in takes.items() if name not in ("seed", "dim") and each.kind != each.VAR_POSITIONAL
        ]
        if unknown := [each for each in self.arguments if each not in known]:
            told = ", ".join(known) or "no arguments"
            raise ValueError(f"objective: {self.name} takes {told}, by name; got {suggest(unknown[0], known)}")
        if dim is not None and "dim" not in takes:
            raise ValueError(f"objective: dim must be left out, {self.name} takes no dim; got dim={dim}.")
        offered = {name: value for name, value in offered.items() if name in takes}
        first = [offered.pop("seed")] if self.numbers else []
        try:
            return make(*first, *self.numbers, **offered, **self.arguments)
        except TypeError as problem:
            if is_own(self.name):
                raise ValueError(f"objective: {self.name} cannot be made of these arguments ({problem}).") from None
            text = ",".join(str(number).removesuffix(".0") for number in self.numbers)
            raise ValueError(f"objective: {self.name!r} takes fewer numbers; got {text!r}.") from None
        except MemoryError:
            what = f"dim={dim}, {','.join(map(str, (*self.numbers, *self.arguments.values())))!r}"
            raise ValueError(f"objective: {self.name!r} must fit in memory; got {what}: choose less.") from None


def _what_follows(kind: Any) -> str:
    return " or ".join([*getattr(kind, "words", ()), "numbers"])


def own_oracle(spec: str) -> str | None:
    """The name of the oracle for an objective's own noise; None if the objective has no noise of its own.

    >>> own_oracle("streaming-least-squares"), own_oracle("power:3")
    ('streaming-least-squares', None)
    """
    return getattr(_read(spec).kind, "own_oracle", None)


def _read(spec: str) -> _Text:
    """What is written: an objective's name, then numbers after a colon or arguments in brackets."""
    name, _, after = str(spec).partition(":")
    known = registry()
    if name in known:
        words = getattr(known[name], "words", ())
        try:
            numbers = tuple(word if word in words else float(word) for word in after.split(",") if after)
        except ValueError:
            what = f"what follows {name!r} must be {_what_follows(known[name])} separated by commas"
            raise ValueError(f"objective: {what}; got {after!r}.") from None
        return _Text(known[name], name, numbers, {})
    if "(" not in spec and not OWN.fullmatch(spec):
        require_known("objective:", name, known)
    call = read_call("objective", spec)
    if is_own(call.name):
        return _Text(import_own("objective", call.name), call.name, (), call.arguments)
    name = call.name.replace("_", "-")
    require_known("objective:", name, known)
    return _Text(known[name], name, (), {each: _plain(value, known[name]) for each, value in call.arguments.items()})


def _plain(value: Any, kind: Any) -> Any:
    """A number, or one of the words an objective knows."""
    word = value.name.replace("_", "-") if isinstance(value, Call) and not value.arguments else value
    if isinstance(word, int | float):
        return float(word)
    if word in getattr(kind, "words", ()):
        return word
    raise ValueError(f"objective: an argument must be {_what_follows(kind)}, one for each name; got {value!r}.")
