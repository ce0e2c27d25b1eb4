"""Objectives: f with value, gradient, start point x⁰ and, where known, smoothness constants.

What is imported here is found by its name, by `--objective` of the command line and by the tests that every objective
has to pass. Objectives with noise of their own are in `problems/own_noise`, beside their oracles.
"""

import dataclasses
import inspect
from collections import OrderedDict
from typing import Any

import numpy as np

from gladstorm.core.calls import Defaults, bind, name_of, numbers_of, read_calls
from gladstorm.core.constants import Constants as Constants
from gladstorm.core.parts import parts_of
from gladstorm.core.rules import COUNT, SEED, VECTOR, require_memory_for_a_run
from gladstorm.problems.functions import FromFunction as FromFunction
from gladstorm.problems.functions import from_function as from_function
from gladstorm.problems.hard.noisy_runway import NoisyRunway as NoisyRunway
from gladstorm.problems.objectives.matrices import MatrixSensing as MatrixSensing
from gladstorm.problems.objectives.matrices import SpectralCosh as SpectralCosh
from gladstorm.problems.objectives.matrices import SpectralCube as SpectralCube
from gladstorm.problems.objectives.matrices import SpectralLog as SpectralLog
from gladstorm.problems.objectives.matrices import TwoLayerNetwork as TwoLayerNetwork
from gladstorm.problems.objectives.vectors import Cauchy as Cauchy
from gladstorm.problems.objectives.vectors import Cosh as Cosh
from gladstorm.problems.objectives.vectors import DoubleWell as DoubleWell
from gladstorm.problems.objectives.vectors import Dro as Dro
from gladstorm.problems.objectives.vectors import PhaseRetrieval as PhaseRetrieval
from gladstorm.problems.objectives.vectors import Power as Power
from gladstorm.problems.objectives.vectors import Quadratic as Quadratic
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
    name, kind, bound = _read(spec)
    signature = inspect.signature(getattr(kind, "from_seed", kind))
    seed = SEED.whole("objective", "seed", seed)
    if start is not None:
        VECTOR.require("objective", "start", [start])
    if dim is not None:
        dim = COUNT.whole("objective", "dim", dim)
        require_memory_for_a_run("objective", dim)
        if "dim" not in signature.parameters:
            raise ValueError(f"objective: dim must be left out, {name} takes no dim; got dim={dim}.")
    offered = {"seed": seed} | ({} if dim is None else {"dim": dim})
    values = bound.arguments | {key: each for key, each in offered.items() if key in signature.parameters}
    whole = inspect.BoundArguments(signature, OrderedDict(values))
    try:
        objective = getattr(kind, "from_seed", kind)(*whole.args, **whole.kwargs)
    except (TypeError, MemoryError) as problem:
        raise ValueError(f"objective: {name} cannot be made of {values} ({problem}): change or shorten them.") from None
    if start is None:
        return objective
    return dataclasses.replace(objective, start=np.full(objective.start.shape, float(start)))


def own_oracle(spec: str) -> str | None:
    """The name of the oracle for an objective's own noise; None if the objective has no noise of its own.

    >>> own_oracle("streaming-least-squares"), own_oracle("power:3")
    ('streaming-least-squares', None)
    """
    return getattr(_read(spec)[1], "own_oracle", None)


def _read(spec: str) -> tuple[str, Any, inspect.BoundArguments]:
    """The name and the class, or the user's own function, that a text stands for, and the arguments that it has."""

    def value_of(whose: str, parameter: inspect.Parameter, written: Any) -> Any:
        if isinstance(written, tuple):  # the objective takes several
            return tuple(value_of(whose, parameter, each) for each in written)
        if parameter.annotation == "str" and name_of(written):
            return name_of(written).replace("_", "-")
        return float(numbers_of(whose, written, several=False))

    classes = registry()
    (call,) = read_calls("objective", str(spec), classes)
    return bind("objective:", call, classes, value_of, Defaults({}), hidden=["seed", "dim"], made_by="from_seed")


_CLASSES = [cls.__name__ for cls in parts_of(globals(), object).values() if hasattr(cls, "value")]
__all__ = ["Constants", "Objective", "from_function", "named", "own_oracle", "registry", *_CLASSES]
