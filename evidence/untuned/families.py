"""The problems on which the untuned method is judged: nine families that no development problem belongs to.

Written before any method was run on them (docs/evidence/untuned/registered.md). A gradient is that of one example, or
of one episode; in the noisy family it is exact, with noise of variance B²‖x − x⁰‖² + G² added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidence.untuned.development import OneExample, normals
from gladstorm import BlumGladyshev, finite_sum, objectives, part
from gladstorm.problems.functions import unflatten
from gladstorm.problems.oracle import Oracle

RIDGE = 5e-4  # keeps the solutions of the finite sums bounded


@dataclass(frozen=True)
class JudgedProblem:
    """A problem: an oracle for every seed, which decides the start, and the loss on data that nobody trains on."""

    family: str
    make: Callable[[int], Oracle]
    held_out: Callable[[Any], Any] | None = None  # of x, a vector; None: f − inf f is the loss
    f_inf: float = 0.0
    is_large: bool = False  # fewer seeds at 10⁵ gradients


def _sum(
    family: str, loss: Callable[[Any, Any], Any], data: Any, test: Any, start: Callable[[Any], Any], **facts: Any
) -> JudgedProblem:
    """A mean of losses over examples, with a small ridge; `start` draws x⁰ from a generator."""

    def ridged(x: Any, example: Any) -> Any:
        return loss(x, example) + RIDGE * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))

    def make(seed: int) -> Oracle:
        return OneExample(finite_sum(ridged, data, start(np.random.default_rng(seed))).objective)

    example: Any = finite_sum(loss, data, start(np.random.default_rng(0))).objective
    tree = example.tree

    def held_out(x: Any) -> Any:
        return jnp.mean(jax.vmap(lambda example: loss(unflatten(tree, x), example))(test))

    return JudgedProblem(family, make, held_out, **facts)


def _split(*arrays: Any, test: int, seed: int = 7) -> tuple[Any, Any]:
    """Rows in a random order: those to train on, and the last ones to test."""
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    mixed = [np.asarray(array)[order] for array in arrays]
    return tuple(array[:-test] for array in mixed), tuple(array[-test:] for array in mixed)


def cross_entropy(logits: Any, label: Any) -> Any:
    """−log of the softmax of the label."""
    return -jax.nn.log_softmax(logits)[label]


# Low-rank matrix completion: ½ (U_i · V_j − y)², an example is an observed entry.
def _completion(rows: int, columns: int, rank: int, condition: float) -> JudgedProblem:
    rng = np.random.default_rng(11)
    scales = np.sqrt(np.geomspace(1, 1 / condition, rank))
    left, right = rng.normal(size=(rows, rank)) * scales, rng.normal(size=(columns, rank)) * scales
    entries = np.argwhere(rng.random((rows, columns)) < 0.6)
    seen = (left @ right.T)[tuple(entries.T)] + 0.1 * rng.normal(size=len(entries))
    train, test = _split(entries, seen, test=len(entries) // 5)

    def loss(x: Any, example: Any) -> Any:
        entry, y = example
        return (x["U"][entry[0]] @ x["V"][entry[1]] - y) ** 2 / 2

    start = normals(U=(0.5, rows, rank), V=(0.5, columns, rank))
    return _sum("matrix completion", loss, train, test, start)


# Regression with heavy tails, in the errors and in the features.
def _robust(dim: int, loss_of: Callable[[Any], Any], spread: float, outliers: float) -> JudgedProblem:
    rng = np.random.default_rng(13)
    features = rng.standard_t(3, (400, dim)) * np.geomspace(1, spread, dim)
    errors = 0.3 * rng.standard_t(1.5, 400) + 10 * (rng.random(400) < outliers) * rng.normal(1, 1, 400)
    targets = features @ (rng.normal(size=dim) / np.geomspace(1, spread, dim)) + errors
    train, test = _split(features, targets, test=100)
    return _sum(
        "robust regression",
        lambda x, example: loss_of(example[0] @ x - example[1]),
        train,
        test,
        lambda rng: rng.normal(0, 1, dim),
    )


# A recurrent layer that adds the two marked numbers of a sequence, and an attention layer that looks a key up.
def _recurrent(hidden: int = 6, length: int = 6) -> JudgedProblem:
    rng = np.random.default_rng(17)
    numbers, marks = rng.uniform(-1, 1, (160, length)), np.zeros((160, length))
    for row in marks:
        row[rng.choice(length, 2, replace=False)] = 1
    sequences, sums = np.stack([numbers, marks], axis=2), (numbers * marks).sum(axis=1)
    train, test = _split(sequences, sums, test=40)

    def loss(x: Any, example: Any) -> Any:
        sequence, target = example
        state = jnp.zeros(hidden)
        for t in range(length):
            state = jnp.tanh(x["W"] @ state + x["U"] @ sequence[t] + x["b"])
        return (x["v"] @ state + x["c"] - target) ** 2 / 2

    width = hidden**-0.5
    start = normals(W=(width, hidden, hidden), U=(0.7, hidden, 2), b=(0, hidden), v=(width, hidden), c=(0,))
    return _sum("sequences", loss, train, test, start, is_large=True)


def _attention(keys: int = 4, width: int = 4, length: int = 5) -> JudgedProblem:
    rng = np.random.default_rng(19)
    order = np.array([rng.permutation(keys + 1)[:length] for _ in range(160)])
    values = rng.integers(0, 3, (160, length))
    chosen = rng.integers(0, length, 160)
    tokens = np.concatenate([np.eye(keys + 1)[order], np.eye(3)[values]], axis=2)
    queries, labels = np.eye(keys + 1)[order[np.arange(160), chosen]], values[np.arange(160), chosen]
    train, test = _split(tokens, queries, labels, test=40)

    def loss(x: Any, example: Any) -> Any:
        tokens, query, label = example
        weights = jax.nn.softmax(tokens @ x["K"] @ (x["Q"].T @ query))
        return cross_entropy(x["O"] @ (x["V"].T @ (tokens.T @ weights)), label)

    size = tokens.shape[2]
    rows = {
        "K": (size**-0.5, size),
        "Q": ((keys + 1) ** -0.5, keys + 1),
        "V": (size**-0.5, size),
        "O": (width**-0.5, 3),
    }
    start = normals(**{name: (*scale, width) for name, scale in rows.items()})
    return _sum("sequences", loss, train, test, start, is_large=True)


# Policy gradients by REINFORCE: a sample is one episode, and f = −E return is exact by dynamic programming.
@part
class Reinforce(OneExample):
    """∇f(x; ξ) = Σ_t ∇ log π(a_t | s_t) · (cost from t on) of one episode; ∇f is exact by dynamic programming."""

    def draw(self, key: Any) -> Any:
        """The random numbers of an episode."""
        return self.objective.function.numbers(key)

    def grad(self, point: Any, sample: Any) -> Any:
        """The gradient of one episode's surrogate."""
        return jax.grad(self.objective.function.surrogate)(point.x, sample)


