"""NIGT and NMARS in Optax: schedules, decay, bad gradients. tests/torch/test_parity.py compares their iterates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gladstorm.optax import by_layer, nigt, nmars, nsgdm
from optax_walks import assert_close, samples, walk


@pytest.fixture(autouse=True)
def _double() -> Any:
    with jax.enable_x64(True):
        yield


def test_without_its_correction_each_is_nsgdm() -> None:
    x, given = jnp.array([1.0, -2.0]), samples(6)
    plain, _ = walk(nsgdm(0.03, 0.0), x, given)
    for optimizer in (nigt(0.03, 0.0), nmars(0.03, 0.0), nmars(0.03, 0.0, scale=5.0)):
        assert_close(walk(optimizer, x, given)[0], plain, atol=1e-14)


def test_a_schedule_of_the_momentum_moves_the_parameters_ahead_by_the_next_one_and_a_decay_ends_at_x() -> None:
    def rate(k: Any) -> Any:
        return 0.1 * (1 - k / 4)

    def momentum(k: Any) -> Any:
        return 0.9 - 0.1 * k

    visited, states = walk(
        nigt(rate, momentum, norm="tensor"), jnp.array(3.0), jnp.zeros(5), at=lambda p, sample: 1 + 0 * p
    )
    x = 3.0
    for k, (params, state) in enumerate(zip(visited, states, strict=True)):
        x -= rate(k)
        beta = momentum(k + 1)
        np.testing.assert_allclose(params, x - beta / (1 - beta) * rate(k), rtol=1e-7)
        np.testing.assert_allclose(state.iterate, x, rtol=1e-7)
    assert states[-1].iterate == visited[-1]


@pytest.mark.parametrize("make", [nigt, nmars])
def test_decay_is_of_x_and_a_norm_is_that_of_each_leaf(make: Any) -> None:
    params = {"W": jnp.asarray(np.random.default_rng(0).normal(size=(3, 4))), "b": jnp.ones(2)}
    optimizer = make(0.1, 0.5, weight_decay=0.05, norm=by_layer)
    visited, states = walk(optimizer, params, samples(4))
    x = [state.iterate for state in states] if make is nigt else visited
    moved = jax.tree.map(lambda new, old: new - old + 0.1 * 0.05 * old, x[3], x[2])
    np.testing.assert_allclose(np.abs(moved["b"]), 0.1 / 4, rtol=1e-9)
    assert 0.68 * 0.1 < np.linalg.norm(moved["W"], 2) / (4 / 3) ** 0.5 < 1.21 * 0.1


@pytest.mark.parametrize("make", [nigt, nmars])
def test_after_a_gradient_that_is_not_finite_x_stays_and_the_next_begins_anew(make: Any) -> None:
    optimizer, params = make(0.1, 0.5), jnp.array([1.0, 2.0])
    visited, states = walk(optimizer, params, samples(3))
    bad, state = optimizer.update(jnp.array([np.nan, 1.0]), states[-1], visited[-1])
    before = states[-1].iterate if make is nigt else visited[-1]
    after = visited[-1] + bad
    assert_close(after, before, atol=1e-15)
    assert int(optax.tree_utils.tree_get(state, "skipped")) == 1
    fresh, _ = walk(optimizer, after, samples(3, seed=1))
    assert_close(walk(optimizer, after, samples(3, seed=1), state=state)[0], fresh, atol=1e-12)


def test_a_wrong_scale_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"^nmars: scale must be a number, finite and ≥ 0; got scale=-1"):
        nmars(0.1, scale=-1.0)
