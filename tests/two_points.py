"""Batches of an oracle against brute force, at one point and at two.

Kolmogorov–Smirnov tests use fixed seeds and level 1e-6; each has 20,000 draws on both sides, enough to see a wrong
factor two, a missing sample, or two points that do not share theirs.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

LEVEL, DRAWS = 1e-6, 20_000
Pair = tuple[np.ndarray, np.ndarray]  # gradients at x and at y, a row for each batch


@jax.jit
def drawn(oracle: Any, x: Any, y: Any, b: Any, keys: Any) -> Any:
    """One sample per key, drawn at x: its gradients at x and at y."""
    here, there = oracle.at(x), oracle.at(y)

    def one(key: Any) -> Any:
        sample = oracle.sample(key, here, b)
        return oracle.grad(here, sample), oracle.grad(there, sample)

    return jax.vmap(one)(keys)


def at_two_points(oracle: Any, x: Any, y: Any, b: int, *, seed: int | None = None, draws: int = DRAWS) -> Pair:
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(b if seed is None else seed), draws)
        at_x, at_y = drawn(oracle, x, y, jnp.asarray(b), keys)
    return np.asarray(at_x), np.asarray(at_y)


@jax.jit
def _stated(oracle: Any, x: Any) -> Any:
    return oracle.objective.grad(x), oracle.variance(oracle.at(x))


def stated(oracle: Any, x: Any) -> tuple[np.ndarray, Any]:
    """∇f(x), and the variance the oracle states for one sample there: one program, not one for each operation."""
    with jax.enable_x64(True):
        gradient, variance = _stated(oracle, jnp.asarray(x))
        return np.asarray(gradient), None if variance is None else float(variance)


def _views(at_x: np.ndarray, at_y: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers whose laws tell the law of two vectors: at one point and at both."""
    u, v, w = np.random.default_rng(0).normal(size=(3, at_x.shape[1]))
    return {
        "at x": at_x @ u,
        "length at x": np.linalg.norm(at_x, axis=1),
        "at y": at_y @ v,
        "at both": at_x @ u + at_y @ v,
        "at both, the other way": at_x @ w - at_y @ u,
        "difference": np.linalg.norm(at_x - at_y, axis=1),
        "product": np.sum(at_x * at_y, axis=1),
    }


def require_same_law(ours: Pair, theirs: Pair) -> None:
    """Fail if some number has another distribution in one than in the other; constants are left out."""
    found, wanted = _views(*ours), _views(*theirs)
    p = {
        # Rounded: of a law with few values, rounding errors would make two of each.
        name: stats.ks_2samp(np.round(found[name], 9), np.round(wanted[name], 9)).pvalue
        for name in found
        if np.ptp(wanted[name]) > 0
    }
    assert min(p.values()) > LEVEL, p
