"""The BG-0 oracle: unbiased, exact variance, exact law of batch means, one sample at two points.

Statistical tests use a fixed seed. A two-sided test at level 1e-6 fails a correct oracle for one seed in a million.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gladstorm.problems import objectives
from gladstorm.problems.oracles import BlumGladyshev

LEVEL = 1e-6
DRAWS = 40_000


def oracle(dim: int, B: float = 0.7, G: float = 1.3) -> BlumGladyshev:
    return BlumGladyshev(objectives.named("cauchy", dim=dim, start=0.5), B, G)


@jax.jit
def noise_of(oracle: Any, x: Any, b: Any, keys: Any) -> Any:
    """A batch mean of b samples at x, minus the exact gradient, for each key."""

    def one(key: Any) -> Any:
        point = oracle.at(x)
        return oracle.grad(point, oracle.batch(oracle.draw(key), b)) - oracle.exact(point)

    return jax.vmap(one)(keys)


def gradients(oracle: Any, x: np.ndarray, b: int, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """Independent batch means of b samples at x, minus the exact gradient."""
    with jax.enable_x64(True):
        return np.asarray(noise_of(oracle, x, np.int64(b), jax.random.split(jax.random.key(seed), draws)))


@pytest.mark.parametrize("dim", [1, 3, 20])
@pytest.mark.parametrize("b", [1, 2, 7, 64, 1000])
def test_a_batch_mean_is_unbiased_with_variance_divided_by_the_batch(dim: int, b: int) -> None:
    source, x = oracle(dim), np.linspace(-1, 2, dim)
    noise = gradients(source, x, b)
    standard_error = noise.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    z = stats.norm.isf(LEVEL / (2 * dim))
    assert np.all(np.abs(noise.mean(axis=0)) < z * standard_error)

    squared = np.sum(noise**2, axis=1)
    expected = (0.7**2 * np.sum((x - 0.5) ** 2) + 1.3**2) / b
    assert abs(squared.mean() - expected) < stats.norm.isf(LEVEL / 2) * squared.std(ddof=1) / np.sqrt(DRAWS)


@pytest.mark.parametrize("b", [2, 5, 32])
def test_the_batch_mean_has_the_law_of_an_explicit_average(b: int) -> None:
    source, x = oracle(2), np.array([2.0, -1.0])
    together = gradients(source, x, b)
    rng = np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], (DRAWS, b, 1))
    normals = rng.normal(0, np.sqrt(1 / 2), (DRAWS, b, 2))
    averaged = (0.7 * signs * (x - 0.5) + 1.3 * normals).mean(axis=1)
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [0.8, -0.6]]):
        assert stats.ks_2samp(together @ direction, averaged @ direction).pvalue > LEVEL


def test_without_gaussian_noise_the_law_is_the_scaled_binomial_itself() -> None:
    b = 6
    noise = gradients(oracle(1, B=1.0, G=0.0), np.array([1.5]), b)[:, 0]
    values, counts = np.unique(np.round((noise * b + b) / 2, 12), return_counts=True)
    assert values.tolist() == list(range(b + 1))
    assert stats.chisquare(counts, stats.binom.pmf(values, b, 0.5) * DRAWS).pvalue > LEVEL


def test_one_sample_at_two_points_differs_by_the_gradients_and_the_sign_times_the_move() -> None:
    source = oracle(3)
    with jax.enable_x64(True):
        sample = source.batch(source.draw(jax.random.key(5)), jnp.asarray(1))
        x, y = source.at(jnp.array([1.0, 2.0, 3.0])), source.at(jnp.array([0.0, 2.5, -1.0]))
        difference = np.asarray(source.grad(y, sample) - source.grad(x, sample))
        rho = float(sample.rho)
        expected = np.asarray(y.grad - x.grad) + 0.7 * rho * (y.x - x.x)
    assert rho in (-1.0, 1.0)
    np.testing.assert_allclose(difference, expected, rtol=0, atol=1e-14)


def test_without_growth_the_noise_does_not_depend_on_the_point() -> None:
    source = oracle(2, B=0.0)
    near, far = (gradients(source, np.full(2, place), 3, draws=50) for place in (0.5, 1e3))
    np.testing.assert_allclose(near, far, atol=1e-12)


def test_without_noise_the_gradient_is_exact() -> None:
    assert np.all(gradients(oracle(4, B=0.0, G=0.0), np.arange(4.0), 1, draws=10) == 0.0)


def test_a_batch_of_a_billion_has_almost_no_noise() -> None:
    assert np.abs(gradients(oracle(2), np.ones(2), 10**9, draws=1000)).max() < 1e-3
