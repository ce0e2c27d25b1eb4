"""Objectives: f with value, gradient, start point x⁰ and, where known, smoothness constants.

What is imported here is found by its name, by `--objective` of the command line and by the tests that every objective
has to pass. Objectives with noise of their own are in `problems/own_noise`, beside their oracles.
"""

import dataclasses
import inspect
from collections import OrderedDict
from typing import Any

import numpy as np

from gladstorm.core.calls import Call, bind, find_part, read_call
from gladstorm.core.constants import Constants as Constants
from gladstorm.core.parts import parts_of
from gladstorm.core.rules import COUNT, SEED, VECTOR, require_memory_for_a_run
from gladstorm.problems.functions import FromFunction as FromFunction
from gladstorm.problems.functions import from_function as from_function
from gladstorm.problems.hard.noisy_runway import NoisyRunway as NoisyRunway
from gladstorm.problems.hard.noisy_runway import RotatedRunway as RotatedRunway
from gladstorm.problems.objectives.elementary import Cauchy as Cauchy
from gladstorm.problems.objectives.elementary import Cosh as Cosh
from gladstorm.problems.objectives.elementary import DoubleWell as DoubleWell
from gladstorm.problems.objectives.elementary import Power as Power
from gladstorm.problems.objectives.elementary import Quadratic as Quadratic
from gladstorm.problems.objectives.matrices import MatrixSensing as MatrixSensing
from gladstorm.problems.objectives.matrices import SpectralCosh as SpectralCosh
from gladstorm.problems.objectives.matrices import SpectralCube as SpectralCube
from gladstorm.problems.objectives.matrices import SpectralLog as SpectralLog
from gladstorm.problems.objectives.matrices import TwoLayerNetwork as TwoLayerNetwork
from gladstorm.problems.objectives.regression import Dro as Dro
from gladstorm.problems.objectives.regression import PhaseRetrieval as PhaseRetrieval
from gladstorm.problems.oracle import Objective as Objective
from gladstorm.problems.own_noise.poisson_regression import PoissonRegression as PoissonRegression
from gladstorm.problems.own_noise.sampled_phase_retrieval import SampledPhaseRetrieval as SampledPhaseRetrieval
from gladstorm.problems.own_noise.streaming_least_squares import StreamingLeastSquares as StreamingLeastSquares
from gladstorm.problems.own_noise.temporal_differences import TemporalDifferences as TemporalDifferences
from gladstorm.problems.own_noise.variational_gaussian import VariationalGaussian as VariationalGaussian


def registry() -> dict[str, Any]:
    """The classes of all objectives that the command line can name, by name: those that declare `from_seed`.

    >>> list(registry())[:3]
    ['cauchy', 'cosh', 'double-well']
    """
    classes = {name.replace("_", "-"): cls for name, cls in parts_of(globals(), object).items()}
    return {name: classes[name] for name in sorted(classes) if _has_seed(classes[name])}


def _has_seed(cls: type[Any]) -> bool:
    """Whether a class, or an abstract one above it, declares `from_seed`; variants of an objective do not."""
    return any("from_seed" in vars(kind) for kind in (cls, *filter(inspect.isabstract, cls.__bases__)))


def named(spec: str, *, seed: int = 0, dim: int | None = None, start: float | None = None) -> Any:
    """Make an objective from a text: NAME, NAME(argument=value, …), or NAME:value,… for short.

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
    kind, call = _read(spec)
    if start is not None:
        VECTOR.require("objective", "start", [start])
    if dim is not None:
        dim = COUNT.whole("objective", "dim", dim)
        require_memory_for_a_run("objective", dim)
    objective = _make(kind, call, SEED.whole("objective", "seed", seed), dim)
    if start is None:
        return objective
    return dataclasses.replace(objective, start=np.full(objective.start.shape, float(start)))


def own_oracle(spec: str) -> str | None:
    """The name of the oracle for an objective's own noise; None if the objective has no noise of its own.

    >>> own_oracle("streaming-least-squares"), own_oracle("power:3")
    ('streaming-least-squares', None)
    """
    return getattr(_read(spec)[0], "own_oracle", None)


def _read(spec: str) -> tuple[Any, Call]:
    """The class, or the user's own function, that a text names, and what is written about it."""
    classes = registry()
    return find_part("objective", read_call("objective", str(spec), classes), classes)


def _make(kind: Any, call: Call, seed: int, dim: int | None) -> Any:
    make = getattr(kind, "from_seed", kind)
    takes = inspect.signature(make).parameters
    if dim is not None and "dim" not in takes:
        raise ValueError(f"objective: dim must be left out, {call.name} takes no dim; got dim={dim}.")
    offered = {"seed": seed} | ({} if dim is None else {"dim": dim})

    def value_of(argument: str, value: Any) -> Any:
        """A number, several where the objective takes them, or one of the words that it knows."""
        word = value.name.replace("_", "-") if isinstance(value, Call) else value
        several = value if takes[argument].kind == inspect.Parameter.VAR_POSITIONAL else [value]
        if isinstance(word, str) and word in getattr(kind, "words", ()):
            return word
        if not all(isinstance(number, int | float) for number in several):
            allowed = " or ".join([*getattr(kind, "words", ()), "one number"])
            raise ValueError(f"objective: {argument} of {call.name} must be {allowed}; got {word!r}.")
        return tuple(map(float, several)) if several is value else float(value)

    written = bind("objective", call, make, None, value_of, hidden=["seed", "dim"]).arguments
    values = written | {name: value for name, value in offered.items() if name in takes}
    bound = inspect.BoundArguments(inspect.signature(make), OrderedDict(values))
    try:
        return make(*bound.args, **bound.kwargs)
    except TypeError as problem:
        if ":" not in call.name:
            raise
        raise ValueError(f"objective: {call.name} cannot be made of these arguments ({problem}).") from None
    except MemoryError:
        raise ValueError(f"objective: {call.name} must fit in memory; got {values}: choose less.") from None


_CLASSES = [cls.__name__ for cls in parts_of(globals(), object).values() if hasattr(cls, "value")]
__all__ = ["Constants", "Objective", "from_function", "named", "own_oracle", "registry", *_CLASSES]
