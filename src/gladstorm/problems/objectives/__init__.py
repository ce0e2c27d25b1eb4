"""Objectives: f with value, gradient, start point x⁰ and, where known, smoothness constants.

What is imported here is found by its name, by `--objective` of the command line and by the tests that every objective
has to pass. Objectives with noise of their own are in `problems/own_noise`, beside their oracles.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np

from gladstorm.core.calls import Call, bind, call_with, find_part, is_own, read_call
from gladstorm.core.constants import Constants as Constants
from gladstorm.core.memory import require_memory_for_a_run
from gladstorm.core.parts import parts_of
from gladstorm.core.rules import COUNT, SEED, VECTOR
from gladstorm.problems.functions import FromFunction as FromFunction
from gladstorm.problems.functions import from_function as from_function
from gladstorm.problems.hard.noisy_runway import NoisyRunway as NoisyRunway
from gladstorm.problems.hard.noisy_runway import RotatedRunway as RotatedRunway
from gladstorm.problems.objectives.elementary import Cauchy as Cauchy
from gladstorm.problems.objectives.elementary import Cosh as Cosh
from gladstorm.problems.objectives.elementary import DoubleWell as DoubleWell
from gladstorm.problems.objectives.elementary import Power as Power
from gladstorm.problems.objectives.elementary import Quadratic as Quadratic
from gladstorm.problems.objectives.regression import Dro as Dro
from gladstorm.problems.objectives.regression import PhaseRetrieval as PhaseRetrieval
from gladstorm.problems.oracle import Objective as Objective
from gladstorm.problems.own_noise.poisson_regression import PoissonRegression as PoissonRegression
from gladstorm.problems.own_noise.sampled_phase_retrieval import SampledPhaseRetrieval as SampledPhaseRetrieval
from gladstorm.problems.own_noise.streaming_least_squares import StreamingLeastSquares as StreamingLeastSquares
from gladstorm.problems.own_noise.temporal_differences import TemporalDifferences as TemporalDifferences
from gladstorm.problems.own_noise.variational_gaussian import VariationalGaussian as VariationalGaussian
from gladstorm.problems.own_noise.variational_logistic import VariationalLogistic as VariationalLogistic


def registry() -> dict[str, Any]:
    """The classes of all objectives that the command line can name, by name: those that declare `from_seed`.

    >>> list(registry())[:3]
    ['cauchy', 'cosh', 'double-well']
    """
    classes = {name.replace("_", "-"): cls for name, cls in parts_of(globals(), object).items()}
    return {name: classes[name] for name in sorted(classes) if "from_seed" in vars(classes[name])}


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
    SEED.require("objective", "seed", seed)
    if start is not None:
        VECTOR.require("objective", "start", [start])
    if dim is not None:
        COUNT.require("objective", "dim", dim)
        require_memory_for_a_run("objective", int(dim))
    objective = _make(kind, call, seed, dim)
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
    known = registry()
    return find_part("objective", read_call("objective", str(spec), known), known)


def _make(kind: Any, call: Call, seed: int, dim: int | None) -> Any:
    make = getattr(kind, "from_seed", kind)
    takes = inspect.signature(make).parameters
    if dim is not None and "dim" not in takes:
        raise ValueError(f"objective: dim must be left out, {call.name} takes no dim; got dim={dim}.")
    offered = {"seed": seed} | ({} if dim is None else {"dim": dim})
    words = getattr(kind, "words", ())

    def value_of(argument: str, written: Any) -> Any:
        """A number, or one of the words an objective knows."""
        if isinstance(written, int | float):
            return float(written)
        word = written.name.replace("_", "-") if isinstance(written, Call) else np.ravel(written).tolist()
        if word in words:
            return word
        allowed = " or ".join([*words, "one number"])
        raise ValueError(f"objective: {argument} of {call.name} must be {allowed}; got {word!r}.")

    written_ones = {name: parameter for name, parameter in takes.items() if name not in ("seed", "dim")}
    values = bind("objective", call, written_ones, value_of) | {
        name: offered[name] for name in offered if name in takes
    }
    try:
        return call_with(make, values)
    except TypeError as problem:
        if not is_own(call.name):
            raise
        raise ValueError(f"objective: {call.name} cannot be made of these arguments ({problem}).") from None
    except MemoryError:
        raise ValueError(f"objective: {call.name} must fit in memory; got {values}: choose less.") from None


_CLASSES = [cls.__name__ for cls in parts_of(globals(), object).values() if hasattr(cls, "value")]
__all__ = ["Constants", "Objective", "from_function", "named", "own_oracle", "registry", *_CLASSES]
