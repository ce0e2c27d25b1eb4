"""The problems on which the untuned method is judged: eight families, six of them with no part in its design.

Written before any method was run on them (docs/evidence/untuned/second/registered.md). A gradient is that of one
example, one game or one episode; in the factor analysis it is exact, with noise of variance B²‖x − x⁰‖² + G² added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidence.untuned.development import OneExample, normals
from gladstorm import BlumGladyshev, finite_sum, objectives, part
from gladstorm.problems.oracle import Oracle

RIDGE = 5e-4  # keeps the solutions of the finite sums bounded
STARTS = 20  # from which the lowest value is sought


@dataclass(frozen=True)
class JudgedProblem:
    """A problem: an oracle for every seed, which decides the start, and the lowest value of f that is known."""

    family: str
    make: Callable[[int], Oracle]
    f_inf: float = 0.0


def _case(family: str, make: Callable[[int], Oracle]) -> JudgedProblem:
    """f* is the lowest value that quasi-Newton steps with exact gradients reach from any of twenty starts."""
    with jax.enable_x64(True):
        posed: list[Any] = [make(seed).objective for seed in range(STARTS)]
        starts = [np.asarray(objective.start, float) for objective in posed]
        return JudgedProblem(family, make, f_inf=lowest(posed[0].value, starts))


def lowest(function: Callable[[Any], Any], starts: list[Any]) -> float:
    """The smallest value that quasi-Newton steps with exact gradients reach from any start."""
    from scipy.optimize import minimize

    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(function))
        ends = [minimize(lambda x: tuple(map(np.asarray, both(x))), start, jac=True, tol=1e-12).fun for start in starts]
    return float(min(ends))


def _sum(family: str, loss: Callable[[Any, Any], Any], data: Any, start: Callable[[Any], Any]) -> JudgedProblem:
    """A mean of losses over examples, with a small ridge; `start` draws x⁰ from a generator."""

    def ridged(x: Any, example: Any) -> Any:
        return loss(x, example) + RIDGE * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))

    def make(seed: int) -> Oracle:
        return OneExample(finite_sum(ridged, data, start(np.random.default_rng(seed))).objective)

    return _case(family, make)


def cross_entropy(logits: Any, label: Any) -> Any:
    """−log of the softmax of the label."""
    return -jax.nn.log_softmax(logits)[label]


# Independent components: the likelihood of x = A s, where s has heavy tails; −log |det W| + Σ log cosh(W x)_i.
def _components() -> JudgedProblem:
    rng = np.random.default_rng(31)
    mixed = rng.laplace(size=(300, 3)) @ rng.normal(size=(3, 3)).T

    def loss(W: Any, signals: Any) -> Any:
        a, b, c = W
        across = jnp.stack([b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]])
        sources = W @ signals
        return jnp.sum(jnp.logaddexp(sources, -sources)) - jnp.log(jnp.abs(a @ across))

    return _sum("independent components", loss, mixed, lambda rng: np.eye(3) + rng.normal(0, 0.3, (3, 3)))


# A mixture of three Student distributions in the plane, with four degrees of freedom.
def _mixture() -> JudgedProblem:
    rng = np.random.default_rng(37)
    centres = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
    points = centres[rng.choice(3, 300, p=[0.5, 0.3, 0.2])] + rng.standard_t(4, (300, 2))

    def loss(x: Any, point: Any) -> Any:
        apart = jnp.sum((point - x["centre"]) ** 2, axis=1) * jnp.exp(-2 * x["scale"])
        return -jax.nn.logsumexp(jax.nn.log_softmax(x["share"]) - 2 * x["scale"] - 3 * jnp.log1p(apart / 4))

    return _sum("mixture", loss, points, normals(centre=(2.0, 3, 2), scale=(0, 3), share=(0, 3)))


# A normalizing flow: two affine couplings with five hidden units each take two half moons to a normal distribution.
def _flow(hidden: int = 5) -> JudgedProblem:
    rng = np.random.default_rng(41)
    angle, upper = rng.uniform(0, np.pi, 200), rng.random(200) < 0.5
    moons = np.stack([np.cos(angle), np.sin(angle)], 1) * np.where(upper, 1, -1)[:, None]
    moons += np.where(upper, 1, -1)[:, None] * [-0.5, -0.25] + 0.1 * rng.normal(size=(200, 2))

    def loss(x: Any, point: Any) -> Any:
        fixed, changed = point
        log_scale = jnp.zeros(())
        for layer in range(2):
            out = x["V"][layer] @ jnp.tanh(x["w"][layer] * fixed + x["b"][layer]) + x["c"][layer]
            by = 2 * jnp.tanh(out[0])
            fixed, changed = changed * jnp.exp(by) + out[1], fixed
            log_scale += by
        return (fixed**2 + changed**2) / 2 - log_scale

    start = normals(w=(1.0, 2, hidden), b=(0.5, 2, hidden), V=(0.3, 2, 2, hidden), c=(0, 2, 2))
    return _sum("normalizing flow", loss, moons, start)


# Rankings by Bradley and Terry: twenty players, a sample is one game.
def _rankings(players: int = 20) -> JudgedProblem:
    rng = np.random.default_rng(43)
    strength = rng.normal(0, 1.5, players)
    games = np.array([rng.choice(players, 2, replace=False) for _ in range(400)])
    wins = rng.random(400) < 1 / (1 + np.exp(strength[games[:, 1]] - strength[games[:, 0]]))
    ordered = np.where(wins[:, None], games, games[:, ::-1])

    def loss(x: Any, game: Any) -> Any:
        return jax.nn.softplus(x[game[1]] - x[game[0]])

    return _sum("rankings", loss, ordered, lambda rng: rng.normal(0, 0.5, players))


# Ordinal regression: the progress of diabetes in five classes, cumulative logits with ordered thresholds.
def _ordinal(classes: int = 5) -> JudgedProblem:
    from sklearn.datasets import load_diabetes

    features, target = load_diabetes(return_X_y=True)
    labels = np.searchsorted(np.quantile(target, np.arange(1, classes) / classes), target)

    def loss(x: Any, example: Any) -> Any:
        features, label = example
        cuts = x["first"] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.exp(x["gaps"]))])
        below = jax.nn.sigmoid(cuts - features @ x["w"])
        return -jnp.log(jnp.diff(below, prepend=0.0, append=1.0)[label] + 1e-9)

    start = normals(w=(0.3, 10), first=(1.0,), gaps=(0.3, classes - 2))
    return _sum("ordinal regression", loss, (features / features.std(0), labels), start)


# A graph network: two convolutions find the three groups of a random graph from noisy features; a sample is a node.
def _graph(nodes: int = 30, hidden: int = 4) -> JudgedProblem:
    rng = np.random.default_rng(47)
    groups = np.arange(nodes) % 3
    joined = np.triu(rng.random((nodes, nodes)) < np.where(groups[:, None] == groups, 0.3, 0.05), 1)
    near = joined + joined.T + np.eye(nodes)
    near /= np.sqrt(np.outer(near.sum(0), near.sum(0)))
    smooth = near @ (np.eye(3)[groups] + rng.normal(0, 1.0, (nodes, 3)))  # the first convolution without its weights

    def loss(x: Any, example: Any) -> Any:
        row, group = example
        return cross_entropy(row @ jnp.tanh(smooth @ x["W"] + x["b"]) @ x["V"] + x["c"], group)

    start = normals(W=(0.6, 3, hidden), b=(0, hidden), V=(0.5, hidden, 3), c=(0, 3))
    return _sum("graph network", loss, (near, groups), start)


# Policy gradients: how much to order for a store that holds five pieces, eight days.
@part
class Reinforce(OneExample):
    """∇f(x; ξ) = Σ_t ∇ log π(a_t | s_t) · (cost from t on) of one episode; ∇f is exact by dynamic programming."""

    def draw(self, key: Any) -> Any:
        """The random numbers of an episode."""
        return self.objective.function.numbers(key)

    def grad(self, point: Any, sample: Any) -> Any:
        """The gradient of one episode's surrogate."""
        return jax.grad(self.objective.function.surrogate)(point.x, sample)


