"""The problems of the suite, as `problems.toml` declares them: to add one, declare it there.

Two of them are networks of one hidden layer, on examples drawn once: finite sums whose noise is that of sampling.
"""

import dataclasses
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import jax.numpy as jnp
import numpy as np

from gladstorm.comparison.compare import from_random_starts
from gladstorm.core.parts import Array
from gladstorm.problems import objectives, oracles
from gladstorm.problems.functions import flatten
from gladstorm.problems.oracle import OwnNoise
from gladstorm.problems.oracles import FiniteSum, Oracle, finite_sum
from gladstorm.suite.result import ProblemFacts

Role = Literal["development", "held-out"]
EXAMPLES = 100  # of a network


@dataclass(frozen=True)
class SuiteProblem:
    """One problem: whatever is to be known of it is said here, once.

    Its gradient must not vanish far out, or a method that diverges looks best. Methods are chosen on the development
    problems; prototypes of methods have been tried on all of these. The held-out ones judge a choice, and nothing is to
    be chosen on them.
    """

    name: str
    about: str  # for people, in half a sentence
    role: Role
    objective: str = ""  # its text, unless it is a network
    noise: str = ""  # the oracle's text; the objective's own noise if there is none
    network: str = ""  # one of `NETWORKS`
    dim: int | None = None  # if the objective's text leaves it open
    stretch: float = 1.0  # a factor of x⁰
    far: bool = False  # whether the starts are many times as far from the solution as the noise would carry an iterate
    step_sizes: tuple[float, float] = (1e-4, 10.0)  # the least and the largest that is tried
    even_about: str | None = None  # "0", or the objective's field with the minimum about which f is even

    @cached_property
    def oracle(self) -> Callable[[int], Oracle]:
        """The oracle of each seed: the same instance, from a start of its own."""
        if self.network:
            return NETWORKS[self.network]()
        recipe = oracles.read(self.noise or objectives.own_oracle(self.objective) or "")
        instance = objectives.named(self.objective, dim=self.dim)
        return from_random_starts(recipe, self.objective, instance, self.dim, stretch=self.stretch)

    @cached_property
    def facts(self) -> ProblemFacts:
        """Return the facts by which tables and answers are sorted."""
        first = self.oracle(0)
        return ProblemFacts(
            about=self.about,
            role=self.role,
            natural=isinstance(first, OwnNoise | FiniteSum),
            outside=first.no_theorem,
            field=first.field,
            dim=int(first.objective.start.size),
            far=self.far,
            even=self.even_about is not None,
            f_inf=first.objective.f_inf,
            step_sizes=self.step_sizes,
        )


def _regression() -> Callable[[int], FiniteSum]:
    """Five inputs, six tanh units: a teacher of the same shape, twice as steep, with noise 0.1 on what it says."""
    rng = np.random.default_rng(0)
    inputs, teacher = rng.normal(size=(EXAMPLES, 5)), _weights(rng, 5, 6, 2.0)
    targets = np.asarray(_output(teacher, inputs)) + 0.1 * rng.normal(size=EXAMPLES)
    return _from_random_weights(_squared, (inputs, targets), 5, 6)


def _classification() -> Callable[[int], FiniteSum]:
    """Two arcs in the plane that interlock, with noise 0.2; ten tanh units, the logistic loss and a decay of 1e-3."""
    rng = np.random.default_rng(1)
    angle, label = rng.uniform(0, np.pi, EXAMPLES), np.arange(EXAMPLES) % 2
    arcs = np.stack([np.cos(angle) + label - 0.5, np.sin(angle) * (1 - 2 * label) + 0.5 * label], axis=1)
    inputs = arcs + 0.2 * rng.normal(size=arcs.shape)
    return _from_random_weights(_logistic, (inputs, 2.0 * label - 1), 2, 10)


def _from_random_weights(loss: Any, data: Any, inputs: int, units: int) -> Callable[[int], FiniteSum]:
    instance = finite_sum(loss, data, _weights(np.random.default_rng(0), inputs, units))

    def of_seed(seed: int) -> FiniteSum:
        start, _ = flatten("networks", _weights(np.random.default_rng(seed), inputs, units))
        objective = dataclasses.replace(cast("Any", instance.objective), start=start)
        return dataclasses.replace(instance, objective=objective)

    return of_seed


def _weights(rng: np.random.Generator, inputs: int, units: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Normal weights that keep the size of what passes through, times a scale."""
    return {
        "W": scale * rng.normal(size=(units, inputs)) / np.sqrt(inputs),
        "b": scale * rng.normal(size=units) / 2,
        "v": rng.normal(size=units) / np.sqrt(units),
    }


def _output(weights: Any, x: Any) -> Array:
    output: Array = jnp.tanh(x @ weights["W"].T + weights["b"]) @ weights["v"]
    return output


def _squared(weights: Any, example: Any) -> Array:
    x, y = example
    loss: Array = (_output(weights, x) - y) ** 2 / 2
    return loss


def _logistic(weights: Any, example: Any) -> Array:
    x, y = example
    size = sum(jnp.sum(weights[name] ** 2) for name in ("W", "b", "v"))
    return jnp.logaddexp(0.0, -y * _output(weights, x)) + 1e-3 * size / 2


NETWORKS = {"regression": _regression, "classification": _classification}
_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PROBLEMS = {name: SuiteProblem(name, **declared) for name, declared in _DECLARED.items()}
