"""The paper's recursions written out in NumPy, one run at a time, fed the library's own noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

Vector = np.ndarray


@dataclass
class Trajectory:
    """Iterates, estimates, batch sizes and what each step cost."""

    x: list[Vector] = field(default_factory=list)
    v: list[Vector] = field(default_factory=list)
    batch: list[int] = field(default_factory=list)
    sfo: list[int] = field(default_factory=list)


def noise(seed: int, step: int, dim: int) -> Vector:
    """The normals of one step, by the documented rule: the threefry key is the pair (seed, step)."""
    with jax.enable_x64(True):
        key = jax.random.wrap_key_data(jnp.array([seed, step], np.uint32), impl="threefry2x32")
        return np.asarray(jax.random.normal(key, (dim + 1,), np.float64))


class Batch:
    """The mean of b samples at any point; the count of heads by SciPy's own binomial quantile."""

    def __init__(self, normals: Vector, b: int, grad: Callable[[Vector], Vector], start: Vector, B: float, G: float):
        heads = stats.binom.ppf(stats.norm.cdf(normals[0]), b, 0.5)
        self.rho = (2 * heads - b) / b
        self.u = normals[1:] / np.sqrt(start.size * b)
        self.grad, self.start, self.B, self.G = grad, start, B, G

    def __call__(self, x: Vector) -> Any:
        return self.grad(x) + self.B * self.rho * (x - self.start) + self.G * self.u


def unrolled(
    name: str,
    grad: Any,
    start: Vector,
    B: float,
    G: float,
    steps: int,
    seed: int,
    *,
    gamma: float,
    eta: float = 1.0,
    size: Callable[[int, float], int] = lambda k, distance2: 1,
) -> Trajectory:
    """nsgdm, nstorm, sgd or storm for K = `steps`, with batch sizes by (k, squared distance)."""
    out = Trajectory()
    x, v = start.copy(), np.zeros_like(start)
    for k in range(steps + 1):
        previous = x
        if k > 0:
            length = np.linalg.norm(v)
            scale = 1.0 if name in ("sgd", "storm") or length == 0 else length
            x = x - gamma * v / scale
        b = size(k, float(np.sum((x - start) ** 2)))
        g = Batch(noise(seed, k, start.size), b, grad, start, B, G)
        if k == 0 or name == "sgd":
            v, cost = g(x), b
        elif name == "nsgdm":
            v, cost = (1 - eta) * v + eta * g(x), b
        else:
            v, cost = g(x) + (1 - eta) * (v - g(previous)), 2 * b
        out.x.append(x)
        out.v.append(v)
        out.batch.append(b)
        out.sfo.append(cost + (out.sfo[-1] if out.sfo else 0))
    return out