class Chain:
    """A corridor of 5 states: right earns 1 at its end, left earns 0.2 at once; softmax policy, horizon 10."""

    STATES, HORIZON = 5, 10

    def numbers(self, key: Any) -> Any:
        """Uniform numbers: one for the action, one for a slip, at every step."""
        return jax.random.uniform(key, (self.HORIZON, 2), jnp.result_type(float))

    def _move(self, state: Any, right: Any) -> tuple[Any, Any]:
        end = state == self.STATES - 1
        reward = jnp.where(right, jnp.where(end, 1.0, 0.0), jnp.where(state == 0, 0.2, 0.0))
        return jnp.clip(state + jnp.where(right, 1, -1), 0, self.STATES - 1), reward

    def __call__(self, x: Any) -> Any:
        """−E of the sum of rewards, with a small ridge; an action slips to the other with probability 0.1."""
        right = 0.1 + 0.8 * jax.nn.sigmoid(x)
        states = jnp.arange(self.STATES)
        (up, gain), (down, less) = self._move(states, True), self._move(states, False)
        value = jnp.zeros(self.STATES)
        for _ in range(self.HORIZON):
            value = right * (gain + value[up]) + (1 - right) * (less + value[down])
        return -value[0] + RIDGE * x @ x

    def surrogate(self, x: Any, numbers: Any) -> Any:
        """Return a function whose gradient is the stochastic gradient."""
        state, logs, rewards = jnp.zeros((), int), [], []
        for t in range(self.HORIZON):
            chance = jax.nn.sigmoid(x[state])
            wanted = numbers[t, 0] < jax.lax.stop_gradient(chance)
            logs.append(jnp.where(wanted, jnp.log(chance), jnp.log1p(-chance)))
            state, reward = self._move(state, wanted ^ (numbers[t, 1] < 0.1))
            rewards.append(reward)
        return -credit(logs, rewards) + RIDGE * x @ x


