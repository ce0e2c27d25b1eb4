"""Noise laws: of batch means, and of one sample at two points. test_oracle_contract.py has means and variances.

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
from two_points import Pair, at_two_points, stated

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


def noise(oracle: Any, b: int = 1, *, x: np.ndarray = X, y: np.ndarray = Y, seed: int = 0) -> Pair:
    """Of independent batch means, the noise at x and at y: the same samples at both."""
    drawn = at_two_points(oracle, x, y, b, seed=seed, draws=DRAWS)
    here, there = (each - stated(oracle, point)[0] for each, point in zip(drawn, (x, y), strict=True))
    return here, there


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
    np.testing.assert_allclose(np.abs(full), 2.0, rtol=1e-12)
    assert abs(np.mean(full[:, 0] * full[:, 1])) < 4 * stats.norm.isf(LEVEL / 2) / np.sqrt(DRAWS)
    np.testing.assert_allclose(wrapped[:, 0], wrapped[:, 1], rtol=1e-12)


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
