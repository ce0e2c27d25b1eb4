"""Methods: their parts, with a step size that decays, and what is declared about a named one."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

import jax
import numpy as np

from gladstorm.core.parts import Numbers, part
from gladstorm.methods.averages import Average
from gladstorm.methods.batches import BatchRule, BatchSizes, Fixed
from gladstorm.methods.estimators import Estimator
from gladstorm.methods.schedules import LinearDecay, RunLength, Tunable
from gladstorm.methods.steps import Step

P = ParamSpec("P")
OF_THE_RUN = RunLength()


@part
class Method:
    """An estimator, a step and a batch rule: x^{k+1} = step(x^k, v^k), then the estimator forms v^{k+1} at x^{k+1}.

    A whole number in place of the batch rule is that batch size at every step. An average changes what a method
    reports, and not how it moves.
    """

    estimator: Estimator  #: forms the direction v
    step: Step  #: moves x along v
    batch: BatchRule = Fixed()  #: samples per step: a rule or a number
    average: Average | None = None  #: what is reported in place of the last iterate; None for the last iterate


def rule(batch: BatchSizes) -> BatchRule:
    """A batch rule from a size or a rule."""
    return batch if isinstance(batch, BatchRule) else Fixed(batch)


def settings_of(method: Method) -> int:
    """How many settings a method's arrays stand for."""
    return max((np.size(number) for number in jax.tree.leaves(method, is_leaf=is_list)), default=1)


def is_list(node: Any) -> bool:
    """Whether a field has the numbers of several settings."""
    return isinstance(node, list | tuple)


def crossed(*lists: Any) -> list[np.ndarray]:
    """Return lists of equal length that hold every combination of the entries; the last list varies fastest.

    Lists in a method go side by side; those of a text are crossed already.

    >>> from gladstorm import nsgdm
    >>> gammas, etas = crossed([0.1, 0.2], [0.5, 1.0])
    >>> nsgdm(gammas, etas).step.gamma.tolist()
    [0.1, 0.1, 0.2, 0.2]
    """
    return [np.ravel(grid) for grid in np.meshgrid(*lists, indexing="ij")]


def with_decay(method: Method, power: Numbers = 1.0, *, horizon: Tunable = OF_THE_RUN) -> Method:
    """The method with its step size multiplied by (1 − k/T)^p at step k, so that it ends at 0.

    Args:
        method: Any method whose step has a step size.
        power: p ≥ 0: 1 is a linear decay, 0 none. A list is combined with all settings of the method: `power=[0, 1]` is
            every setting without a decay and with a linear one.
        horizon: T, in steps; the length of each run if not given.

    >>> from gladstorm import sgd
    >>> with_decay(sgd(0.1)).step
    Plain(gamma=LinearDecay(initial=0.1, horizon=RunLength(), power=1.0))
    >>> both = with_decay(sgd([0.1, 0.2]), [0, 1]).step.gamma
    >>> both.initial.tolist(), both.power.tolist()
    ([0.1, 0.1, 0.2, 0.2], [0.0, 1.0, 0.0, 1.0])
    """
    if np.ndim(power):
        power = np.asarray(power, np.float64)
        times, powers = settings_of(method), power.size

        def repeated(numbers: Any) -> Any:
            return np.repeat(np.asarray(numbers, np.float64), powers) if np.ndim(numbers) else numbers

        method, power = jax.tree.map(repeated, method, is_leaf=is_list), np.tile(power, times)
    step = method.step.with_step_size(lambda gamma: LinearDecay(gamma, horizon, power))
    return dataclasses.replace(method, step=step)


