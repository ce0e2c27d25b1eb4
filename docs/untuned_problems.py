"""The problems of docs/untuned.md: those everything was chosen on, and those that were held out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm import BlumGladyshev, finite_sum, objectives
from gladstorm.oracles import Oracle, registry

SEEDS = 12
Problem = Callable[[int], Oracle]  # of a seed, which gives every run a start of its own


def _own(name: str, **numbers: Any) -> Problem:
    """A problem with noise of its own."""
    objective: Any = objectives.registry()[name]
    oracle: Any = registry()[objective.own_oracle]
    return lambda seed: oracle(objective.from_seed(seed, **numbers))


def _wrapped(name: str, B: float, G: float, **numbers: Any) -> Problem:
    """A problem with the noise of Blum and Gladyshev put there, from a random start."""
    return lambda seed: BlumGladyshev(objectives.registry()[name].from_seed(seed, **numbers), B=B, G=G)


def _wrapped_from(name: str, B: float, G: float, dim: int, far: float) -> Problem:
    """The same of an objective without a random start: x⁰ ~ N(far, I)."""

    def make(seed: int) -> Oracle:
        start = np.random.default_rng(seed).normal(far, 1, dim)
        objective: Any = objectives.named(name, dim=dim)
        return BlumGladyshev(dataclasses.replace(objective, start=start), B=B, G=G)

    return make


DEVELOPMENT: dict[str, Problem] = {
    "cubic, d = 1, wrapper": _wrapped("power", 1.0, 0.5),
    "least squares, d = 10": _own("streaming-least-squares", dim=10),
    "least squares, d = 100": _own("streaming-least-squares", dim=100),
    "least squares, d = 30, condition 30": _own("streaming-least-squares", dim=30, condition=30.0),
    "variational Gaussian, full rank, d = 5": _own("variational-gaussian"),
    "phase retrieval, d = 10, wrapper": _wrapped("phase-retrieval", 0.5, 1.0, dim=10, m=60),
    "sampled phase retrieval, d = 5": _own("sampled-phase-retrieval"),
    "Poisson regression, d = 5": _own("poisson-regression"),
}


def _network(sizes: Sequence[int], loss: Callable[[Any, Any], Any], data: tuple[Any, Any]) -> Problem:
    """A tanh network with one hidden layer, weights N(0, 1/inputs), a little decay of them; one example a gradient."""
    inputs, hidden, outputs = sizes

    def of_one(x: Any, example: Any) -> Any:
        features, target = example
        out = jnp.tanh(features @ x["W"] + x["b"]) @ x["V"] + x["c"]
        return loss(out, target) + 0.0005 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))

    def make(seed: int) -> Oracle:
        rng = np.random.default_rng(seed)
        start = {
            "W": rng.normal(0, inputs**-0.5, (inputs, hidden)),
            "b": np.zeros(hidden),
            "V": rng.normal(0, hidden**-0.5, (hidden, outputs)),
            "c": np.zeros(outputs),
        }
        return finite_sum(of_one, data, start)

    return make


def _digits() -> Problem:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pooled = images[:48].reshape(48, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(48, 16) / 8 - 1
    return _network((16, 4, 10), lambda out, label: -jax.nn.log_softmax(out)[label], (pooled, labels[:48]))


def _diabetes() -> Problem:
    from sklearn.datasets import load_diabetes

    features, target = (each[:32] for each in load_diabetes(return_X_y=True))
    data = features / features.std(0), (target - target.mean()) / target.std()
    return _network((10, 4, 1), lambda out, target: (out[0] - target) ** 2 / 2, data)


HELD_OUT: dict[str, Problem] = {
    "logistic posterior, mean-field, d = 6": _own("variational-logistic", dim=6, examples=100),
    "temporal differences, d = 3": _own("temporal-differences"),
    "variational Gaussian, mean-field, d = 10, condition 10": _own(
        "variational-gaussian", family="mean-field", condition=10.0, dim=10
    ),
    "least squares, d = 20, condition 100, σ = 0.3": _own(
        "streaming-least-squares", dim=20, condition=100.0, sigma=0.3
    ),
    "double well, d = 5, wrapper": _wrapped_from("double-well", 0.5, 0.5, 5, 3.0),
    "cosh, d = 5, wrapper": _wrapped_from("cosh", 0.5, 0.5, 5, 3.0),
    "network on digits": _digits(),
    "network on diabetes": _diabetes(),
}
NETWORKS = ("network on digits", "network on diabetes")
