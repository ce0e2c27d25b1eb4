"""Least squares on a stream against brute force: one sample after the other, in NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gladstorm import run, sgd
from gladstorm.problems import objectives, oracles
from gladstorm.problems.sampling import PER_LENGTH, lengths
from two_points import DRAWS, LEVEL, at_two_points, require_same_law, stated


def problem(dim: int, sigma: float = 0.7) -> Any:
    rng = np.random.default_rng(dim)
    start, optimum = rng.normal(size=(2, dim))
    return objectives.StreamingLeastSquares(start, optimum, np.geomspace(1, 0.1, dim), sigma)


def by_brute_force(objective: Any, x: Any, y: Any, b: int, draws: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(b)
    sums = np.zeros((2, draws, x.size))
    for _ in range(b):
        a, eps = rng.normal(size=(draws, x.size)) * np.sqrt(objective.spectrum), rng.normal(size=draws)
        measured = a @ objective.optimum + objective.sigma * eps
        for total, point in zip(sums, (x, y), strict=True):
            total += a * (a @ point - measured)[:, None]
    return sums[0] / b, sums[1] / b


@pytest.mark.parametrize("b", [1, 2, 7, 100])
@pytest.mark.parametrize("dim", [1, 4])
def test_a_batch_has_the_law_of_brute_force_at_one_point_and_at_two(dim: int, b: int) -> None:
    objective = problem(dim)
    x, y = np.random.default_rng(1).normal(size=(2, dim)) * 2
    require_same_law(
        at_two_points(oracles.StreamingLeastSquaresOracle(objective), x, y, b), by_brute_force(objective, x, y, b)
    )


@pytest.mark.parametrize("where", ["the solution", "one point"])
def test_a_batch_is_exact_where_its_directions_degenerate(where: str) -> None:
    objective = problem(3)
    y = np.ones(3)
    x = np.asarray(objective.optimum) if where == "the solution" else y
    require_same_law(
        at_two_points(oracles.StreamingLeastSquaresOracle(objective), x, y, 7), by_brute_force(objective, x, y, 7)
    )


@pytest.mark.parametrize("dim", [3, 30])
def test_variance_and_mean_square_smoothness_are_within_one_percent_of_monte_carlo(dim: int) -> None:
    objective = problem(dim)
    oracle = oracles.StreamingLeastSquaresOracle(objective)
    spectrum = np.asarray(objective.spectrum)
    for x, y in np.random.default_rng(2).normal(size=(3, 2, dim)) * 3:
        at_x, at_y = by_brute_force(objective, x, y, 1, draws=1_000_000 if dim == 3 else 200_000)
        exact, variance = stated(oracle, x)
        assert np.mean(np.sum((at_x - exact) ** 2, axis=1)) == pytest.approx(variance, rel=0.01)
        delta = y - x
        smooth = spectrum.sum() * (delta**2 @ spectrum) + 2 * delta**2 @ spectrum**2
        assert np.mean(np.sum((at_y - at_x) ** 2, axis=1)) == pytest.approx(smooth, rel=0.01)
        bg0 = oracle.bg0
        assert variance <= bg0.B**2 * np.sum((x - bg0.anchor) ** 2) + bg0.G**2
        assert smooth <= (bg0.B**2 + spectrum.max() ** 2) * np.sum(delta**2)


def test_the_constants_are_attained_along_the_largest_eigenvalue() -> None:
    oracle = oracles.StreamingLeastSquaresOracle(problem(3))
    bg0 = oracle.bg0
    assert stated(oracle, bg0.anchor + 5 * np.eye(3)[0])[1] == pytest.approx(bg0.B**2 * 25 + bg0.G**2)
    assert stated(oracle, bg0.anchor)[1] == pytest.approx(bg0.G**2)


def test_any_covariance_is_its_spectrum_in_the_coordinates_of_its_axes() -> None:
    half = np.random.default_rng(0).normal(size=(3, 3))
    covariance, optimum, start = half @ half.T, np.arange(3.0), np.ones(3)
    spectrum, axes = np.linalg.eigh(covariance)
    turned = objectives.StreamingLeastSquares(start @ axes, optimum @ axes, spectrum, 0.5)
    with jax.enable_x64(True):
        value = float(turned.value(jnp.asarray(turned.start)))
    assert value == pytest.approx((start - optimum) @ covariance @ (start - optimum) / 2 + 0.125)


def test_numbers_that_break_a_rule_get_one_sentence() -> None:
    negative = objectives.StreamingLeastSquares(np.ones(2), np.zeros(2), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="StreamingLeastSquares: spectrum must be finite and > 0"):
        run(oracles.StreamingLeastSquaresOracle(negative), sgd(0.1), steps=1)
    with pytest.raises(ValueError, match="a whole number ≥ 1"):
        run(oracles.StreamingLeastSquaresOracle(problem(2)), sgd(0.1, batch=0), steps=1)
    with pytest.raises(ValueError, match="the objective must be streaming-least-squares, whose noise this is; got Cau"):
        oracles.named("streaming-least-squares", objectives.named("cauchy"))


def test_without_label_noise_a_start_at_the_solution_stays_there() -> None:
    still = objectives.StreamingLeastSquares(np.ones(2), np.ones(2), np.ones(2), 0.0)
    record = run(oracles.StreamingLeastSquaresOracle(still), sgd(0.1, batch=5), steps=20, seeds=2)
    assert not record.grad_norm.any()
    assert not record.drift2.any()


@jax.jit
def _drawn(normals: Any, keys: Any, dims: Any) -> Any:
    return jax.vmap(lambda row, key: lengths(row[None], key, dims[None])[0])(normals, keys)


def drawn(normals: np.ndarray, dims: int) -> np.ndarray:
    """Lengths in so many dimensions, each made of a row of normals and of a key of its own."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(dims), len(normals))
        return np.asarray(_drawn(normals, keys, jnp.asarray(dims)))


