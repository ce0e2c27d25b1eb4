"""Starts that end apart are grouped, weighed and mixed; those that only lie along a valley are not."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.variational import Fit, FullRank, MeanField, fit_logdensity
from gladstorm.variational.conclusion import Mixture, groups, in_words
from gladstorm.variational.gaussians import Diagonal, Triangular
from gladstorm.variational.programs import Traced
from targets import LOG_2PI

SHARES, CENTERS = np.array([2 / 3, 1 / 3]), np.array([6.0, -6.0])


def two_modes(z: Any) -> Any:
    parts = [jnp.log(w) - 0.5 * jnp.sum((z - c) ** 2) for w, c in zip(SHARES, CENTERS, strict=True)]
    return jnp.logaddexp(*parts)


def starts(locations: Any, elbos: Any, scale: float = 1.0) -> Any:
    """What `groups` reads of the starts of a mean field."""
    q = [Diagonal(np.asarray(loc, np.float32), np.full(len(loc), scale, np.float32)) for loc in locations]
    levels = np.array(elbos, float)[:, None]
    return SimpleNamespace(elbos=levels, best=int(np.argmax(levels)), member=lambda at: q[at])


def traced(logp: Any, dim: int = 2) -> Traced:
    return Traced(lambda z, _: logp(z), np.zeros(dim, np.float32), np.zeros(2, np.uint32))


@pytest.fixture(scope="module", params=[MeanField(), FullRank()], ids=["mean field", "full rank"])
def fit(request: pytest.FixtureRequest) -> Fit:
    return fit_logdensity(
        two_modes, 2, steps=1500, family=request.param, start=np.array([[3.0, 2], [1, 1], [-2, -2], [2, 3]]),
        progress=False,
    )  # fmt: skip


def test_two_modes_are_named_with_their_masses_and_their_mixture_is_the_posterior(fit: Fit) -> None:
    assert [each.size for each in fit.starts] == [3, 1]
    assert [each.weight for each in fit.starts] == pytest.approx(SHARES, abs=0.01)
    assert [each.location[0] for each in fit.starts] == pytest.approx(CENTERS, abs=0.05)
    assert fit.starts[1].distance == pytest.approx(12 / np.sqrt(2), rel=0.02)
    (warning,) = fit.warnings
    assert "ended in 2 places: 3 and 1 of them, with ELBOs of 1.43 and 0.74 and weights of 0.67 and 0.33" in warning
    mixture = fit.mixture()
    assert fit.elbo == pytest.approx(LOG_2PI + np.log(2 / 3), abs=0.02)
    assert mixture.elbo == pytest.approx(LOG_2PI, abs=0.02)  # the evidence
    draws = mixture.sample(8000)["z"]
    assert draws.mean(axis=0) == pytest.approx([2.0, 2.0], abs=4 * 5.7 / np.sqrt(8000))
    assert draws.std(axis=0) == pytest.approx(np.sqrt(1 + 32) * np.ones(2), rel=0.02)
    assert (draws[:, 0] > 0).mean() == pytest.approx(2 / 3, abs=0.02)
    assert np.diagonal(mixture.mass_matrix()) == pytest.approx(33 * np.ones(2), rel=0.02)
    assert mixture.converged
    assert mixture.mixture() is mixture
    assert mixture.efficiency == pytest.approx(1, abs=0.02)
    assert mixture.check().steady


def test_a_fit_keeps_its_groups_in_a_file_and_its_mixture_in_a_pickle(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.parquet")
    loaded = Fit.load(tmp_path / "fit.parquet")
    assert loaded.starts == fit.starts
    with pytest.raises(ValueError, match="a file has its best start only"):
        loaded.mixture()
    other = pickle.loads(pickle.dumps(fit)).mixture()
    assert other.sample(300)["z"] == pytest.approx(fit.mixture().sample(300)["z"], rel=1e-5)


def test_starts_along_a_valley_or_near_each_other_or_without_weight_are_one_group() -> None:
    valley = traced(lambda z: -0.5 * (z[0] - z[1]) ** 2 / 0.01)
    (one,), _ = groups(starts([[-5.0, -5], [5, 5]], [-1.0, -1.1], 0.1), valley)
    assert (one.size, one.weight, one.distance) == (2, 1.0, 0.0)
    modes = traced(two_modes)
    assert len(groups(starts([[6.0, 6], [-6, -6]], [-1.0, -1.1]), modes)[0]) == 2
    assert len(groups(starts([[6.0, 6], [-6, -6]], [-1.0, -1.1], 4.0), modes)[0]) == 1  # wide: 2 deviations apart
    assert len(groups(starts([[6.0, 6], [-6, -6]], [-1.0, -6.0]), modes)[0]) == 1  # e^-5 of the weight
    some, mixture = groups(starts([[-6.0, -6], [6, 6], [6, 5.9], [np.nan, 6]], [-3.0, -1.0, -1.5, -np.inf]), modes)
    assert next(each.size for each in some if each.location[0] > 0) == 2
    assert [each.weight for each in some] == pytest.approx([1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))])
    assert len(mixture.members) == 2
    assert "2 places" in in_words(some)[0]


def test_three_modes_are_three_groups() -> None:
    def three(z: Any) -> Any:
        return jnp.logaddexp(jnp.logaddexp(-0.5 * z[0] ** 2, -0.5 * (z[0] - 20) ** 2), -0.5 * (z[0] + 20) ** 2)

    some, _ = groups(starts([[0.0], [20], [-20], [20]], [0.0, 0.0, 0.0, 0.0]), traced(three, 1))
    assert sorted(each.size for each in some) == [1, 1, 2]
    assert [each.weight for each in some] == pytest.approx([1 / 3] * 3)
    assert "3 places: 1, 2 and 1 of them" in in_words(some)[0]


@pytest.mark.parametrize("kind", [Diagonal, Triangular])
def test_a_mixture_has_the_density_and_the_moments_of_its_draws(kind: Any) -> None:
    second = np.array([2.0, 0.5]) if kind is Diagonal else np.array([[2.0, 0], [1.0, 0.5]])
    members = (
        kind(np.array([-2.0, 0]), np.ones(2) if kind is Diagonal else np.eye(2)),
        kind(np.array([3.0, 1]), second),
    )
    q = Mixture(members, np.log([0.3, 0.7]))
    noise = np.random.default_rng(0).normal(size=(40_000, q.noise_size))
    z = q.place(noise)
    assert z.mean(axis=0) == pytest.approx(q.loc, abs=0.05)
    assert q.loc == pytest.approx([0.3 * -2 + 0.7 * 3, 0.7])
    assert np.cov(z.T) == pytest.approx(q.scale_tril() @ q.scale_tril().T, abs=0.12)
    grid = np.stack(np.meshgrid(np.linspace(-12, 14, 261), np.linspace(-10, 10, 201)), axis=-1).reshape(-1, 2)
    by_hand = sum(w * np.exp(m.log_density(grid)) for w, m in zip((0.3, 0.7), members, strict=True))
    assert by_hand.sum() * 0.1 * 0.1 == pytest.approx(1, abs=0.01)
    nearest = np.argmin(np.sum((grid[:, None] - z[:20]) ** 2, axis=2), axis=0)
    assert np.exp(q.log_density_at(noise[:20])) == pytest.approx(by_hand[nearest], rel=0.25, abs=1e-3)
    lone = Mixture(members[:1], np.zeros(1))
    np.testing.assert_allclose(lone.log_density_at(noise), members[0].log_density_at(noise[:, :-1]))
