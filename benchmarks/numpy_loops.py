"""The same simulations in NumPy, three ways: as first written, with care for one run, with care for many at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Problem:
    """An exact gradient of one vector (d,) or of many as columns (d, runs), a start and the noise."""

    grad: Callable[[np.ndarray], np.ndarray]
    start: np.ndarray  # x⁰, where the noise is centred
    here: np.ndarray  # the iterate the loop starts from
    B: float
    G: float


@dataclass(frozen=True)
class Arm:
    """A method by its three choices."""

    estimator: str  # "fresh", "momentum" or "storm"
    normalized: bool
    sigma2: float | None  # of the dynamic batch, or None for single samples
    gamma: float
    eta: float = 1.0


def plain(problem: Problem, arm: Arm, steps: int, rng: np.random.Generator) -> list[float]:
    """One run as a researcher writes it down: explicit samples, a gradient wherever the formula has one."""
    x0, d = problem.start, problem.start.size

    def draw(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = _batch_size(problem, arm, float(np.sum((x - x0) ** 2)))
        return rng.choice([-1.0, 1.0], (b, 1)), rng.normal(0, 1 / np.sqrt(d), (b, d))

    def stochastic_grad(x: np.ndarray, sample: tuple[np.ndarray, np.ndarray]) -> Any:
        rho, u = sample
        return problem.grad(x) + np.mean(problem.B * rho * (x - x0) + problem.G * u, axis=0)

    x = problem.here
    v = stochastic_grad(x, draw(x))
    norms = [float(np.linalg.norm(problem.grad(x)))]
    for _ in range(steps):
        previous = x
        x = x - arm.gamma * (v / np.linalg.norm(v) if arm.normalized else v)
        sample = draw(x)
        if arm.estimator == "momentum":
            v = (1 - arm.eta) * v + arm.eta * stochastic_grad(x, sample)
        elif arm.estimator == "storm":
            v = stochastic_grad(x, sample) + (1 - arm.eta) * (v - stochastic_grad(previous, sample))
        else:
            v = stochastic_grad(x, sample)
        norms.append(float(np.linalg.norm(problem.grad(x))))
    return norms


def careful(problem: Problem, arm: Arm, steps: int, rng: np.random.Generator) -> list[float]:
    """One run with one exact gradient per step, shared by all that need it, and the samples averaged as drawn."""
    x0, d = problem.start, problem.start.size
    x, grad = problem.here, problem.grad(problem.here)
    v: Any = np.zeros(d)
    norms: list[float] = []
    for k in range(steps + 1):
        previous, previous_grad = x, grad
        if k > 0:
            x = x - arm.gamma * (v / np.linalg.norm(v) if arm.normalized else v)
            grad = problem.grad(x)
        b = _batch_size(problem, arm, float(np.sum((x - x0) ** 2)))
        rho = 2 * np.count_nonzero(rng.integers(0, 2, b)) / b - 1
        u = rng.standard_normal((b, d)).sum(axis=0) / (b * np.sqrt(d))
        fresh = grad + problem.B * rho * (x - x0) + problem.G * u
        if k == 0 or arm.estimator == "fresh":
            v = fresh
        elif arm.estimator == "momentum":
            v = (1 - arm.eta) * v + arm.eta * fresh
        else:
            v = fresh + (1 - arm.eta) * (v - previous_grad - problem.B * rho * (previous - x0) - problem.G * u)
        norms.append(float(np.linalg.norm(grad)))
    return norms


def _batch_size(problem: Problem, arm: Arm, distance2: float) -> int:
    if arm.sigma2 is None:
        return 1
    return max(1, int(np.ceil((problem.B**2 * distance2 + problem.G**2) / arm.sigma2)))


def batched(problem: Problem, arm: Arm, steps: int, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Many runs as columns, so that the gradient is a matrix product, with batches by their sufficient statistics."""
    x0, d = problem.start[:, None], problem.start.size
    x = np.repeat(problem.here[:, None], runs, axis=1)
    norms = np.empty((steps + 1, runs))
    grad = problem.grad(x)
    v: Any = np.zeros_like(x)
    for k in range(steps + 1):
        previous_x, previous_grad = x, grad
        if k > 0:
            if arm.normalized:
                length = np.linalg.norm(v, axis=0)
                x = x - arm.gamma * v / np.where(length > 0, length, 1)
            else:
                x = x - arm.gamma * v
            grad = problem.grad(x)
        if arm.sigma2 is None:
            rho = 2.0 * rng.integers(0, 2, runs) - 1
            u = rng.standard_normal((d, runs)) / np.sqrt(d)
        else:
            drift2 = np.sum((x - x0) ** 2, axis=0)
            b = np.maximum(1, np.ceil((problem.B**2 * drift2 + problem.G**2) / arm.sigma2)).astype(int)
            rho = (2 * rng.binomial(b, 0.5) - b) / b
            u = rng.standard_normal((d, runs)) / np.sqrt(d * b)
        noise = problem.B * rho * (x - x0) + problem.G * u
        if k == 0 or arm.estimator == "fresh":
            v = grad + noise
        elif arm.estimator == "momentum":
            v = (1 - arm.eta) * v + arm.eta * (grad + noise)
        else:
            stale = previous_grad + problem.B * rho * (previous_x - x0) + problem.G * u
            v = grad + noise + (1 - arm.eta) * (v - stale)
        norms[k] = np.linalg.norm(grad, axis=0)
    return norms