@pytest.mark.parametrize("dims", [2, 3, 50])
def test_a_length_is_accepted_as_often_as_its_density_exceeds_that_of_what_is_proposed(dims: int) -> None:
    """Exactly: z proposes x(z), of density φ(z)/x'(z). A share c χ²(x) x'/φ of the proposals stays, all at z = 0."""
    z = np.linspace(-4, 4, 41)
    center = dims / 2 - 1 / 3
    root = 1 + z / np.sqrt(9 * center)
    z, root, proposed = z[root > 0], root[root > 0], 2 * center * root[root > 0] ** 3
    share = stats.chi2(dims).logpdf(proposed) + 2 * np.log(root) - stats.norm.logpdf(z)
    share = np.exp(share - share[np.abs(z) < 1e-9])
    assert share.max() == pytest.approx(1)
    asked = (share > 1e-5) & (share < 1 - 1e-5)
    assert asked.sum() > 20
    for hair, stays in ((-1e-6, True), (1e-6, False)):  # a uniform number below the share, and one above
        halves = np.sqrt(-np.log(share[asked] + hair))  # −(h² + h²)/2 is its logarithm
        found = drawn(np.stack([z[asked], halves, halves], axis=1), dims) ** 2
        np.testing.assert_array_equal(np.isclose(found, proposed[asked], rtol=1e-9), stays)


@pytest.mark.parametrize("dims", [1, 2, 3, 50, 10**6])
def test_lengths_of_normal_vectors_are_square_roots_of_chi_squares(dims: int) -> None:
    normals = np.random.default_rng(dims).normal(size=(DRAWS, PER_LENGTH))
    assert stats.kstest(drawn(normals, dims) ** 2, stats.chi2(dims).cdf).pvalue > LEVEL
    if dims == 1:
        np.testing.assert_allclose(drawn(normals, 1), np.abs(normals[:, 0]))
    else:  # rejected one and all: what is drawn then has the law, too
        rejected = np.zeros((DRAWS, PER_LENGTH))
        assert stats.kstest(drawn(rejected, dims) ** 2, stats.chi2(dims).cdf).pvalue > LEVEL
    assert not drawn(normals[:2], 0).any()
