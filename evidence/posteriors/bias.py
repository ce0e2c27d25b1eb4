"""Optimizers with normalized steps make standard deviations too large in low dimension: by how much?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gladstorm.core.statistics import significant
from gladstorm.optax import averaged, nsgdm, nstorm, untuned_per_coordinate

STEPS, RUNS = 4000, 128
DIMENSIONS = (1, 2, 5, 10, 30)
RATES = (0.3, 0.1, 0.03)  # each decays to 0
OURS = "untuned_per_coordinate"


def _made(name: str, rate: Any) -> Any:
    schedule: Callable[[Any], Any] = lambda k: rate * (1 - k / STEPS)  # noqa: E731 - Optax calls it
    return {"NSGDM": nsgdm, "NSTORM": nstorm}[name](schedule) if name != OURS else untuned_per_coordinate(STEPS)


def _end(name: str, dim: int, rate: Any, key: Any) -> Any:
    """The standard deviations of a mean field after a run; the posterior is N(0, I)."""

    def loss(params: Any, key: Any) -> Any:
        z = params[0] + jnp.exp(params[1]) * jax.random.normal(key, (dim,))
        return 0.5 * z @ z - jnp.sum(params[1])

    optimizer = optax.with_extra_args_support(_made(name, rate))

    def step(carry: Any, key: Any) -> Any:
        params, state = carry
        slope: Any = jax.grad(lambda at: loss(at, key))  # NSTORM evaluates it at two points
        updates, state = optimizer.update(slope(params), state, params, grad_fn=slope)
        return (optax.apply_updates(params, updates), state), None

    params = jnp.zeros((2, dim))
    (params, state), _ = jax.lax.scan(step, (params, optimizer.init(params)), jax.random.split(key, STEPS))
    return jnp.exp((averaged(state, params) if name == OURS else params)[1])


def measured(seed: int) -> dict[str, Any]:
    """Errors of standard deviations by optimizer, rate and dimension, in per cent, with standard errors."""
    keys = jax.random.split(jax.random.key(seed), RUNS)
    biases: dict[str, Any] = {}
    for name in ("NSGDM", "NSTORM", OURS):
        rates = RATES if name != OURS else (1.0,)
        for dim in DIMENSIONS:
            ends = jax.jit(jax.vmap(jax.vmap(lambda r, k, n=name, d=dim: _end(n, d, r, k), (None, 0)), (0, None)))
            for rate, sds in zip(rates, np.asarray(ends(jnp.array(rates), keys)), strict=True):
                errors = 100 * (sds.mean(axis=1) - 1)
                label = name if name == OURS else f"{name}, rate {rate:g}"
                both = errors.mean(), errors.std(ddof=1) / np.sqrt(RUNS)
                biases.setdefault(label, {})[str(dim)] = [significant(float(each), 3) for each in both]
    return biases
