"""Variational inference of a Gaussian against brute force: every u and w drawn, gradients by hand, in NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm import run, sgd
from gladstorm.problems import objectives, oracles
from gladstorm.problems.own_noise.variational_gaussian import WORDS, GaussianFamily
from two_points import DRAWS, Pair, at_two_points, require_same_law, stated

FLOOR = 0.3


def problem(word: str, dim: int) -> Any:
    rng = np.random.default_rng(dim)
    family = GaussianFamily(word, dim)
    start, center, precision = rng.normal(size=family.size), rng.normal(size=dim), np.geomspace(0.5, 2, dim)
    return objectives.VariationalGaussian(start, center, precision, FLOOR, family)


def entries(word: str, C: np.ndarray) -> np.ndarray:
    """The free entries of matrices, row by row: written out once more."""

    def columns(i: int) -> range:
        return {"full-rank": range(dim), "lower-triangular": range(i + 1)}.get(word, range(i, i + 1))

    dim = C.shape[-1]
    return np.stack([C[..., i, j] for i in range(dim) for j in columns(i)], axis=-1)


def matrix(word: str, dim: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    numbers = entries(word, np.arange(dim * dim).reshape(dim, dim))
    C = np.zeros(dim * dim)
    C[numbers] = x[dim:]
    return x[:dim], C.reshape(dim, dim)


def by_brute_force(objective: Any, x: Any, y: Any, b: int, draws: int = DRAWS) -> Pair:
    word, dim = objective.family.word, objective.family.dim
    rng = np.random.default_rng(b)
    sums = np.zeros((2, draws, objective.family.size))
    for _ in range(b):
        u, w = rng.normal(size=(2, draws, dim))
        for total, point in zip(sums, (x, y), strict=True):
            m, C = matrix(word, dim, point)
            r = objective.precision * (m + u @ C.T + FLOOR * w - objective.center)
            entropy = -np.linalg.inv(C @ C.T + FLOOR**2 * np.eye(dim)) @ C
            slopes = r[:, :, None] * u[:, None, :] + entropy
            total += np.concatenate([r, entries(word, slopes)], axis=1)
    return sums[0] / b, sums[1] / b


@pytest.mark.parametrize("b", [1, 7, 100])
@pytest.mark.parametrize("word", WORDS)
def test_a_batch_has_the_law_of_brute_force_at_one_point_and_at_two(word: str, b: int) -> None:
    objective = problem(word, 3)
    x, y = np.random.default_rng(1).normal(size=(2, objective.family.size))
    require_same_law(
        at_two_points(oracles.VariationalGaussianOracle(objective), x, y, b), by_brute_force(objective, x, y, b)
    )


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("word", WORDS)
def test_variance_and_mean_square_smoothness_are_within_one_percent_of_monte_carlo(word: str, dim: int) -> None:
    objective = problem(word, dim)
    oracle = oracles.VariationalGaussianOracle(objective)
    bg0, L0 = oracle.bg0, objective.constants.L0
    for x, y in np.random.default_rng(4).normal(size=(3, 2, objective.family.size)):
        at_x, at_y = by_brute_force(objective, x, y, 1, draws=300_000)
        (grad_x, variance), (grad_y, _) = stated(oracle, x), stated(oracle, y)
        noise_x, noise_y = at_x - grad_x, at_y - grad_y
        assert np.mean(np.sum(noise_x**2, axis=1)) == pytest.approx(variance, rel=0.01)
        assert variance <= bg0.B**2 * np.sum((x - bg0.anchor) ** 2) + bg0.G**2
        # The noise of a difference is that at anchor + (y − x) without what the floor adds.
        of_difference = stated(oracle, bg0.anchor + y - x)[1] - bg0.G**2
        assert np.mean(np.sum((noise_y - noise_x) ** 2, axis=1)) == pytest.approx(of_difference, rel=0.01)
        assert np.mean(np.sum((at_y - at_x) ** 2, axis=1)) <= 1.01 * (bg0.B**2 + L0**2) * np.sum((y - x) ** 2)


@pytest.mark.parametrize("word", WORDS)
def test_every_family_contains_the_target_and_is_worth_nothing_there(word: str) -> None:
    objective = problem(word, 3)
    blocks = np.eye(3) * np.sqrt(1 / objective.precision - FLOOR**2)
    optimum = np.concatenate([objective.center, entries(word, blocks)])
    with jax.enable_x64(True):
        assert float(objective.value(jnp.asarray(optimum))) == pytest.approx(0, abs=1e-14)
        assert np.asarray(objective.grad(jnp.asarray(optimum))) == pytest.approx(0, abs=1e-14)
        at_zero = np.asarray(objective.grad(jnp.asarray(oracles.VariationalGaussianOracle(objective).bg0.anchor)))
    assert not at_zero.any()  # a saddle, not a solution


def test_a_family_that_does_not_fit_gets_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"GaussianFamily: must be one of full-rank, .*; got 'sparse'"):
        GaussianFamily("sparse", 2)
    with pytest.raises(ValueError, match=r"GaussianFamily: must be one of full-rank, .*; got 'sparse'"):
        objectives.named("variational-gaussian:sparse")
    wide = objectives.VariationalGaussian(np.ones(2), np.ones(1), np.ones(1), 1.0, GaussianFamily("full-rank", 1))
    with pytest.raises(ValueError, match="floor must be < 1, the target's least deviation; got 1"):
        run(oracles.VariationalGaussianOracle(wide), sgd(0.1), steps=1)
    short = objectives.VariationalGaussian(np.ones(2), np.ones(2), np.ones(2), 0.5, GaussianFamily("full-rank", 2))
    with pytest.raises(ValueError, match="start, center and precision must have 6, 2 and 2 numbers"):
        run(oracles.VariationalGaussianOracle(short), sgd(0.1), steps=1)


def test_what_is_rejected_is_drawn_again_for_every_block_by_itself() -> None:
    """Zeros are rejected for sure; the χ² of the 4 samples beyond the first is then independent in each block."""
    oracle = oracles.VariationalGaussianOracle(problem("mean-field", 3))

    @jax.jit
    def squares(key: Any) -> Any:
        drawn = jax.tree.map(jnp.zeros_like, oracle.draw(key))._replace(key=jax.random.key_data(key))
        return 5 * oracle.batch(drawn, jnp.asarray(5)).uu.ravel()

    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(squares)(jax.random.split(jax.random.key(0), 4000)))
    assert found.mean(axis=0) == pytest.approx(4, abs=6 * np.sqrt(2 * 4 / 4000))
    assert np.abs(np.corrcoef(found.T) - np.eye(3)).max() < 6 / np.sqrt(4000)
