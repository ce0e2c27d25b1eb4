"""Stochastic gradients of an objective: draw once, evaluate anywhere.

One file per oracle, one class per file, the class named as the file. The folder is the registry: a new file is found
here, by `--oracle` of the command line and by the tests that every oracle has to pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

from gladstorm.core.calls import Defaults, read_call
from gladstorm.core.names import import_own, is_own, require_known, suggest
from gladstorm.core.parts import discover
from gladstorm.problems.oracles.blum_gladyshev import BlumGladyshev
from gladstorm.problems.oracles.chain_oracle import ChainOracle
from gladstorm.problems.oracles.finite_sum import FiniteSum, finite_sum, measured_variance
from gladstorm.problems.oracles.full_rank import FullRank
from gladstorm.problems.oracles.gradient_coupled import GradientCoupled
from gladstorm.problems.oracles.oracle import OfExamples, Oracle, Point
from gladstorm.problems.oracles.poisson_regression import PoissonRegression
from gladstorm.problems.oracles.sampled_phase_retrieval import SampledPhaseRetrieval
from gladstorm.problems.oracles.skewed import Skewed
from gladstorm.problems.oracles.streaming_least_squares import StreamingLeastSquares
from gladstorm.problems.oracles.temporal_differences import TemporalDifferences
from gladstorm.problems.oracles.variational_gaussian import VariationalGaussian
from gladstorm.problems.oracles.variational_logistic import VariationalLogistic

__all__ = [
    "BlumGladyshev",
    "ChainOracle",
    "FiniteSum",
    "FullRank",
    "GradientCoupled",
    "OfExamples",
    "Oracle",
    "Point",
    "PoissonRegression",
    "Recipe",
    "SampledPhaseRetrieval",
    "Skewed",
    "StreamingLeastSquares",
    "TemporalDifferences",
    "VariationalGaussian",
    "VariationalLogistic",
    "finite_sum",
    "measured_variance",
    "named",
    "names",
    "read",
    "registry",
]


def registry() -> dict[str, type[Oracle]]:
    """The classes of all oracles, by their names on the command line.

    >>> registry()["full-rank"].__name__
    'FullRank'
    """
    return discover(__name__, Oracle)


def names() -> list[str]:
    """The names of all oracles that the command line and `named` know.

    >>> names()[:3]
    ['blum-gladyshev', 'chain-oracle', 'finite-sum']
    """
    return list(registry())


def named(text: str, objective: Any, given: Mapping[str, float] | None = None) -> Oracle:
    """Make the oracle of an objective from a text NAME(argument=number, …).

    `given` has numbers for arguments that the text leaves out.

    >>> from gladstorm import objectives
    >>> named("skewed(B=0.5, q=0.1)", objectives.named("cauchy", start=5.0), {"B": 2.0, "G": 1.0})
    Skewed(objective=Cauchy(start=array([5.])), B=0.5, G=1.0, q=0.1)
    """
    return read(text, given).of(objective)


@dataclass(frozen=True)
class Recipe:
    """What a text says about an oracle: everything but its objective."""

    kind: type[Oracle]  #: the class
    numbers: dict[str, float]  #: its arguments

    def of(self, objective: Any) -> Oracle:
        """Make the oracle of this objective; a ValueError says so if the two do not go together."""
        if why := self.kind.misfit(objective):
            raise ValueError(why)
        make: Callable[..., Oracle] = self.kind
        return make(objective, **self.numbers)


def read(text: str, given: Mapping[str, float] | None = None) -> Recipe:
    """Read the text of an oracle without making it, before there is an objective.

    Args:
        text: NAME(argument=number, …), or MODULE:NAME(…) for an oracle of your own in the current folder.
        given: Numbers for arguments that the text leaves out. `Defaults` remembers which.

    Raises:
        ValueError: If there is no such oracle, or its arguments are others.

    >>> read("full-rank(B=0.5)", {"G": 1.0}).numbers
    {'B': 0.5, 'G': 1.0}
    """
    call, known = read_call("oracle", text), registry()
    name = call.name if is_own(call.name) else call.name.replace("_", "-")
    if not is_own(name):
        require_known("oracle:", name, known)
    part: Any = import_own("oracle", name) if is_own(name) else known[name]
    if not (inspect.isclass(part) and issubclass(part, Oracle) and is_dataclass(part)):
        raise ValueError(f"oracle: {name} must be a class that inherits Oracle, with @part above it; got {part!r}.")
    takes = [field.name for field in fields(part) if field.name != "objective"]
    if unknown := [argument for argument in call.arguments if argument not in takes]:
        raise ValueError(f"oracle: {name} takes {', '.join(takes) or 'no arguments'}; got {suggest(unknown[0], takes)}")
    for argument, value in call.arguments.items():
        if not isinstance(value, int | float):
            raise ValueError(f"oracle: {argument} of {name} must be one number; got {text!r}.")
    left_out = given if isinstance(given, Defaults) else Defaults(given)
    needed = [field.name for field in fields(part) if field.name in takes and field.default is MISSING]
    if missing := [argument for argument in needed if argument not in {**left_out, **call.arguments}]:
        raise ValueError(f"oracle: {name} needs {missing[0]}, as in {name}({missing[0]}=0.1); got {text!r}.")
    numbers = {each: left_out.take(each) for each in takes if each in left_out and each not in call.arguments}
    numbers |= call.arguments
    return Recipe(part, {each: numbers[each] for each in takes if each in numbers})
