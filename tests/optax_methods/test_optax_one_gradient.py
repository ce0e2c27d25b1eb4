"""NIGT and NMARS: the simulator, Optax and NumPy by hand visit the same points on the same noise, in float64."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gladstorm as gs
import unrolled_family as by_hand
from gladstorm.optax import by_layer, nigt, nmars, nsgdm
from optax_walks import assert_close, samples, walk
from unrolled import Batch, noise
from whole_step import begun, whole_step

STEPS, SEED, B, G, GAMMA, ETA, SCALE = 60, 11, 0.6, 0.9, 0.03, 0.15, 0.4
OBJECTIVE = gs.objectives.named("double-well", dim=5, start=1.0)
ORACLE, START = gs.BlumGladyshev(OBJECTIVE, B, G), np.asarray(OBJECTIVE.start)
OPTAX: dict[str, Any] = {"nigt": nigt(GAMMA, 1 - ETA), "nmars": nmars(GAMMA, 1 - ETA, scale=SCALE)}
METHODS = {"nigt": gs.methods.nigt(GAMMA, ETA), "nmars": gs.methods.nmars(GAMMA, ETA, scale=SCALE)}
BY_HAND: dict[str, Any] = {
    "nigt": lambda: by_hand.Transported(1 - ETA),
    "nmars": lambda: by_hand.LaggedMars(1 - ETA, SCALE, np.inf),
}
BOTH = pytest.mark.parametrize("name", OPTAX)


@pytest.fixture(autouse=True)
def _double() -> Any:
    with jax.enable_x64(True):
        yield


def exact(x: Any) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(OBJECTIVE.grad(x))


@cache
def expected(name: str) -> np.ndarray:
    def step(k: int, x: Any, v: Any) -> Any:
        return x - GAMMA * v / np.linalg.norm(v)

    def size(k: int, distance2: float, afresh: bool) -> int:
        return 1

    return np.array(by_hand.unrolled_family(BY_HAND[name](), step, exact, START, B, G, STEPS, SEED, size).x)


@BOTH
def test_every_iterate_of_the_simulator_is_that_by_hand(name: str) -> None:
    state = begun(ORACLE, METHODS[name], SEED, STEPS)
    visited = [state.point.x]
    for k in range(1, STEPS + 1):
        state = whole_step(ORACLE, METHODS[name], state, SEED, k, STEPS)
        visited.append(state.point.x)
    np.testing.assert_allclose(visited, expected(name), rtol=0, atol=1e-12)
    assert int(state.sfo) == STEPS + 1


@BOTH
def test_every_iterate_of_optax_is_that_by_hand_with_one_gradient_where_the_parameters_are(name: str) -> None:
    params = {"a": jnp.asarray(START[:2]), "b": jnp.asarray(START[2:])}
    state, visited = OPTAX[name].init(params), [START]
    for k in range(STEPS):
        sample = Batch(noise(SEED, k, START.size), 1, exact, START, B, G)
        g = sample(np.concatenate([*params.values()]))
        updates, state = OPTAX[name].update({"a": jnp.asarray(g[:2]), "b": jnp.asarray(g[2:])}, state, params)
        params = optax.apply_updates(params, updates)
        x = state.iterate if name == "nigt" else params
        visited.append(np.concatenate([*x.values()]))
    np.testing.assert_allclose(visited, expected(name), rtol=0, atol=1e-12)


def test_each_is_told_apart_by_far_and_without_its_correction_is_nsgdm() -> None:
    assert np.linalg.norm(expected("nigt") - expected("nmars"), axis=1)[2:].min() > 1e-6
    x, given = jnp.array([1.0, -2.0]), samples(6)
    plain, _ = walk(nsgdm(GAMMA, 0.0), x, given)
    for optimizer in (nigt(GAMMA, 0.0), nmars(GAMMA, 0.0), nmars(GAMMA, 0.0, scale=5.0)):
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