class Regulator:
    """A linear system of two states with a quadratic cost: u = x·s + 0.5 ε, horizon 6. Its noise grows with x."""

    A, B = np.array([[1.0, 0.3], [0.0, 1.0]]), np.array([0.0, 0.5])
    HORIZON, EXPLORE = 6, 0.5

    def numbers(self, key: Any) -> Any:
        """Normal numbers: the start, and one for every action."""
        return jax.random.normal(key, (self.HORIZON + 2,), jnp.result_type(float))

    def __call__(self, x: Any) -> Any:
        """E Σ ‖s‖² + 0.1 u², exactly: the second moments of s follow a linear recursion."""
        closed = self.A + jnp.outer(jnp.asarray(self.B), x)
        second, total = jnp.eye(2), 0.0
        for _ in range(self.HORIZON):
            total += jnp.trace(second) + 0.1 * (x @ second @ x + self.EXPLORE**2)
            second = closed @ second @ closed.T + self.EXPLORE**2 * jnp.outer(jnp.asarray(self.B), jnp.asarray(self.B))
        return total / self.HORIZON

    def surrogate(self, x: Any, numbers: Any) -> Any:
        """Return a function whose gradient is the stochastic gradient."""
        state, logs, costs = numbers[:2], [], []
        for t in range(self.HORIZON):
            mean = x @ state
            action = jax.lax.stop_gradient(mean + self.EXPLORE * numbers[2 + t])
            logs.append(-((action - mean) ** 2) / (2 * self.EXPLORE**2))
            costs.append(state @ state + 0.1 * action**2)
            state = self.A @ state + self.B * action
        return credit(logs, costs) / self.HORIZON


def credit(logs: list[Any], rewards: list[Any]) -> Any:
    """Σ_t log π_t · (rewards from t on), these taken as constants."""
    rewards_left = jnp.cumsum(jnp.stack(rewards)[::-1])[::-1]
    return jnp.stack(logs) @ jax.lax.stop_gradient(rewards_left)


def _control(function: Any, start: Callable[[Any], Any]) -> JudgedProblem:
    def make(seed: int) -> Oracle:
        return Reinforce(objectives.from_function(function, start(np.random.default_rng(seed))))

    return JudgedProblem(
        "policy gradients", make, f_inf=lowest(function, [start(np.random.default_rng(seed)) for seed in range(8)])
    )


def lowest(function: Callable[[Any], Any], starts: list[Any]) -> float:
    """The smallest value that Newton-like steps with exact gradients reach from any start."""
    from scipy.optimize import minimize

    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(function))
        ends = [minimize(lambda x: tuple(map(np.asarray, both(x))), start, jac=True, tol=1e-12).fun for start in starts]
    return float(min(ends))


