"""The step that finds its own length: what it does not depend on, how far it goes, and where others are not defined."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm import BlumGladyshev, run, steered_landing, sweep
from gladstorm.methods import steered
from gladstorm.methods.steps import Steered
from gladstorm.methods.steps.steered import Course
from gladstorm.problems import objectives

STEP = Steered()
NEAR = np.array([0.4, -0.3])


def walk(gradients: Any, x: Any = NEAR, step: Steered = STEP) -> tuple[np.ndarray, list[Course]]:
    """The points a step visits when it is fed these gradients, and what it remembers at each."""
    with jax.enable_x64(True):
        x, memory = jnp.asarray(x), step.init(jnp.asarray(x))
        points, courses = [x], [memory]
        for g in gradients:
            x, memory = step.move(memory, x, jnp.asarray(g), lambda x: jnp.sum(x))
            points.append(x)
            courses.append(memory)
    return np.array(points), courses


def noise(steps: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(3).standard_t(1.5, (steps, 2))  # without a variance


@pytest.mark.parametrize("factor", [2.0**-600, 2.0**-20, 2.0**300])
def test_a_multiple_of_f_moves_to_the_same_points(factor: float) -> None:
    points, _ = walk(noise(40))
    scaled, _ = walk(noise(40, factor))
    np.testing.assert_array_equal(scaled, points)


def test_a_multiple_of_x_changes_the_first_length_only_by_the_one_beside_the_norm() -> None:
    # r⁰ = 0.1 (1 + ‖x⁰‖) is no multiple; with ρ that makes it one, the whole walk is.
    points, courses = walk(noise(40))
    twice, _ = walk(noise(40), 2 * NEAR, Steered(first=2 * float(courses[0].r) / (1 + 2 * np.linalg.norm(NEAR))))
    np.testing.assert_allclose(twice, 2 * points, rtol=1e-12)
    assert walk(noise(40), 2 * NEAR)[0].tolist() != twice.tolist()


def test_a_rotation_of_x_rotates_the_walk() -> None:
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2)))
    np.testing.assert_allclose(walk(noise(40) @ turn.T, turn @ NEAR)[0], walk(noise(40))[0] @ turn.T, rtol=1e-10)


def test_in_one_dimension_it_walks_as_along_a_line_in_space() -> None:
    along = np.array([0.6, -0.8])
    sizes, start = noise(40)[:, :1], np.array([0.5])
    line, courses = walk(sizes, start)
    np.testing.assert_allclose(walk(sizes * along, start * along)[0], line * along, rtol=1e-10)
    # There every cosine is 1 or −1, so that each step is judged as certain as any can be.
    assert [float(each.certainty) for each in courses] == [10.0, *range(10, 50)]


def test_no_step_is_longer_than_the_distance_travelled_by_a_root_of_the_reversals() -> None:
    points, courses = walk(noise(200))
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    limits = np.array([float(each.r) * (float(each.n) + 1) ** -0.25 for each in courses[1:]])
    assert (lengths <= limits * (1 + 1e-12)).all()
    assert (lengths > limits * (1 - 1e-12)).any()  # and the bound is met


def test_length_stays_between_its_limits_and_meets_both() -> None:
    _, courses = walk(noise(400))
    n, r = (np.array([float(getattr(each, name)) for each in courses[1:]]) for name in ("n", "r"))
    share = np.log(np.exp([float(each.log_length) for each in courses[1:]]) / r)
    assert (share <= -0.5 * np.log(n + 1) + 1e-12).all()
    assert (share >= -np.log(n + 1) - 1e-12).all()
    steady = [np.array([1.0, 0.0]), np.array([-1.0, 0.0])] * 30  # always back
    down = walk(steady)[1][-1]
    assert float(down.log_length) == pytest.approx(np.log(float(down.r) / (float(down.n) + 1)))


def test_reversals_are_counted_twice_agreement_not_and_doubling_forgets() -> None:
    right, left = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    there = [right, right, left, left, right]  # the mean turns with the third
    assert [float(each.n) for each in walk(there)[1]] == [0, 0, 0, 2, 2, 4]
    away = walk([right] * 12)[1]
    assert {float(each.n) for each in away} == {0}
    assert float(away[-1].r) > 2 * float(away[0].r)
    after = walk([right, left, *[right] * 30])[1]
    assert float(after[3].n) > 0 == float(after[-1].n)


def test_nothing_moves_where_the_gradient_is_zero() -> None:
    points, courses = walk(np.zeros((3, 2)))
    np.testing.assert_array_equal(points, np.tile(NEAR, (4, 1)))
    assert float(courses[-1].n) == 0
    points, _ = walk([np.zeros(2), np.ones(2)])  # and it begins when there is one
    assert np.isfinite(points).all()
    assert (points[2] < points[1]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_as_if_it_had_not_been(bad: float) -> None:
    given = noise(6)
    points, courses = walk([*given[:3], [bad, 1.0], *given[3:]])
    without, clean = walk(given)
    np.testing.assert_array_equal(np.delete(points, 4, axis=0), without)
    np.testing.assert_array_equal(points[4], points[3])
    assert [float(a) for a in courses[-1][1:8]] == [float(a) for a in clean[-1][1:8]]


OTHER_NUMBERS = Steered(0.7, first=0.2, width=1.2, widening=0.4, gain=0.6, least=0.9, most=0.3, agreeing=0.25)


def by_hand(gradients: Any, s: Any, x: Any = NEAR) -> np.ndarray:
    """The equations of the docstring in NumPy, with the numbers of a step, `agreeing` added to n by what agrees."""
    start, m, n, S, usual, points = x, np.zeros_like(x), 0.0, 10.0, 0.0, [x]
    r = mark = s.first * (1 + np.linalg.norm(x))
    log_length = np.log(r)
    for k, v in enumerate(gradients):
        size, r = np.linalg.norm(v), max(r, np.linalg.norm(x - start))
        c = v @ m / (size * np.linalg.norm(m)) if k else 0.0
        n += 2 - s.agreeing if c < 0 else s.agreeing if k else 0.0
        if r > 2 * mark:
            n, mark = 0.0, r
        S += c**2
        low, high = (np.log(r) - power * np.log(n + 1) for power in (s.least, s.most))
        log_length = min(max(log_length + s.gain * c / np.sqrt(S), low), high)
        usual += (size - usual) / np.sqrt(k + 1)
        u = v / max(s.width * usual, size / (n + 1) ** s.widening)
        m, x = m + (u - m) / np.sqrt(k + 1), x - s.gamma * np.exp(log_length) * u
        points.append(x)
    return np.array(points)


@pytest.mark.parametrize("step", [STEP, OTHER_NUMBERS], ids=["defaults", "others"])
def test_a_walk_is_the_recursion_by_hand_with_any_numbers_and_outliers_at_reversals(step: Steered) -> None:
    given = [*noise(4), *np.tile([0.5, 0.2], (60, 1)), [-40.0, 30.0], [50.0, -60.0], *noise(20)]
    walked, courses = walk(given, step=step)
    np.testing.assert_allclose(walked, by_hand(given, step), rtol=1e-9)
    n = np.array([float(each.n) for each in courses])
    assert n.max() > 4
    assert (np.diff(n) < 0).any()  # it was far enough for reversals to be forgotten


def test_from_the_origin_the_first_length_is_a_tenth() -> None:
    points, _ = walk([[0.0, 2.0]], np.zeros(2))
    np.testing.assert_allclose(points[1], [0.0, -0.1 / 1.5])


def test_x_may_be_a_tree() -> None:
    with jax.enable_x64(True):
        x: Any = {"a": jnp.array([0.4]), "b": jnp.array([[-0.3]])}
        memory = STEP.init(x)
        for g in noise(5):
            x, memory = STEP.move(
                memory, x, {"a": jnp.asarray(g[:1]), "b": jnp.asarray(g[1:, None])}, lambda _: jnp.zeros(())
            )
    assert sorted(x) == ["a", "b"]
    np.testing.assert_allclose([x["a"][0], x["b"][0, 0]], walk(noise(5))[0][-1], rtol=1e-14)


ORACLE = BlumGladyshev(objectives.named("quadratic", dim=2, start=30.0), B=0.1, G=1.0)


def test_a_run_of_one_step_takes_a_whole_step() -> None:
    record = run(ORACLE, steered_landing(), steps=1)
    r = 0.1 * (1 + np.linalg.norm(ORACLE.objective.start))
    assert np.sqrt(record.drift2[0, 0, -1]) == pytest.approx(r / 1.5)


def test_both_forms_arrive_from_afar_and_the_one_that_lands_ends_nearer() -> None:
    record = sweep(ORACLE, {"landing": steered_landing(), "anytime": steered()}, steps=2000, seeds=8)
    first, last = record.grad_norm[..., 0].mean(1), record.reported_grad_norm[..., -1].mean(1)
    assert (last < 0.01 * first).all()
    landing, anytime = record.grad_norm[..., -1].mean(1)
    assert landing < anytime / 2
