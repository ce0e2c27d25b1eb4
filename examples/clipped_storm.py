"""Which clipping STORM survives: `python -m examples.clipped_storm` prints the table of docs/training.md.

A quadratic in 20 dimensions under BG-0 noise, times a factor that is 1 or has heavy tails (infinite variance). All ways
of clipping see the same noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

DIM, STEPS, RUNS = 20, 4000, 128
GAMMA, ETA, B, G = 2e-3, 0.02, 0.5, 0.5
CURVATURES = np.linspace(0.1, 1, DIM)
TAIL = 1.8  # of the factor with heavy tails: its second moment is infinite

Update = Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]


def _norm(a: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(a, axis=1, keepdims=True))


def _factor(a: np.ndarray, most: float) -> np.ndarray:
    return np.asarray(np.minimum(1, most / _norm(a)))


def _clip(a: np.ndarray, most: float) -> np.ndarray:
    return np.asarray(a * _factor(a, most))


def _storm(v: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """v ← g(x^{k+1}) + (1 − η)(v − g(x^k)), both gradients of one sample."""
    return np.asarray(new + (1 - ETA) * (v - old))


WAYS: dict[str, Update] = {
    "no clipping": lambda v, old, new, _: _storm(v, old, new),
    "both, each by its norm": lambda v, old, new, most: _storm(v, _clip(old, most), _clip(new, most)),
    "both by the first's factor": lambda v, old, new, most: _storm(
        v, old * _factor(old, most), new * _factor(old, most)
    ),
    "the estimate": lambda v, old, new, most: _clip(_storm(v, old, new), most),
    "the second only": lambda v, old, new, most: _storm(v, old, _clip(new, most)),
}


def mean_gradient_norm(way: str, most: float, *, heavy: bool, steps: int = STEPS, runs: int = RUNS) -> float:
    """‖∇f‖ over the second half of the steps, mean over runs."""
    rng = np.random.default_rng(0)
    start = np.ones((runs, DIM))
    x, v, norms = start, np.zeros_like(start), []
    for k in range(steps):
        tail = rng.pareto(TAIL, (runs, 1)) if heavy else np.ones((runs, 1))
        rho, u = rng.choice([-1, 1], (runs, 1)), rng.normal(size=(runs, DIM)) / np.sqrt(DIM)

        def gradient(x: np.ndarray, tail: np.ndarray = tail, rho: np.ndarray = rho, u: np.ndarray = u) -> np.ndarray:
            return np.asarray(CURVATURES * x + tail * (B * rho * (x - start) + G * u))

        if k == 0:
            first = gradient(x)
            v = _clip(first, most) if way.startswith("both") else first
        else:
            moved = x - GAMMA * v / _norm(v)
            v = WAYS[way](v, gradient(x), gradient(moved), most)
            x = moved
        if k > steps // 2:
            norms.append(_norm(CURVATURES * x).mean())
    return float(np.mean(norms))


def table(steps: int = STEPS, runs: int = RUNS) -> str:
    """Every way at two norms, with and without heavy tails, in Markdown."""
    lines = ["| | " + " | ".join(WAYS) + " |", "| --- |" + " --- |" * len(WAYS)]
    for noise, heavy in (("heavy tails", True), ("finite variance", False)):
        for most in (10.0, 1.0):
            found = [mean_gradient_norm(way, most, heavy=heavy, steps=steps, runs=runs) for way in WAYS]
            lines.append(f"| {noise}, norm {most:g} | " + " | ".join(f"{norm:.3g}" for norm in found) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
