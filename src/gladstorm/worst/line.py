"""Problems on a line whose gradient, and the share of the noise in each channel, are linear between nodes.

`audit` says whether a problem is inside a class, by the definitions of the class and nothing the construction knows.
Samples are enumerated, not drawn: two channels of two values are four samples. What is left to chance is the pairs of
points, half of which are close to each other; on the way between two points every node is looked at.
"""

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, check, in_float64, leaf, part, static
from gladstorm.core.rules import FINITE, NON_NEGATIVE, PROBABILITY, VECTOR
from gladstorm.problems.oracle import Oracle
from gladstorm.problems.sampling import mean_of_coins
from gladstorm.theory import Statement

PAIRS: Final = 1000
FINE: Final = 20_001  # points that f is looked at
BETWEEN: Final = 33  # points on the way from x to y, beside the nodes


@part
class Line:
    """f'(x), linear between nodes and constant beyond them; x⁰ = 0, and f = 0 at the first node."""

    nodes: Data = leaf(VECTOR)  # increasing
    slopes: Data = leaf(VECTOR)  # f' at the nodes
    lowest: Number = leaf(FINITE)  # inf f
    constants: ClassVar[Constants | None] = None

    @property
    def start(self) -> Any:
        """The start x⁰ = 0."""
        return np.zeros(1)

    @property
    def f_inf(self) -> float:
        """The infimum of f."""
        return float(self.lowest)

    def interpolate(self, x: Array, values: Array) -> Array:
        """Values at the nodes, linear between them."""
        passed = jnp.clip((x[0] - self.nodes[:-1]) / jnp.diff(self.nodes), 0, 1)
        return values[0] + passed @ jnp.diff(values, axis=0)

    def value(self, x: Array) -> Array:
        """f(x), the integral of f' from the first node."""
        width = jnp.diff(self.nodes)
        into = jnp.clip(x[0] - self.nodes[:-1], 0, width)
        beyond = jnp.maximum(x[0] - self.nodes[1:], 0)
        bends = jnp.diff(self.slopes) / width
        return self.slopes[0] * (x[0] - self.nodes[0]) + bends @ (into * (into / 2 + beyond))

    def grad(self, x: Array) -> Array:
        """∇f(x) = f'(x)."""
        return self.interpolate(x, self.slopes)[None]


class PointWithDeviation(NamedTuple):
    """x, ∇f(x) and the deviation of each channel of the noise there."""

    x: Array
    grad: Array
    deviation: Array