def credit(logs: list[Any], rewards: list[Any]) -> Any:
    """Σ_t log π_t · (rewards from t on), these taken as constants."""
    rewards_left = jnp.cumsum(jnp.stack(rewards)[::-1])[::-1]
    return jnp.stack(logs) @ jax.lax.stop_gradient(rewards_left)


class StoreKeeper:
    """Softmax over orders of 0 to 2 for each stock; a sale earns 1, a piece in stock costs 0.1, one ordered 0.3."""

    STOCKS, ORDERS, DAYS = 6, 3, 8
    DEMAND = np.array([0.3, 0.4, 0.3])  # of 0, 1 and 2 pieces a day

    def numbers(self, key: Any) -> Any:
        """Uniform numbers: one for the order, one for the demand, every day."""
        return jax.random.uniform(key, (self.DAYS, 2), jnp.result_type(float))

    def _move(self, stock: Any, order: Any, demand: Any) -> tuple[Any, Any]:
        full = jnp.minimum(stock + order, self.STOCKS - 1)
        sold = jnp.minimum(full, demand)
        return full - sold, sold - 0.3 * order - 0.1 * (full - sold)

    def __call__(self, x: Any) -> Any:
        """−E of the profit from an empty store, with a small ridge."""
        chance = jax.nn.softmax(x.reshape(self.STOCKS, self.ORDERS))
        stock, order, demand = np.meshgrid(*map(np.arange, (self.STOCKS, self.ORDERS, 3)), indexing="ij")
        after, profit = self._move(stock, order, demand)
        weights = chance[:, :, None] * self.DEMAND
        value = jnp.zeros(self.STOCKS)
        for _ in range(self.DAYS):
            value = jnp.sum(weights * (profit + value[after]), axis=(1, 2))
        return -value[0] + RIDGE * x @ x

    def surrogate(self, x: Any, numbers: Any) -> Any:
        """Return a function whose gradient is the stochastic gradient."""
        logs_of = jax.nn.log_softmax(x.reshape(self.STOCKS, self.ORDERS))
        stock, logs, profits = jnp.zeros((), int), [], []
        for order_number, demand_number in numbers:
            upto = jnp.cumsum(jnp.exp(jax.lax.stop_gradient(logs_of[stock])))
            order = jnp.sum(order_number >= upto[:-1])
            logs.append(logs_of[stock, order])
            stock, profit = self._move(stock, order, jnp.sum(demand_number >= np.cumsum(self.DEMAND)[:-1]))
            profits.append(profit)
        return -credit(logs, profits) + RIDGE * x @ x


