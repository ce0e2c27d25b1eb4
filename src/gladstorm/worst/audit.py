"""Whether a problem is where it should be, by the definitions of its class and nothing the construction knows.

Samples are enumerated, not drawn: two channels of two values are four samples. What is left to chance is the pairs of
points, half of which are close to each other; on the way between two points every node is looked at.
"""

from __future__ import annotations

import itertools
from typing import Final

import jax
import numpy as np

from gladstorm.core.parts import Array, in_float64
from gladstorm.theory import Statement
from gladstorm.worst.line import LineNoise

PAIRS: Final = 1000
FINE: Final = 20_001  # points that f is looked at
BETWEEN: Final = 33  # points on the way from x to y, beside the nodes


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
    """The probability of each of the four samples, and their gradients at an array of points: one array for each."""
    q = np.asarray(oracle.q)
    probabilities, gradients = [], []
    for large in itertools.product((False, True), repeat=2):
        probabilities.append(np.prod(np.where(large, q, 1 - q)))
        s = np.where(large, np.sqrt((1 - q) / q), -np.sqrt(q / (1 - q)))
        with jax.enable_x64(True):
            found = _gradients(in_float64(oracle), np.ravel(at)[:, None], s)
        gradients.append(np.asarray(found)[:, 0].reshape(at.shape))
    return np.array(probabilities), np.stack(gradients)


@jax.jit
def _gradients(oracle: LineNoise, x: Array, sample: Array) -> Array:
    return jax.vmap(lambda each: oracle.grad(oracle.at(each), sample))(x)


@jax.jit
def _slopes(oracle: LineNoise, x: Array) -> Array:
    return jax.vmap(oracle.objective.grad)(x)


def _gap(oracle: LineNoise, nodes: np.ndarray, reach: float) -> float:
    """f(x⁰) − min f over a fine grid, f being the integral of f'."""
    start = float(oracle.objective.start[0])
    low, high = min(nodes[0], start) - reach, max(nodes[-1], start) + reach
    grid = np.sort(np.concatenate([np.linspace(low, high, FINE), nodes, [start]]))
    with jax.enable_x64(True):
        slopes = np.asarray(_slopes(in_float64(oracle), grid[:, None]))[:, 0]
    values = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (slopes[1:] + slopes[:-1]) / 2)])
    return float(values[np.searchsorted(grid, start)] - values.min())