# Logistic regression on real data.
def _logistic(data: str, spread: float, *, scaled: bool) -> JudgedProblem:
    from sklearn import datasets

    features, labels = getattr(datasets, f"load_{data}")(return_X_y=True)
    if scaled:
        features = (features - features.mean(0)) / features.std(0)
    train, test = _split(features, labels, test=len(labels) // 4)
    classes, dim = int(labels.max()) + 1, features.shape[1]
    return _sum(
        "logistic regression",
        lambda x, example: cross_entropy(x["W"] @ example[0] + x["b"], example[1]),
        train,
        test,
        normals(W=(spread, classes, dim), b=(0, classes)),
    )


# Networks on images of digits, 8 × 8: an autoencoder, a convolutional network, a contrastive embedding.
def _images(count: int) -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    chosen = slice(400, 400 + count)  # the development network has the first 48
    return images[chosen].reshape(-1, 8, 8) / 8 - 1, labels[chosen]


def _autoencoder(code: int = 4) -> JudgedProblem:
    images, _ = _images(160)
    pooled = images.reshape(160, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(160, 16)
    train, test = _split(pooled, test=40)

    def loss(x: Any, example: Any) -> Any:
        (image,) = example
        return jnp.mean((x["D"] @ jnp.tanh(x["E"] @ image + x["b"]) + x["c"] - image) ** 2)

    start = normals(E=(0.25, code, 16), b=(0, code), D=(code**-0.5, 16, code), c=(0, 16))
    return _sum("autoencoder", loss, train, test, start, is_large=True)


def _convolutional(channels: int = 3) -> JudgedProblem:
    images, labels = _images(120)
    train, test = _split(images, labels, test=40)

    def loss(x: Any, example: Any) -> Any:
        image, label = example
        patches = jnp.stack([image[i : i + 6, j : j + 6] for i in range(3) for j in range(3)])
        maps = jax.nn.relu(jnp.tensordot(x["F"], patches, 1) + x["b"][:, None, None])
        pooled = maps.reshape(channels, 3, 2, 3, 2).mean(axis=(2, 4)).ravel()
        return cross_entropy(x["W"] @ pooled + x["c"], label)

    size = 9 * channels
    start = normals(F=(1 / 3, channels, 9), b=(0, channels), W=(size**-0.5, 10, size), c=(0, 10))
    return _sum("convolutional network", loss, train, test, start, is_large=True)


def _contrastive(width: int = 3) -> JudgedProblem:
    images, _ = _images(160)
    halves = images.reshape(160, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(160, 2, 8)  # upper and lower half: two views
    rng = np.random.default_rng(23)
    groups = np.array([rng.choice(160, 4, replace=False) for _ in range(120)])
    train, test = _split(halves[groups], test=30)

    def loss(x: Any, example: Any) -> Any:
        (pairs,) = example  # four pairs of views
        upper, lower = pairs[:, 0] @ x["U"].T, pairs[:, 1] @ x["V"].T
        return jnp.mean(jax.vmap(cross_entropy)(upper @ lower.T, jnp.arange(4)))

    start = normals(U=(0.35, width, 8), V=(0.35, width, 8))
    return _sum("contrastive loss", loss, train, test, start, is_large=True)


# Hyper-parameters of a Gaussian process: the likelihood of blocks of five points, each a sample.
def _gaussian_process() -> JudgedProblem:
    rng = np.random.default_rng(29)
    points = rng.uniform(0, 6, (120, 5))
    values = np.sin(2 * points) + 0.5 * np.sin(5 * points) + 0.2 * rng.normal(size=points.shape)
    train, test = _split(points, values, test=30)

    def loss(x: Any, example: Any) -> Any:
        places, values = example
        length, scale, noise = jnp.exp(x[0]), jnp.exp(2 * x[1]), jnp.exp(2 * x[2])
        gaps = (places[:, None] - places[None, :]) / length
        covariance = scale * jnp.exp(-(gaps**2) / 2) + (noise + 1e-4) * jnp.eye(5)
        # −log N(values; 0, covariance)/5 by Cholesky's recursion, unrolled: LAPACK takes hours for 10⁵ steps of 5 × 5.
        rows: list[list[Any]] = []
        white: list[Any] = []
        total = jnp.zeros(())
        for i in range(5):
            row: list[Any] = []
            for j, above in enumerate(rows):
                row.append((covariance[i, j] - sum(a * b for a, b in zip(row, above, strict=False))) / above[j])
            row.append(jnp.sqrt(covariance[i, i] - sum(a * a for a in row)))
            rows.append(row)
            white.append((values[i] - sum(a * b for a, b in zip(row, white, strict=False))) / row[i])
            total += white[i] ** 2 / 2 + jnp.log(row[i])
        return total / 5

    return _sum("Gaussian process", loss, train, test, lambda rng: rng.normal(0, 0.7, 3))


# Noise that is added: the paper's wrapper around two functions that are not convex.
def _rosenbrock(x: Any) -> Any:
    return jnp.sum(5 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) / x.size


def _wrapped(function: Callable[[Any], Any], B: float, G: float, start: Callable[[Any], Any]) -> JudgedProblem:
    def make(seed: int) -> Oracle:
        return BlumGladyshev(objectives.from_function(function, start(np.random.default_rng(seed))), B=B, G=G)

    return JudgedProblem("added noise", make)


def cases() -> dict[str, Callable[[], JudgedProblem]]:
    """All registered problems by name; each is made when it is asked for."""
    return {
        "matrix completion, 15 × 12, rank 2": partial(_completion, 15, 12, 2, 1.0),
        "matrix completion, 12 × 12, rank 3, condition 10": partial(_completion, 12, 12, 3, 10.0),
        "pseudo-Huber regression, d = 10": partial(_robust, 10, lambda r: jnp.sqrt(1 + r**2) - 1, 1.0, 0.0),
        "Cauchy regression, d = 15, scales 1 to 10": partial(_robust, 15, lambda r: jnp.log1p(r**2), 10.0, 0.2),
        "recurrent layer, adding": _recurrent,
        "attention layer, look-up": _attention,
        "REINFORCE, corridor": partial(_control, Chain(), lambda rng: rng.normal(0, 0.5, Chain.STATES)),
        "REINFORCE, regulator": partial(_control, Regulator(), lambda rng: rng.normal([-0.3, -0.5], 0.2)),
        "logistic regression, wine": partial(_logistic, "wine", 0.3, scaled=True),
        "logistic regression, iris, unscaled": partial(_logistic, "iris", 0.1, scaled=False),  # in centimetres
        "autoencoder, digits": _autoencoder,
        "convolutional network, digits": _convolutional,
        "contrastive loss, digits": _contrastive,
        "Gaussian process, three hyper-parameters": _gaussian_process,
        "Rosenbrock, d = 10, added noise": partial(
            _wrapped, _rosenbrock, 0.3, 0.5, lambda rng: rng.normal(-1, 0.5, 10)
        ),
        "ripples, d = 20, added noise": partial(
            _wrapped, lambda x: jnp.mean(x**2 / 2 + 2 * jnp.sin(x) ** 2), 0.05, 0.2, lambda rng: rng.normal(3, 1, 20)
        ),
    }
