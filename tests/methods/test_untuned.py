"""The step with nothing to tune: what it does not depend on, how far it goes, and where others are not defined."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unrolled_parameter_free as by_hand
from gladstorm import BlumGladyshev, finite_sum, run, sweep, untuned
from gladstorm.methods.steps import Untuned
from gladstorm.methods.steps.untuned import UntunedState
from gladstorm.problems import objectives

NEAR = np.array([0.4, -0.3])
ORACLE = BlumGladyshev(objectives.named("power:3", dim=4), B=0.5, G=0.5)


def walk(
    gradients: Any, x: Any = NEAR, step: Untuned | None = None, *, x64: bool = True
) -> tuple[np.ndarray, list[UntunedState]]:
    """The points a step visits when it is fed these gradients, and what it remembers at each."""
    with jax.enable_x64(x64):
        step = step or Untuned(steps=float(max(len(gradients), 1)))
        x, memory = jnp.asarray(x), step.init(jnp.asarray(x))
        points, journeys = [x], [memory]
        for g in gradients:
            x, memory = step.move(memory, x, jnp.asarray(g), lambda x: jnp.sum(x))
            points.append(x)
            journeys.append(memory)
    return np.array(points), journeys


def noise(steps: int, scale: float = 1.0, dim: int = 2) -> np.ndarray:
    return scale * np.random.default_rng(3).standard_t(1.5, (steps, dim))  # without a variance


@pytest.mark.parametrize("factor", [2.0**-600, 2.0**-20, 2.0**300])
def test_a_multiple_of_f_moves_to_the_same_points(factor: float) -> None:
    points, _ = walk(noise(60))
    scaled, _ = walk(noise(60, factor))
    np.testing.assert_allclose(scaled, points, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_in_single_precision_it_takes_gradients_of_any_size(size: float) -> None:
    points, _ = walk(noise(60).astype(np.float32), NEAR.astype(np.float32), x64=False)
    scaled, _ = walk(noise(60, size).astype(np.float32), NEAR.astype(np.float32), x64=False)
    assert points.dtype == np.float32
    np.testing.assert_allclose(scaled, points, rtol=2e-4, atol=1e-6)


def test_no_step_is_longer_than_the_way_so_far() -> None:
    points, journeys = walk(noise(200, dim=3), np.ones(3))
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    r = np.array([float(each.r) for each in journeys[1:]])
    assert (lengths <= r).all()
    assert (np.diff(r) >= 0).all()
    first = walk([[3.0, -4.0]], step=Untuned(steps=1.0, decay=0.0, share=1.0))
    np.testing.assert_allclose(first[0][1] - first[0][0], 0.01 * 1.5 / np.sqrt(2) * np.array([-1, 1]))  # it is met


@pytest.mark.parametrize("steps", [100, 10_000])
def test_the_way_so_far_grows_as_fast_as_the_length_of_the_run_allows_while_gradients_agree(steps: int) -> None:
    _, agree = walk(np.tile([1.0, -2.0], (40, 1)), step=Untuned(steps=float(steps)))
    r = np.array([float(each.r) for each in agree])
    allowed = np.cumprod(1 + 8 / np.sqrt(steps * np.arange(1, 41)))
    assert (r[1:] <= r[0] * allowed * (1 + 1e-12)).all()
    assert allowed[-1] <= np.exp(16 * np.sqrt(40 / steps))  # paper/proofs/upper_bounds.md
    if steps == 10_000:  # as fast as is allowed, once the average has come as far as r
        np.testing.assert_allclose(r[11:] / r[10:-1], 1 + 8 / np.sqrt(steps * np.arange(11, 41)))
    else:
        assert r[-1] > 100 * r[0]


def test_the_clock_waits_while_steps_agree_hurries_while_they_turn_back() -> None:
    agree, back, chance = (
        [float(each.clock) for each in walk(given)[1]]
        for given in (
            np.tile([1.0, -2.0], (400, 1)),
            np.array([[1.0, 1.0], [-1.0, -1.0]] * 200),
            np.random.default_rng(1).normal(size=(400, 2)),
        )
    )
    assert agree[100] < 0.05 < chance[100] < back[100]
    assert back[200] > 0.9
    assert chance[-1] >= 1
    for clock in (agree, back, chance):
        assert (np.diff(clock) >= 0).all()


def test_nothing_moves_where_the_gradient_is_zero() -> None:
    points, journeys = walk(np.zeros((3, 2)))
    np.testing.assert_array_equal(points, np.tile(NEAR, (4, 1)))
    assert float(journeys[-1].k) == 3
    points, _ = walk([np.zeros(2), np.ones(2)])  # and it begins when there is one
    assert np.isfinite(points).all()
    assert (points[2] < points[1]).all()


def test_a_coordinate_whose_gradient_is_always_zero_stays() -> None:
    points, _ = walk(noise(30) * [1.0, 0.0])
    np.testing.assert_array_equal(points[:, 1], NEAR[1])
    assert np.isfinite(points).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_counted_and_x_goes_half_the_way_back(bad: float) -> None:
    points, journeys = walk([*noise(5), [bad, 1.0], *noise(5)])
    np.testing.assert_allclose(points[6], (points[5] + np.asarray(journeys[5].average)) / 2)
    assert np.isfinite(points).all()
    assert [float(each.skipped) for each in journeys] == [0.0] * 6 + [1.0] * 6
    kept = [name for name in UntunedState._fields if name not in ("motion", "k", "skipped")]
    for name in kept:
        np.testing.assert_array_equal(getattr(journeys[6], name), getattr(journeys[5], name))
    assert np.all(journeys[5].motion)
    assert not np.any(journeys[6].motion)  # the next step does not repeat what led there
    lost, _ = walk([[bad, bad]] * 20)
    np.testing.assert_array_equal(lost, np.tile(NEAR, (21, 1)))


def test_a_first_gradient_that_is_not_finite_leaves_the_next_to_begin() -> None:
    points, journeys = walk([[np.nan, 1.0], *noise(10)])
    assert np.isfinite(points).all()
    assert float(journeys[2].size) == pytest.approx(np.linalg.norm(noise(1)[0]))


@pytest.mark.parametrize(
    "numbers", [{}, {"gamma": 0.7, "first": 0.2, "decay": 0.6, "share": 0.3}], ids=["defaults", "others"]
)
@pytest.mark.parametrize("dim", [1, 3])
def test_a_walk_is_the_recursion_by_hand(dim: int, numbers: dict[str, float]) -> None:
    down = np.tile(np.linspace(0.5, 1, dim), (60, 1))
    given = [*noise(4, dim=dim), *down, -80 * down[0], 90 * down[0], *noise(40, dim=dim)]
    walked, journeys = walk(given, np.ones(dim), Untuned(steps=float(len(given)), **numbers))
    recursion = by_hand.Untuned(len(given), **numbers)
    expected = [np.ones(dim)]
    for k, g in enumerate(given):
        expected.append(recursion(k, expected[-1], np.asarray(g)))
    np.testing.assert_allclose(walked, expected, rtol=1e-9)
    z = np.array([float(each.z) for each in journeys])
    assert z.max() > 1.5  # it has waited
    assert z.min() < 0.4  # and hurried


@pytest.mark.parametrize("steps", [0, 1])
def test_the_shortest_runs(steps: int) -> None:
    record = run(ORACLE, untuned(), steps=steps)
    assert np.isfinite(record.reported).all()
    assert record.sfo[0, 0, -1] == steps + 1


def test_a_run_that_is_told_its_length_lands_and_a_multiple_of_gamma_multiplies_its_first_step() -> None:
    record = sweep(ORACLE, {"once": untuned(), "twice": untuned(2.0)}, steps=2000, seeds=8)
    assert np.isfinite(record.reported).all()
    assert (record.mean_grad_norm[:, :, -1] < 0.1 * record.mean_grad_norm[:, :, 0]).all()


def test_the_loss_of_a_trained_model_rises_by_no_more_than_a_tenth_in_twenty_steps_in_the_mean() -> None:
    """With gradients of one example: of 288 runs a few rise further, as they did while r grew without a limit."""

    def loss(x: Any, example: Any) -> Any:
        a, y = example
        return (jnp.tanh(a @ x) - y) ** 2 / 2

    rises = []
    for seed, (dim, examples) in enumerate([(2, 40), (40, 400)] * 3):  # two shapes: programs are shared
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(examples, dim))
        targets = np.tanh(features @ rng.normal(size=dim)) + 0.3 * rng.normal(size=examples)
        start = rng.normal(size=dim)
        trained = run(finite_sum(loss, (features, targets), start), untuned(), steps=4000).reported[0, 0]
        again = finite_sum(loss, (features, targets), trained)
        record = sweep(again, {"untuned": untuned()}, steps=400, seeds=48, records=401)
        values = record.value[0, :, :21]
        assert (values.mean(axis=0) <= 1.1 * values[0, 0]).all(), dim
        rises += (values.max(axis=1) / values[:, 0]).tolist()
    assert np.mean(np.array(rises) > 1.1) < 0.05
    assert max(rises) < 1.25