def _store() -> JudgedProblem:
    store = StoreKeeper()

    def make(seed: int) -> Oracle:
        start = np.random.default_rng(seed).normal(0, 0.5, store.STOCKS * store.ORDERS)
        return Reinforce(objectives.from_function(store, start))

    return _case("policy gradients", make)


# Factor analysis with one factor: Σ = l lᵀ + diag(exp ψ), the exact likelihood; the noise is added.
def _factor(dim: int = 6) -> JudgedProblem:
    rng = np.random.default_rng(53)
    loads = rng.normal(0, 1, dim)
    data = rng.normal(size=(200, 1)) * loads + rng.normal(size=(200, dim)) * np.geomspace(0.3, 1, dim)
    second = data.T @ data / 200

    def value(x: Any) -> Any:
        load, unique = x[:dim], jnp.exp(x[dim:])
        white = load / unique
        inside = 1 + load @ white
        return (
            jnp.sum(x[dim:]) + jnp.log(inside) + jnp.sum(jnp.diag(second) / unique) - white @ second @ white / inside
        ) / 2

    def make(seed: int) -> Oracle:
        start = np.random.default_rng(seed).normal(0, 0.5, 2 * dim)
        return BlumGladyshev(objectives.from_function(value, start), B=0.3, G=0.5)

    return _case("added noise", make)


def cases() -> dict[str, Callable[[], JudgedProblem]]:
    """All problems by name; each is made when it is asked for, as f* takes seconds."""
    return {
        "independent components, 3 × 3": _components,
        "Student mixture, three in the plane": _mixture,
        "normalizing flow, two moons": _flow,
        "rankings, twenty players": _rankings,
        "ordinal regression, diabetes": _ordinal,
        "graph network, three groups": _graph,
        "REINFORCE, store": _store,
        "factor analysis, d = 12, added noise": _factor,
    }
