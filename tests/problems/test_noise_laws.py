"""Noise laws: unbiased, exact variance, exact law of batch means, one sample at two points.

Statistical tests use a fixed seed. A two-sided test at level 1e-6 fails a correct oracle for one seed in a million.
All draw through one function of one shape, so each law is compiled once.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gladstorm.problems import objectives
from gladstorm.problems.oracles import BlumGladyshev, FullRankOracle, Skewed
from gladstorm.problems.sampling import successes

LEVEL = 1e-6
DRAWS = 40_000
B, G, START = 0.7, 1.3, 0.5
F = objectives.named("double-well", dim=2, start=START)
LAWS: dict[str, Any] = {
    "wrapper": BlumGladyshev(F, B, G),
    "full rank": FullRankOracle(F, B, G),
    "skewed": Skewed(F, B, G, 0.05),
}
X, Y = np.array([2.0, -1.0]), np.array([2.1, -1.2])


@jax.jit
def _noise(oracle: Any, x: Any, y: Any, b: Any, keys: Any) -> Any:
    def one(key: Any) -> Any:
        sample = oracle.batch(oracle.draw(key), b)
        return [oracle.grad(p, sample) - oracle.exact(p) for p in map(oracle.at, (x, y))]

    return jax.vmap(one)(keys)


def noise(oracle: Any, b: int = 1, *, x: np.ndarray = X, y: np.ndarray = Y, seed: int = 0) -> list[np.ndarray]:
    """Of independent batch means, the noise at x and at y: the same samples at both."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), DRAWS)
        return [np.asarray(a) for a in _noise(oracle, x, y, jnp.asarray(b), keys)]


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("b", [1, 7, 300])
def test_a_batch_mean_is_unbiased_with_the_variance_of_bg0_divided_by_the_batch(name: str, b: int) -> None:
    here, _ = noise(LAWS[name], b)
    standard_error = here.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    assert np.all(np.abs(here.mean(axis=0)) < stats.norm.isf(LEVEL / 4) * standard_error)
    squared = np.sum(here**2, axis=1) * b
    expected = B**2 * np.sum((X - START) ** 2) + G**2
    assert abs(squared.mean() - expected) < stats.norm.isf(LEVEL / 2) * squared.std(ddof=1) / np.sqrt(DRAWS)


@pytest.mark.parametrize("name", LAWS)
def test_the_batch_mean_has_the_law_of_an_explicit_average(name: str) -> None:
    b = 5
    together, _ = noise(LAWS[name], b)
    averaged = np.mean([noise(LAWS[name], seed=seed)[0] for seed in range(1, b + 1)], axis=0)
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [0.8, -0.6]]):
        both = (np.round(each @ direction, 9) for each in (together, averaged))  # discrete laws differ by rounding
        assert stats.ks_2samp(*both).pvalue > LEVEL


@pytest.mark.parametrize("name", LAWS)
def test_the_difference_of_one_sample_at_two_points_has_the_stated_variance(name: str) -> None:
    expected = B**2 * np.sum((Y - X) ** 2)
    here, there = noise(LAWS[name])
    squared = np.sum((there - here) ** 2, axis=1)
    allowed = stats.norm.isf(LEVEL / 2) * squared.std(ddof=1) / np.sqrt(DRAWS)
    assert abs(squared.mean() - expected) <= allowed + 1e-12


def test_full_rank_noise_is_uncorrelated_between_coordinates_and_the_wrappers_is_not() -> None:
    x = np.array([2.5, 2.5])
    full, wrapped = (noise(law(F, 1.0, 0.0), x=x)[0] for law in (FullRankOracle, BlumGladyshev))
    assert np.all(np.abs(full) == 2.0)
    assert abs(np.mean(full[:, 0] * full[:, 1])) < 4 * stats.norm.isf(LEVEL / 2) / np.sqrt(DRAWS)
    assert np.all(wrapped[:, 0] == wrapped[:, 1])


def test_without_gaussian_noise_the_wrapper_s_law_is_the_scaled_binomial_itself() -> None:
    b, x = 6, np.array([1.5, 0.5])
    heads = (noise(BlumGladyshev(F, 1.0, 0.0), b, x=x)[0][:, 0] * b + b) / 2
    values, counts = np.unique(np.round(heads, 12), return_counts=True)
    assert values.tolist() == list(range(b + 1))
    assert stats.chisquare(counts, stats.binom.pmf(values, b, 0.5) * DRAWS).pvalue > LEVEL


def test_successes_are_binomial() -> None:
    cases = [(1, 0.3), (2, 0.5), (9, 0.05), (50, 0.4), (1000, 0.01), (3000, 0.6)]
    with jax.enable_x64(True):
        uniform = (jnp.arange(DRAWS) + 0.5) / DRAWS  # evenly spaced: counts are within a few of their expectation
        b, q = (jnp.array(column, float)[:, None] for column in zip(*cases, strict=True))
        drawn = np.asarray(jax.jit(successes)(jnp.tile(uniform, (len(cases), 1)), b, q))
    for row, (trials, probability) in zip(drawn, cases, strict=True):
        found, counts = np.unique(row, return_counts=True)
        assert set(found) <= set(range(trials + 1))
        np.testing.assert_allclose(counts, DRAWS * stats.binom.pmf(found, trials, probability), atol=1.5)
