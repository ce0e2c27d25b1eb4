"""With blackjax: the covariance of a fit saves NUTS its steps, and its variational inference takes our optimizer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.optax import untuned_per_coordinate
from gladstorm.variational import fit_logdensity
from targets import correlated, gaussian

blackjax = pytest.importorskip("blackjax")

MEAN, COVARIANCE = correlated(6, 1000.0)
DENSITY = gaussian(MEAN, COVARIANCE)


def test_nuts_takes_few_steps_with_the_covariance_of_a_fit() -> None:
    fit = fit_logdensity(DENSITY, 6, steps=3000, starts=1, progress=False)
    kernel = blackjax.nuts(DENSITY, step_size=0.5, inverse_mass_matrix=jnp.asarray(fit.mass_matrix()))

    def one(state: Any, key: Any) -> Any:
        state, info = kernel.step(key, state)
        return state, (state.position, info.num_integration_steps)

    state = kernel.init(jnp.asarray(fit.location))
    _, (z, steps) = jax.jit(lambda keys: jax.lax.scan(one, state, keys))(jax.random.split(jax.random.key(0), 1000))
    assert np.mean(steps) < 16
    sds = np.sqrt(np.diagonal(COVARIANCE))
    assert (np.asarray(z).mean(axis=0) - MEAN) / sds == pytest.approx(np.zeros(6), abs=0.25)
    assert np.asarray(z).std(axis=0) == pytest.approx(sds, rel=0.2)


def test_its_families_are_found_by_our_optimizer() -> None:
    steps = 4000
    for trio, covariance in (
        (blackjax.meanfield_vi, np.diag([1.0, 1e4])),
        (blackjax.fullrank_vi, np.array([[1.0, 0.9], [0.9, 4.0]])),
    ):
        method = trio(gaussian(np.zeros(2), covariance), untuned_per_coordinate(steps), 1)
        state, _ = jax.jit(
            lambda keys, method=method: jax.lax.scan(
                lambda s, k: (method.step(k, s)[0], None), method.init(jnp.ones(2)), keys
            )
        )(jax.random.split(jax.random.key(0), steps))
        draws = np.asarray(method.sample(jax.random.key(1), state, 40_000))
        scale = np.sqrt(np.diagonal(covariance))
        assert np.cov(draws.T) / np.outer(scale, scale) == pytest.approx(covariance / np.outer(scale, scale), abs=0.1)
