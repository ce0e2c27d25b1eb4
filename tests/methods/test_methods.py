"""Each recursion equals the hand-unrolled one on the same noise; parts obey their laws."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gladstorm import BlumGladyshev, Method, nsgdm, nstorm, run, sgd, storm, sweep
from gladstorm.core.parts import part
from gladstorm.methods.batches import FastestBatch, FirstLarge, GrowWithDistance, GrowWithNoise
from gladstorm.methods.norms import unit
from gladstorm.problems import objectives
from unrolled import unrolled

STEPS = 200
B, G, GAMMA, ETA = 0.6, 0.9, 0.03, 0.15


def grown(k: int, distance2: float) -> int:
    return max(1, int(np.ceil((B**2 * distance2 + G**2) / 0.01)))


CASES: dict[str, tuple[Method, str, Callable[[int, float], int]]] = {
    "nsgdm": (nsgdm(GAMMA, ETA), "nsgdm", lambda k, d: 1),
    "nsgdm, batch 5": (nsgdm(GAMMA, ETA, batch=5), "nsgdm", lambda k, d: 5),
    "nsgdm, grown": (nsgdm(GAMMA, ETA, batch=GrowWithDistance(B, G, 0.01)), "nsgdm", grown),
    "nstorm": (nstorm(GAMMA, ETA, n_init=7), "nstorm", lambda k, d: 1 if k else 7),
    "nstorm, grown": (
        nstorm(GAMMA, ETA, n_init=3, batch=GrowWithDistance(B, G, 0.01)),
        "nstorm",
        lambda k, d: grown(k, d) if k else 3,
    ),
    "sgd": (sgd(GAMMA), "sgd", lambda k, d: 1),
    "sgd, capped": (sgd(GAMMA, batch=GrowWithDistance(B, G, 0.01, cap=90)), "sgd", lambda k, d: min(90, grown(k, d))),
    "storm": (storm(GAMMA, ETA), "storm", lambda k, d: 1),
    "storm, grown": (storm(GAMMA, ETA, batch=GrowWithDistance(B, G, 0.01)), "storm", grown),
}


@pytest.mark.parametrize(
    ("case", "spec"),
    [
        *((case, "double-well") for case in CASES),
        ("nsgdm", "phase-retrieval:40"),
        ("storm, grown", "phase-retrieval:40"),
    ],
)
def test_the_run_is_the_hand_unrolled_recursion(case: str, spec: str) -> None:
    method, name, size = CASES[case]
    objective = objectives.named(spec, dim=3, start=1.0)
    record = run(BlumGladyshev(objective, B, G), method, steps=STEPS, seeds=[11, 4])

    def grad(x: np.ndarray) -> Any:
        with jax.enable_x64(True):
            return np.asarray(objective.grad(x))

    for row, seed in enumerate([11, 4]):
        by_hand = unrolled(name, grad, objective.start, B, G, STEPS, seed, gamma=GAMMA, eta=ETA, size=size)
        exact = np.array([grad(x) for x in by_hand.x])
        norms = np.linalg.norm(exact, axis=1)
        at = record.steps
        np.testing.assert_allclose(record.last[0, row], by_hand.x[-1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(record.grad_norm[0, row], norms[at], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(record.drift2[0, row], [np.sum((by_hand.x[k] - 1) ** 2) for k in at], atol=1e-12)
        errors = np.linalg.norm(np.array(by_hand.v) - exact, axis=1)
        np.testing.assert_allclose(record.error[0, row], errors[at], rtol=1e-11, atol=1e-12)
        assert record.batch[0, row].tolist() == [by_hand.batch[k] for k in at]
        assert record.max_batch[0, row, -1] == max(by_hand.batch)
        assert record.sfo[0, row].tolist() == [by_hand.sfo[k] for k in at]
        np.testing.assert_allclose(record.mean_grad_norm[0, row, -1], norms.mean(), rtol=1e-12)
        np.testing.assert_allclose(record.mean_error[0, row, -1], errors.mean(), rtol=1e-11)
        np.testing.assert_allclose(record.best_grad_norm[0, row, -1], norms.min(), rtol=1e-12, atol=1e-13)
        sampled = by_hand.x[record.sampled_step[row]]
        np.testing.assert_allclose(record.sampled[0, row], sampled, rtol=0, atol=1e-12)


# On the same objective as above: most of these find their program compiled.


def double_well(B: float = B, G: float = G) -> BlumGladyshev:
    return BlumGladyshev(objectives.named("double-well", dim=3, start=1.0), B, G)


def test_without_noise_storm_is_gradient_descent_whatever_eta() -> None:
    for eta in (1.0, 0.2):
        record = run(double_well(0.0, 0.0), nstorm(GAMMA, eta), steps=50)
        assert record.error.max() < 1e-14


def test_the_paper_s_counts_of_stochastic_gradients() -> None:
    for method, expected in [
        (nsgdm(GAMMA, ETA), STEPS + 1),
        (sgd(GAMMA), STEPS + 1),
        (nstorm(GAMMA, ETA, n_init=4), 4 + 2 * STEPS),
        (nstorm(GAMMA, ETA), 1 + 2 * STEPS),
    ]:
        assert run(double_well(), method, steps=STEPS, seeds=2).sfo[0, :, -1].tolist() == [expected] * 2


unit_length = jax.jit(lambda v: jnp.linalg.norm(unit(v)))  # op by op there would be many more programs to compile


@given(st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), min_size=1, max_size=5))
def test_a_normalized_step_has_length_gamma_unless_v_is_zero(entries: list[float]) -> None:
    with jax.enable_x64(True):
        length = float(unit_length(np.array(entries)))
    assert length == pytest.approx(1.0 if any(entries) else 0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("distance2", "expected"), [(0.0, 4), (3.99, 8), (4.0, 8), (4.01, 9), (1e30, 1000), (float("inf"), 1000)]
)
def test_the_batch_grows_with_the_squared_distance_to_its_cap(distance2: float, expected: int) -> None:
    with jax.enable_x64(True):
        assert int(GrowWithDistance(B=1.0, G=2.0, sigma2=1.0, cap=1000)(0, distance2)) == expected


def test_the_batch_is_never_below_one_and_the_first_may_be_large() -> None:
    rule = FirstLarge(9, GrowWithDistance(B=0.0, G=0.0, sigma2=1.0))
    assert [int(rule(k, 5.0)) for k in (0, 1, 2)] == [9, 1, 1]


@pytest.mark.parametrize(("octaves", "grown"), [(-0.3, 16), (0.3, 32)])
def test_batches_that_measure_find_the_critical_one(octaves: float, grown: int) -> None:
    f, still = objectives.named("cauchy", dim=50, start=1.0), 1e-12
    length = run(BlumGladyshev(f, 0.0, 0.0), sgd(still), steps=1).grad_norm[0, 0, 0]
    G = length * 8 * 2**octaves  # √B: √(64B) is 64 but for these octaves, and θB is 32 but for twice as many
    methods = {"fastest": sgd(still, batch=FastestBatch(worth=64)), "grown": sgd(still, batch=GrowWithNoise())}
    record = sweep(BlumGladyshev(f, 0.0, G), methods, steps=400, seeds=3, records=401)
    for name, reached in (("fastest", 64), ("grown", grown)):
        batch = record[name].batch[0].astype(float)
        assert batch[:, -1].tolist() == [reached] * 3
        assert batch[:, 0].tolist() == [2] * 3
        assert record[name].sfo[0, :, -1].tolist() == batch.sum(axis=1).tolist()
        assert np.mean(record[name].error[0] ** 2 * batch) == pytest.approx(G**2, rel=0.05)  # two halves make one batch
    with pytest.raises(ValueError, match=r"^FirstLarge: its rules must not measure, .* got GrowWithNoise"):
        run(BlumGladyshev(f, 0.0, G), sgd(still, batch=FirstLarge(9, GrowWithNoise())), steps=1)


def test_a_compiled_program_is_that_of_the_part_it_is_given() -> None:
    @jax.jit
    def length_of_name(part: Any) -> Any:
        return jnp.array(len(type(part).__name__))

    # With jax.tree_util.register_dataclass one in eight of these meets another's program.
    made: list[Any] = [part(type("P" + "x" * i, (), {"__annotations__": {"number": float}})) for i in range(60)]
    assert [int(length_of_name(cls(1.0))) for cls in made] == [len(cls.__name__) for cls in made]
