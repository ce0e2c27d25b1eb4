"""Two small networks of one hidden layer, on examples drawn once: finite sums whose noise is that of sampling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.problems.objectives.trees import planted
from gladstorm.problems.oracles import FiniteSum, finite_sum

EXAMPLES = 100


def regression() -> Callable[[int], FiniteSum]:
    """Five inputs, six tanh units: a teacher of the same shape, twice as steep, with noise 0.1 on what it says."""
    rng = np.random.default_rng(0)
    inputs, teacher = rng.normal(size=(EXAMPLES, 5)), _weights(rng, 5, 6, 2.0)
    targets = np.asarray(_output(teacher, inputs)) + 0.1 * rng.normal(size=EXAMPLES)
    return _from_random_weights(_squared, (inputs, targets), 5, 6)


def classification() -> Callable[[int], FiniteSum]:
    """Two arcs in the plane that interlock, with noise 0.2; ten tanh units, the logistic loss and a decay of 1e-3."""
    rng = np.random.default_rng(1)
    angle, label = rng.uniform(0, np.pi, EXAMPLES), np.arange(EXAMPLES) % 2
    arcs = np.stack([np.cos(angle) + label - 0.5, np.sin(angle) * (1 - 2 * label) + 0.5 * label], axis=1)
    inputs = arcs + 0.2 * rng.normal(size=arcs.shape)
    return _from_random_weights(_logistic, (inputs, 2.0 * label - 1), 2, 10)


def _from_random_weights(
    loss: Callable[[Any, Any], Array], data: Any, inputs: int, units: int
) -> Callable[[int], FiniteSum]:
    one = finite_sum(loss, data, _weights(np.random.default_rng(0), inputs, units))

    def of_seed(seed: int) -> FiniteSum:
        start, _ = planted("networks", _weights(np.random.default_rng(seed), inputs, units))
        return dataclasses.replace(one, objective=dataclasses.replace(cast("Any", one.objective), start=start))

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
