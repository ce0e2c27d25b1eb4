"""Problems on a line whose gradient, and the share of the noise in each channel, are linear between nodes.

`audit` says whether one is where it should be, by the definitions of its class and nothing the construction knows.
Samples are enumerated, not drawn: two channels of two values are four samples. What is left to chance is the pairs of
points, half of which are close to each other; on the way between two points every node is looked at.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, Number, in_float64, leaf, part
from gladstorm.core.rules import FINITE, NON_NEGATIVE, PROBABILITY, VECTOR
from gladstorm.problems.oracle import Oracle
from gladstorm.problems.sampling import mean_of_coins
from gladstorm.theory import Statement

PAIRS: Final = 1000
FINE: Final = 20_001  # points that f is looked at
BETWEEN: Final = 33  # points on the way from x to y, beside the nodes


@part
class Line:
    """f'(x) = u₀ + Σ_j κ_j min(max(x − a_j, 0), h_j): continuous, and linear on every piece [a_j, a_j + h_j].

    Pieces lie side by side, and beyond them f' is constant. f = 0 at the left end of the first.
    """

    start: Data = leaf(VECTOR)  # x⁰, one number
    left: Data = leaf(VECTOR)  # a_j
    width: Data = leaf(VECTOR)  # h_j
    slope: Data = leaf(VECTOR)  # κ_j = f'' on the piece
    first: Number = leaf(FINITE)  # u₀ = f' at the left end
    lowest: Number = leaf(FINITE)  # inf f
    constants: ClassVar[Constants | None] = None

    @property
    def f_inf(self) -> float:
        """inf f."""
        return float(self.lowest)

    def within(self, x: Array) -> Array:
        """How far into each piece x is."""
        return jnp.clip(x[0] - self.left, 0, self.width)

    def value(self, x: Array) -> Array:
        """f(x)."""
        into = self.within(x)
        beyond = jnp.maximum(x[0] - self.left - self.width, 0)
        return self.first * (x[0] - self.left[0]) + self.slope @ (into * (into / 2 + beyond))

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return (self.first + self.slope @ self.within(x))[None]


class PointWithDeviation(NamedTuple):
    """x, ∇f(x) and the deviation of each channel of the noise there."""

    x: Array
    grad: Array
    deviation: Array


@part
class LineNoise(Oracle):
    """∇f(x; ξ) = ∇f(x) + σ(x) (c₁(x) s₁ + c₂(x) s₂), σ² = B²|x − x⁰|² + G², c₁² + c₂² ≤ 1: BG-0 with these B and G.

    s₁ and s₂ are independent, of mean 0 and variance 1: √((1 − q)/q) with probability q and −√(q/(1 − q)) otherwise.
    The shares c are linear on the pieces of f, so the samples of one ξ at two points differ by a known amount.
    """

    objective: Line
    B: Number = leaf(NON_NEGATIVE)
    G: Number = leaf(NON_NEGATIVE)
    q: Data = leaf(PROBABILITY)  # of both channels
    share: Data = leaf(VECTOR)  # c at the left end of the first piece
    turns: Any = leaf(FINITE)  # dc/dx on the pieces, a row for each

    @override
    def draw(self, key: Array) -> Array:
        """One uniform number for each channel."""
        return jax.random.uniform(key, (2,), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        """s̄, from how many of b samples were large."""
        return mean_of_coins(noise, size, self.q)

    @override
    def at(self, x: Array) -> PointWithDeviation:
        into = self.objective.within(x)
        sigma = jnp.sqrt((self.B * (x[0] - self.objective.start[0])) ** 2 + self.G**2)
        return PointWithDeviation(x, self.objective.grad(x), sigma * (self.share + into @ self.turns))

    @override
    def grad(self, point: PointWithDeviation, sample: Array) -> Array:
        """∇f(x) + σ(x) (c₁(x) s₁ + c₂(x) s₂)."""
        return point.grad + point.deviation @ sample

    @override
    def variance(self, point: Any) -> Array:
        return jnp.sum(point.deviation**2)


def audit(oracle: LineNoise, statement: Statement, reach: float, seed: int = 0) -> dict[str, float]:
    """How much of each constant is used, at most: 1 is all of it, more is outside the class.

    `reach` is how far from x⁰ a run can be.
    """
    problem, start = statement.problem, float(oracle.objective.start[0])
    rng = np.random.default_rng(seed)
    low, high = start - reach, start + reach
    x = rng.uniform(low, high, PAIRS)
    near = x + rng.normal(size=PAIRS) * reach * 10.0 ** rng.uniform(-6, -1, PAIRS)
    y = np.where(np.arange(PAIRS) % 2 == 0, near, rng.uniform(low, high, PAIRS))
    nodes = np.append(oracle.objective.left, oracle.objective.left[-1] + oracle.objective.width[-1])
    way = x[:, None] + (y - x)[:, None] * np.linspace(0, 1, BETWEEN)
    passed = np.clip(nodes, np.minimum(x, y)[:, None], np.maximum(x, y)[:, None])
    probabilities, gradients = samples(oracle, np.hstack([way, passed]))
    exact = np.einsum("s,s...->...", probabilities, gradients)
    noise = gradients - exact
    variance = np.einsum("s,s...->...", probabilities, noise**2)
    allowed = problem.B**2 * (np.hstack([way, passed]) - start) ** 2 + problem.G**2
    used = {
        "variance": float(np.max(np.divide(variance, allowed, out=np.zeros_like(allowed), where=allowed > 0))),
        "gap": _gap(oracle, nodes, start, reach) / problem.gap,
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
    """The probability of each of the four samples, and their gradients at an array of points: one array for each."""
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


def _gap(oracle: LineNoise, nodes: np.ndarray, start: float, reach: float) -> float:
    """f(x⁰) − min f over a fine grid, f being the integral of f'."""
    low, high = min(nodes[0], start) - reach, max(nodes[-1], start) + reach
    grid = np.sort(np.concatenate([np.linspace(low, high, FINE), nodes, [start]]))
    with jax.enable_x64(True):
        slopes = np.asarray(_gradients(in_float64(oracle), grid[:, None], np.zeros(2)))[:, 0]  # without noise
    values = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (slopes[1:] + slopes[:-1]) / 2)])
    return float(values[np.searchsorted(grid, start)] - values.min())
