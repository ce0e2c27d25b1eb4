"""A flow has the density of its draws, begins as its Gaussian and goes where no Gaussian is near."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.variational import Flow, FullRank, fit_logdensity
from gladstorm.variational.flow import Coupled, FlowUpdate
from gladstorm.variational.gaussians import Diagonal, Triangular
from gladstorm.variational.low_rank import Factored
from gladstorm.variational.programs import Draw
from targets import LOG_2PI, correlated, gaussian

D = 3
KEY = jax.random.key(0)
TRIL = np.tril(np.random.default_rng(5).normal(size=(D, D)), -1) + np.diag([0.5, 1.0, 2.0])
BASES: dict[str, Any] = {
    "diagonal": Diagonal(jnp.arange(3.0), jnp.array([0.5, 1.0, 2.0])),
    "triangular": Triangular(jnp.arange(3.0), jnp.asarray(TRIL, jnp.float32)),
    "factored": Factored(jnp.arange(3.0), jnp.array([0.5, 1.0, 2.0]), jnp.ones((3, 1))),
}


def coupled(base: Any, by: float) -> Coupled:
    """A flow whose weights are random, by this much."""
    first = FlowUpdate(layers=3, hidden=4).begin(base, KEY).layers
    leaves, tree = jax.tree.flatten(first)
    rng = np.random.default_rng(1)
    moved = [leaf + jnp.asarray(by * rng.normal(size=leaf.shape), leaf.dtype) for leaf in leaves]
    return Coupled(base, jax.tree.unflatten(tree, moved))


@pytest.mark.parametrize("base", BASES.values(), ids=list(BASES))
def test_a_flow_has_the_density_of_its_draws(base: Any) -> None:
    q = coupled(base, 0.7)
    noise = jax.random.normal(KEY, (5, D))
    volume = jnp.linalg.slogdet(jax.vmap(jax.jacfwd(q.place))(noise))[1]
    expected = -0.5 * jnp.sum(noise**2, axis=1) - 0.5 * D * LOG_2PI - volume
    assert np.asarray(q.log_density_at(noise)) == pytest.approx(np.asarray(expected), abs=1e-4)
    assert np.asarray(q.log_density(q.place(noise))) == pytest.approx(np.asarray(expected), abs=1e-3)
    in_numpy = jax.tree.map(np.asarray, q)
    assert in_numpy.place(np.asarray(noise)) == pytest.approx(np.asarray(q.place(noise)), abs=1e-5)
    z = in_numpy.place(np.random.default_rng(3).normal(size=(40_000, D)))
    assert in_numpy.loc == pytest.approx(z.mean(axis=0), abs=0.2)
    assert in_numpy.sds == pytest.approx(z.std(axis=0), rel=0.1)
    covariance = in_numpy.scale_tril() @ in_numpy.scale_tril().T
    assert np.diagonal(covariance) ** 0.5 == pytest.approx(in_numpy.sds, rel=1e-3)


@pytest.mark.parametrize("base", BASES.values(), ids=list(BASES))
def test_a_flow_begins_as_its_gaussian_and_stays_if_that_is_the_posterior(base: Any) -> None:
    q, noise = coupled(base, 0.0), jax.random.normal(KEY, (D,))
    tril = base.scale_tril()
    assert np.asarray(q.place(noise)) == pytest.approx(np.asarray(base.loc + tril @ noise), abs=1e-5)
    update, posterior = FlowUpdate(layers=2, hidden=4), gaussian(base.loc, tril @ tril.T)
    state = update.begin(base, KEY)
    after, gain = update.step(lambda z, _: posterior(z), state, Draw(noise, None), jnp.asarray(50.0))
    assert float(gain.noise) < 1e-6  # path derivatives have no noise there
    off, _ = update.step(lambda z, _: posterior(2 * z), state, Draw(noise, None), jnp.asarray(50.0))
    assert np.abs(off.layers.outer).max() > 0 == np.abs(state.layers.outer).max()
    assert np.abs(after.layers.outer).max() < 0.1


def test_a_flow_bends_where_a_gaussian_cannot() -> None:
    """z₁ ~ N(0, 1), z₂ ~ N(z₁², ¼): the evidence is log 2π − log 2."""

    def bent(z: Any) -> Any:
        return -0.5 * z[0] ** 2 - 2 * (z[1] - z[0] ** 2) ** 2

    best, flow = (
        fit_logdensity(bent, 2, steps=6000, starts=2, family=family, progress=False) for family in (FullRank(), Flow())
    )
    evidence = LOG_2PI - np.log(2)
    assert best.elbo < evidence - 0.5
    assert best.khat is not None
    assert best.khat > 0.7
    assert "try guide=Flow()" in best.khat_in_words
    assert best.elbo + 0.25 < flow.elbo < evidence
    assert "guide=Flow()" not in flow.khat_in_words
    assert flow.warnings == ()
    pairs = [fit.sample(4000)["z"].T for fit in (best, flow)]
    straight, bends = (np.polyfit(z1, z2, 2)[0] for z1, z2 in pairs)
    assert abs(straight) < 0.1 < 0.5 < bends < 1.2
    draws = flow.sample(4000)["z"]
    assert draws.mean(axis=0) == pytest.approx(flow.location, abs=0.15)
    assert np.cov(draws.T) == pytest.approx(flow.mass_matrix(), abs=0.5)


def test_a_flow_in_one_dimension_or_on_a_gaussian_is_no_worse_than_the_gaussian() -> None:
    mean, covariance = correlated(4, 100.0)
    for d, density, best in (
        (1, lambda z: -0.5 * jnp.sum(z**2), 0.5 * LOG_2PI),
        (4, gaussian(mean, covariance), 2 * LOG_2PI + 0.5 * np.linalg.slogdet(covariance)[1]),
    ):
        fit = fit_logdensity(density, d, steps=3000, starts=1, family=Flow(), progress=False)
        assert fit.elbo == pytest.approx(best, abs=0.02)
        assert fit.warnings == ()
