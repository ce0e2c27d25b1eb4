"""The problems that the untuned method was designed on, and samples of finite sums one at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidence.untuned.logistic_posterior import logistic_posterior
from gladstorm import BlumGladyshev, finite_sum, part
from gladstorm.problems import objectives
from gladstorm.problems.functions import unflatten
from gladstorm.problems.oracle import Point
from gladstorm.problems.oracles import Oracle, registry

Problem = Callable[[int], Oracle]  # of a seed, which gives every run a start of its own


@part
class OneAtATime(Oracle):
    """The samples of another oracle, one at a time, without the exact gradient at every step: the same runs, cheaper.

    A sample is made once for all runs of a seed. ‖∇f‖ is known at the end only, from `source`.
    """

    source: Any

    @property
    def objective(self) -> Any:  # type: ignore[override]  # no field: its arrays are the source's
        """The objective of the source."""
        return self.source.objective

    def draw(self, key: Any) -> Any:
        """Draw one sample."""
        return self.source.batch(self.source.draw(key), jnp.ones((), int))

    def batch(self, noise: Any, _size: Any) -> Any:
        """Return the one sample: no method here asks for more."""
        return noise

    def at(self, x: Any) -> Any:
        """Return the point of the source without ∇f, which is then not computed."""
        return self.source.at(x)._replace(grad=jnp.zeros_like(x))

    def grad(self, point: Any, sample: Any) -> Any:
        """Return ∇f(x; ξ)."""
        return self.source.grad(point, sample)


@part
class OneOfStream(OneAtATime):
    """One sample of an oracle that draws every sample of a batch."""

    def draw(self, key: Any) -> Any:
        """Draw one sample."""
        return self.source.single(key)

    def grad(self, point: Any, sample: Any) -> Any:
        """Return ∇f(x; ξ)."""
        return self.source.gradient(point, sample)


@part
class OneExample(Oracle):
    """∇f_i(x) of one example of a finite sum, drawn uniformly. ‖∇f‖ is computed where a run ends, by `exact`."""

    objective: Any

    def draw(self, key: Any) -> Any:
        """The number of an example."""
        return jax.random.randint(key, (), 0, jax.tree.leaves(self.objective.data)[0].shape[0])

    def batch(self, noise: Any, _size: Any) -> Any:
        """Return the one example: no method here asks for more."""
        return noise

    def at(self, x: Any) -> Any:
        """x, without ∇f, which only the end needs."""
        return Point(x, jnp.zeros_like(x))

    def exact(self, point: Any) -> Any:
        """Return ∇f(x)."""
        return self.objective.grad(point.x)

    def grad(self, point: Any, sample: Any) -> Any:
        """Return ∇f_i(x)."""
        mean = self.objective
        example = jax.tree.map(lambda rows: jnp.asarray(rows)[sample], mean.data)
        return jax.grad(lambda x: mean.loss(unflatten(mean.tree, x), example))(point.x)


@part
class OnePair(OneAtATime):
    """One pair of temporal differences: a pair of states from one uniform number, with the law of the source's pairs.

    Problems up to 10⁴ gradients were run with the source itself, whose exact law of any batch takes minutes to compile.
    """

    def draw(self, key: Any) -> Any:
        """The share of each pair: 1 for the one that is drawn."""
        shares = self.objective.stationary[:, None] * self.objective.transitions
        upto = jnp.cumsum(shares.ravel())
        drawn = jnp.searchsorted(upto, upto[-1] * jax.random.uniform(key, (), upto.dtype), side="right")
        return jax.nn.one_hot(drawn, upto.size, dtype=upto.dtype).reshape(shares.shape)


def normals(**arrays: tuple[Any, ...]) -> Callable[[Any], dict[str, Any]]:
    """A start of named arrays, each normal with a standard deviation and a shape; zeros are not drawn."""
    return lambda rng: {
        name: rng.normal(0, scale, shape) if scale else np.zeros(shape) for name, (scale, *shape) in arrays.items()
    }


def _own(name: str, **numbers: Any) -> Problem:
    """A problem with noise of its own."""
    objective: Any = objectives.registry()[name]
    oracle: Any = registry()[objective.own_oracle]
    return lambda seed: oracle(objective.from_seed(seed, **numbers))


def _cheaply(cheaper: Any, problem: Problem) -> Problem:
    return lambda seed: cheaper(problem(seed))


def _wrapped(name: str, B: float, G: float, **numbers: Any) -> Problem:
    """A problem with the noise of Blum and Gladyshev put there, from a random start."""
    return lambda seed: BlumGladyshev(objectives.registry()[name].from_seed(seed, **numbers), B=B, G=G)


def _wrapped_from(name: str, B: float, G: float, dim: int, far: float) -> Problem:
    """Return problems of an objective without a random start: x⁰ ~ N(far, I)."""

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

    layers = {"W": (inputs**-0.5, inputs, hidden), "b": (0, hidden), "V": (hidden**-0.5, hidden, outputs)}
    start = normals(**layers, c=(0, outputs))

    def make(seed: int) -> Oracle:
        return OneExample(finite_sum(of_one, data, start(np.random.default_rng(seed))).objective)

    return make


def _digits() -> Problem:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pooled = images[:48].reshape(48, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(48, 16) / 8 - 1
    return _network((16, 4, 10), lambda out, label: -jax.nn.log_softmax(out)[label], (pooled, labels[:48]))


def _diabetes() -> Problem:
    from sklearn.datasets import load_diabetes

    features, target = (column[:32] for column in load_diabetes(return_X_y=True))
    data = features / features.std(0), (target - target.mean()) / target.std()
    return _network((10, 4, 1), lambda out, target: (out[0] - target) ** 2 / 2, data)


DEVELOPMENT |= {  # an earlier method was judged on these eight
    "logistic posterior, mean-field, d = 6": _cheaply(OneOfStream, logistic_posterior),
    "temporal differences, d = 3": _cheaply(OnePair, _own("temporal-differences")),
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
