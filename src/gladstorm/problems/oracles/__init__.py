"""Stochastic gradients of an objective: draw once, evaluate anywhere.

What is imported here is found by its name, by `--oracle` of the command line and by the tests that every oracle has to
pass. Oracles of problems with noise of their own are in `problems/own_noise`, beside their objectives.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from gladstorm.core.calls import Defaults, bind, numbers_of, read_calls
from gladstorm.core.parts import parts_of
from gladstorm.problems.hard.noisy_runway import NoisyRunwayOracle as NoisyRunwayOracle
from gladstorm.problems.oracle import Oracle as Oracle
from gladstorm.problems.oracle import OwnNoise as OwnNoise
from gladstorm.problems.oracle import Point as Point
from gladstorm.problems.oracle import Streamed as Streamed
from gladstorm.problems.oracles.blum_gladyshev import BlumGladyshev as BlumGladyshev
from gladstorm.problems.oracles.blum_gladyshev import ExactBg0 as ExactBg0
from gladstorm.problems.oracles.blum_gladyshev import FullRankOracle as FullRankOracle
from gladstorm.problems.oracles.blum_gladyshev import NormNoise as NormNoise
from gladstorm.problems.oracles.blum_gladyshev import Skewed as Skewed
from gladstorm.problems.oracles.finite_sum import FiniteSum as FiniteSum
from gladstorm.problems.oracles.finite_sum import finite_sum as finite_sum
from gladstorm.problems.oracles.finite_sum import measured_variance as measured_variance
from gladstorm.problems.own_noise.poisson_regression import PoissonRegressionOracle as PoissonRegressionOracle
from gladstorm.problems.own_noise.sampled_phase_retrieval import (
    SampledPhaseRetrievalOracle as SampledPhaseRetrievalOracle,
)
from gladstorm.problems.own_noise.streaming_least_squares import (
    StreamingLeastSquaresOracle as StreamingLeastSquaresOracle,
)
from gladstorm.problems.own_noise.temporal_differences import TemporalDifferencesOracle as TemporalDifferencesOracle
from gladstorm.problems.own_noise.variational_gaussian import VariationalGaussianOracle as VariationalGaussianOracle


def registry() -> dict[str, type[Oracle]]:
    """The classes of all oracles, by their names on the command line: one of own noise has its objective's name.

    >>> list(registry())[:3]
    ['blum-gladyshev', 'finite-sum', 'full-rank']
    """
    classes = {name.removesuffix("_oracle").replace("_", "-"): cls for name, cls in parts_of(globals(), Oracle).items()}
    return dict(sorted(classes.items()))


def named(text: str, objective: Any, given: Mapping[str, float] | None = None) -> Oracle:
    """Make the oracle of an objective from a text: NAME(argument=number, …), or NAME:number,… for short.

    Args:
        text: The text, as `read` takes it.
        objective: What the oracle gives gradients of.
        given: Numbers for arguments that the text leaves out.

    Raises:
        ValueError: If there is no such oracle, its arguments are others, or it has no samples of this objective.

    >>> from gladstorm import objectives
    >>> named("skewed(B=0.5, q=0.1)", objectives.named("cauchy", start=5.0), {"B": 2.0, "G": 1.0})
    Skewed(objective=Cauchy(start=array([5.])), B=0.5, G=1.0, growth=2.0, q=0.1)
    """
    return read(text, given).of(objective)


@dataclass(frozen=True)
class Recipe:
    """An oracle without its objective, as a text describes it."""

    kind: type[Oracle]  #: the class
    numbers: dict[str, float]  #: its arguments

    def of(self, objective: Any) -> Oracle:
        """Make the oracle of this objective; a ValueError says so if the two do not go together."""
        if why := self.kind.incompatible(objective):
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

    def number(whose: str, _: inspect.Parameter, written: ast.expr) -> Any:
        return numbers_of(whose, written, several=False)

    classes = registry()
    (call,) = read_calls("oracle", text, classes)
    left_out = given if isinstance(given, Defaults) else Defaults(given or {})
    name, kind, bound = bind("oracle:", call, classes, number, left_out, hidden=["objective"])
    if not (is_dataclass(kind) and inspect.isclass(kind) and issubclass(kind, Oracle)):
        raise ValueError(f"oracle: {name} must be a class that inherits Oracle, with @part above it; got {kind!r}.")
    return Recipe(kind, bound.arguments)


_BASES = ["ExactBg0", "Oracle", "OwnNoise", "Point", "Recipe", "Streamed"]
_CLASSES = [cls.__name__ for cls in registry().values()]
__all__ = [*_BASES, *_CLASSES, "finite_sum", "measured_variance", "named", "read", "registry"]