@dataclass(frozen=True)
class Declaration:
    """A named method and what is known of it."""

    name: str
    make: Callable[..., Method]
    source: str
    sfo: str  # stochastic gradients for K steps
    complexity: str  # stochastic gradients for E‖∇f‖ ≤ ε, or "" where this project knows of none
    assumptions: str  # under which

    @property
    def call(self) -> str:
        """The method as it is written: what has no default by name.

        >>> METHODS["sgd"].call
        'sgd(gamma)'
        """
        return f"{self.name}({', '.join(self.required)})"

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments without a default."""
        parameters = inspect.signature(self.make).parameters.values()
        return tuple(parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty)

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The names of its estimator, step, batch rule and average, the last one empty if there is none."""
        method = self.make(**dict.fromkeys(self.required, 1))
        step = method.step
        inner = f"({type(step.step).__name__})" if hasattr(step, "step") else ""
        average = type(method.average).__name__ if method.average else ""
        return type(method.estimator).__name__, type(step).__name__ + inner, type(method.batch).__name__, average

    def as_dict(self) -> dict[str, str]:
        """The declaration as JSON-ready data."""
        estimator, step, batch, average = self.parts
        made_of = {"method": self.call, "estimator": estimator, "step": step, "batch": batch, "average": average}
        claims = {"complexity": self.complexity, "assumptions": self.assumptions, "source": self.source}
        return made_of | {"sfo": self.sfo} | claims


METHODS: dict[str, Declaration] = {}
# What an argument is, whichever named method takes it: `declared` adds them to its docstring.
ARGUMENTS = {
    "gamma": "Step size γ > 0: a number, a schedule, or a list to run several.",
    "eta": "η in (0, 1], the weight of the newest gradient; like γ.",
    "norm": "In which norm a step has length γ, one of `gladstorm.norms`; Euclid's is the paper's.",
    "batch": "Samples per step, or a batch rule.",
    "n_init": "How many samples form v⁰.",
    "q": "Steps from one fresh gradient to the next.",
    "p": "The probability in (0, 1] of a fresh gradient.",
    "large": "Samples of a fresh gradient, or a batch rule.",
    "small": "Samples of all other steps, or a batch rule.",
    "gamma0": "γ0 of the theorem's schedule.",
    "horizon": "T, the number of iterates.",
    "alpha": "α in [0, 1] of the smoothness class.",
    "B": "Growth of the noise, ≥ 0.",
    "G": "Standard deviation of the noise at x⁰, ≥ 0.",
    "sigma2": "σ² > 0, the variance that a batch keeps.",
    "k": "Entries that a client sends in a step.",
    "clients": "How many clients there are.",
    "offset": "w > 0 of the step size.",
    "factor": "c > 0 of η.",
    "scale": "How much of STORM's correction is taken, ≥ 0.",
    "c": "The length from which a gradient is cut.",
    "c0": "c₀ of the step, > 0.",
    "c1": "c₁ of the step, > 0.",
    "beta": "β in [0, 1], the power of the norm.",
    "beta2": "β₂ in [0, 1), the weight of the old squares.",
    "lam": "λ ≥ 0, the pull towards the anchor.",
    "epoch": "Steps from one anchor to the next.",
    "a": "a of both schedules, > 0.",
}


def declared(
    source: object, sfo: str, complexity: str = "", assumptions: str = ""
) -> Callable[[Callable[P, Method]], Callable[P, Method]]:
    """Declare a function that composes a method, and describe its arguments in its docstring.

    Args:
        source: Where the method is from.
        sfo: Stochastic gradients for K steps.
        complexity: Stochastic gradients for E‖∇f‖ ≤ ε; nothing if none is known.
        assumptions: Under which that is.
    """

    def declare(make: Callable[P, Method]) -> Callable[P, Method]:
        METHODS[make.__name__] = Declaration(make.__name__, make, str(source), sfo, complexity, assumptions)
        lines = [f"    {name}: {ARGUMENTS[name]}" for name in inspect.signature(make).parameters if name in ARGUMENTS]
        make.__doc__ = "\n".join([inspect.getdoc(make) or "", "", "Args:", *lines])
        return make

    return declare


def rows() -> list[dict[str, str]]:
    """Every declaration as JSON-ready data, by name."""
    return [METHODS[name].as_dict() for name in sorted(METHODS)]
