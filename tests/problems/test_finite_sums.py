"""Finite sums: examples drawn with replacement by counts, exact gradients for the record, variance as measured."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gladstorm import Method, finite_sum, nstorm, run
from gladstorm.methods.estimators import Saga
from gladstorm.methods.steps import Plain
from gladstorm.problems import objectives
from gladstorm.problems.oracles import FiniteSum, measured_variance
from whole_step import begun, whole_step

N, DIM = 40, 3
SUM = FiniteSum(objectives.named(f"phase-retrieval:{N}", dim=DIM, start=1.0))


def weights(oracle: FiniteSum, size: int, draws: int) -> np.ndarray:
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), draws)
        return np.asarray(jax.vmap(lambda key: oracle.batch(oracle.draw(key), jnp.array(size)))(keys))


@pytest.mark.parametrize("size", [1, 5, 37])
def test_a_batch_is_drawn_with_replacement(size: int) -> None:
    counts = weights(SUM, size, 3000) * size
    np.testing.assert_allclose(counts.sum(1), size, rtol=1e-12)
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
    assert stats.chisquare(counts.sum(0)).pvalue > 1e-6  # every example as often as any other
    variance = size * (1 / N) * (1 - 1 / N)
    assert counts.var(0).mean() == pytest.approx(variance, rel=0.05)


def test_a_batch_of_constant_size_is_drawn_too() -> None:
    with jax.enable_x64(True):
        drawn = np.asarray(jax.jit(lambda key: SUM.batch(SUM.draw(key), jnp.ones((), int)))(jax.random.key(0)))
    assert drawn.sum() == 1.0


def test_a_batch_of_everything_is_the_exact_gradient_at_the_price_of_one_pass() -> None:
    assert np.all(weights(SUM, N, 3) == 1 / N)
    method = nstorm(1e-3, 0.1, n_init=10**6)
    with jax.enable_x64(True):
        state = begun(SUM, method, 0)
        assert np.linalg.norm(state.estimate - SUM.exact(state.point)) < 1e-12
        for k in (1, 2, 3):
            state = whole_step(SUM, method, state, 0, k)
    assert int(state.sfo) == N + 2 * 3


@pytest.mark.parametrize("oracle", [SUM, FiniteSum(objectives.named("dro:30", dim=4))], ids=["phase retrieval", "dro"])
def test_examples_and_samples_add_up_to_the_exact_gradient(oracle: FiniteSum) -> None:
    x = np.linspace(0.3, 1.2, oracle.objective.start.size)
    with jax.enable_x64(True):
        point = oracle.at(jnp.asarray(x))
        rows = np.asarray(oracle.examples(point))
        share = np.random.default_rng(0).dirichlet(np.ones(rows.shape[0]))
        np.testing.assert_allclose(rows.mean(0), oracle.exact(point), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(oracle.grad(point, jnp.asarray(share)), share @ rows, rtol=1e-10, atol=1e-12)


def test_the_measured_variance_is_the_variance_over_the_examples() -> None:
    points = np.array([[1.0, 1, 1], [2, -1, 0.5], [4, 4, 4]])
    distance, variance = measured_variance(SUM, points, draws=10_000)
    np.testing.assert_allclose(distance, np.linalg.norm(points - 1, axis=1))
    with jax.enable_x64(True):
        for x, found in zip(points, variance, strict=True):
            rows = np.asarray(SUM.examples(SUM.at(jnp.asarray(x))))
            assert found == pytest.approx(np.sum(rows.var(0)), rel=0.1)
    assert variance[2] > variance[0]


@pytest.mark.parametrize("points", [np.ones(2), np.ones((1, 99)), [["a"]]])
def test_points_that_are_no_rows_like_x_are_refused(points: Any) -> None:
    with pytest.raises(ValueError, match="measured_variance: points must be"):
        measured_variance(SUM, points)


def test_saga_is_the_hand_unrolled_recursion() -> None:
    record = run(SUM, Method(Saga(), Plain(0.02)), steps=40, seeds=[7])
    rows: Any = jax.jit(lambda x: SUM.examples(SUM.at(x)))
    weight_of: Any = jax.jit(lambda key: SUM.batch(SUM.draw(key), jnp.array(1)))
    with jax.enable_x64(True):
        x, table, v = np.ones(DIM), np.zeros((N, DIM)), np.zeros(DIM)
        for k in range(41):
            x = x - 0.02 * v if k else x
            key = jax.random.wrap_key_data(jnp.array([7, k], np.uint32), impl="threefry2x32")
            drawn = int(np.argmax(weight_of(key)))
            g = np.asarray(rows(jnp.asarray(x)))[drawn]
            v = g - table[drawn] + table.mean(0)
            table[drawn] = g
    np.testing.assert_allclose(record.last[0, 0], x, rtol=0, atol=1e-12)
    assert record.sfo[0, 0, -1] == 41


def test_a_user_s_loss_is_checked() -> None:
    with pytest.raises(ValueError, match="finite_sum: data must be arrays with one example per row"):
        finite_sum(lambda x, e: e[0], (np.ones(3), np.ones(2)), start=[1.0])
    with pytest.raises(ValueError, match=r"finite_sum: loss must return one number; got an array of shape \(1,\)"):
        finite_sum(lambda x, e: x, np.ones(3), start=[1.0])