@part
class LineNoise(Oracle):
    """∇f(x; ξ) = ∇f(x) + σ(x) (c₁(x) s₁ + c₂(x) s₂), σ² = B²|x|^a + G², c₁² + c₂² ≤ 1: noise of these B, G and a.

    s₁ and s₂ are independent, of mean 0 and variance 1: √((1 − q)/q) with probability q and −√(q/(1 − q)) otherwise.
    The shares c are linear between the nodes of f, so the samples of one ξ at two points differ by a known amount.
    """

    objective: Line
    B: Number = leaf(NON_NEGATIVE)
    G: Number = leaf(NON_NEGATIVE)
    q: Data = leaf(PROBABILITY)  # of both channels
    share: Any = leaf(FINITE)  # c at the nodes, a row for each
    growth: float = static(NON_NEGATIVE, default=2.0)  # a

    @override
    def draw(self, key: Array) -> Array:
        """One uniform number for each channel."""
        return jax.random.uniform(key, (2,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        """Mean of s over the batch, from how many of its samples were large."""
        return mean_of_coins(noise, size, self.q)

    @override
    def at(self, x: Array) -> PointWithDeviation:
        grown = x[0] if self.growth == 2 else jnp.abs(x[0]) ** (self.growth / 2)
        sigma = jnp.sqrt((self.B * grown) ** 2 + self.G**2)
        return PointWithDeviation(
            x, self.objective.grad(x), sigma * self.objective.interpolate(x, jnp.asarray(self.share))
        )

    @override
    def grad(self, point: PointWithDeviation, sample: Array) -> Array:
        """∇f(x) + σ(x) (c₁(x) s₁ + c₂(x) s₂)."""
        return point.grad + point.deviation @ sample

    @override
    def variance(self, point: Any) -> Array:
        return jnp.sum(point.deviation**2)


@dataclass(frozen=True)
class LineProblem:
    """A problem on a line as data: f' and the noise's shares at nodes, one of which is x⁰ = 0."""

    x: tuple[float, ...]
    slope: tuple[float, ...]  # f'
    share: tuple[tuple[float, float], ...]  # of each channel in the noise
    q: tuple[float, float]  # probability of the larger value of each channel

    def oracle(self, B: float, G: float, growth: float = 2.0) -> LineNoise:
        """The problem with noise of variance at most B²|x|^a + G²; a ValueError says which numbers do not fit."""
        counts = {len(self.x), len(self.slope), len(self.share)}
        if len(counts) > 1 or len(self.x) < 2 or not np.all(np.diff(self.x) > 0) or 0.0 not in self.x:
            raise ValueError(f"x must increase, with 0 and as many numbers as slope and share; got x={self.x}")
        line = Line(np.array(self.x), np.array(self.slope), float(min(self._lowest_values())))
        oracle = LineNoise(line, B, G, np.array(self.q), np.array(self.share), growth)
        check(oracle)
        return oracle

    def gap(self) -> float:
        """The gap f(x⁰) − inf f."""
        return max(0.0, float(self._values()[self.x.index(0.0)] - min(self._lowest_values())))

    def _values(self) -> np.ndarray:
        """Values of f at the nodes, 0 at the first."""
        u = np.array(self.slope)
        return np.append(0.0, np.cumsum(np.diff(self.x) * (u[1:] + u[:-1]) / 2))

    def _lowest_values(self) -> np.ndarray:
        """Values of f at the nodes and where f' rises through 0."""
        u, values = np.array(self.slope), self._values()
        rising = (u[:-1] < 0) & (u[1:] > 0)
        bends = np.diff(u) / np.diff(self.x)
        return np.append(values, (values[:-1] - u[:-1] ** 2 / (2 * np.where(rising, bends, 1)))[rising])


def audit(oracle: LineNoise, statement: Statement, reach: float, seed: int = 0) -> dict[str, float]:
    """Compute how much of each constant is used, at most: 1 is all of it, more is outside the class.

    `reach` is how far from x⁰ a run can be.
    """
    problem, nodes = statement.problem, np.asarray(oracle.objective.nodes)
    rng = np.random.default_rng(seed)
    x = rng.uniform(-reach, reach, PAIRS)
    near = x + rng.normal(size=PAIRS) * reach * 10.0 ** rng.uniform(-6, -1, PAIRS)
    y = np.where(np.arange(PAIRS) % 2 == 0, near, rng.uniform(-reach, reach, PAIRS))
    way = x[:, None] + (y - x)[:, None] * np.linspace(0, 1, BETWEEN)
    way = np.hstack([way, np.clip(nodes, np.minimum(x, y)[:, None], np.maximum(x, y)[:, None])])
    probabilities, gradients = samples(oracle, way)
    exact = np.einsum("s,s...->...", probabilities, gradients)
    variance = np.einsum("s,s...->...", probabilities, (gradients - exact) ** 2)
    allowed = problem.B**2 * np.abs(way) ** problem.growth + problem.G**2
    used = {
        "variance": float(np.max(np.divide(variance, allowed, out=np.zeros_like(allowed), where=allowed > 0))),
        "gap": _gap(oracle, nodes, reach) / problem.gap,
    }
    distance = np.abs(y - x)
    if statement.smoothness == "smooth":
        limit = statement.L if statement.corrects_drift else statement.L0
        growth, per_sample = np.full(PAIRS, limit), np.full((probabilities.size, PAIRS), limit)
    else:
        alpha = problem.alpha
        growth = statement.L0 + statement.L1 * np.max(np.abs(exact), axis=1) ** alpha
        per_sample = statement.L0 + statement.L1 * np.max(np.abs(gradients), axis=2) ** alpha
    used["smoothness"] = float(np.max(np.abs(exact[:, BETWEEN - 1] - exact[:, 0]) / (growth * distance)))
    if statement.corrects_drift:
        differing = np.sqrt(probabilities @ (gradients[:, :, BETWEEN - 1] - gradients[:, :, 0]) ** 2)
        used["same sample"] = float(np.max(differing / (np.sqrt(probabilities @ per_sample**2) * distance)))
    return used


def samples(oracle: LineNoise, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Enumerate the four samples: the probability of each, and its gradients at an array of points."""
    q = np.asarray(oracle.q)
    probabilities, gradients = [], []
    for large in itertools.product((False, True), repeat=2):
        probabilities.append(np.prod(np.where(large, q, 1 - q)))
        s = np.where(large, np.sqrt((1 - q) / q), -np.sqrt(q / (1 - q)))
        with jax.enable_x64(True):
            at_points = _gradients(in_float64(oracle), np.ravel(at)[:, None], s)
        gradients.append(np.asarray(at_points)[:, 0].reshape(at.shape))
    return np.array(probabilities), np.stack(gradients)


@jax.jit
def _gradients(oracle: LineNoise, x: Array, sample: Array) -> Array:
    return jax.vmap(lambda point: oracle.grad(oracle.at(point), sample))(x)


def _gap(oracle: LineNoise, nodes: np.ndarray, reach: float) -> float:
    """Compute f(x⁰) − min f over a fine grid, f being the integral of f'."""
    grid = np.linspace(min(nodes[0], 0.0) - reach, max(nodes[-1], 0.0) + reach, FINE)
    grid = np.sort(np.concatenate([grid, nodes, [0.0]]))
    probabilities, gradients = samples(oracle, grid)
    slopes = probabilities @ gradients
    values = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (slopes[1:] + slopes[:-1]) / 2)])
    return float(values[np.searchsorted(grid, 0.0)] - values.min())
