"""A user's own problem: trees of data and of parameters, float64 throughout, and a record that survives its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm as gs
from gladstorm import Record, finite_sum, nsgdm, run, sgd
from gladstorm.core.parts import describe
from gladstorm.problems import objectives
from gladstorm.problems.functions import flatten

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
INPUTS, LABELS = RNG.normal(size=(12, 3)), RNG.integers(0, 2, 12)
START = {"in": {"W": RNG.normal(size=(4, 3)), "b": np.zeros(4)}, "out": RNG.normal(size=(2, 4))}


def network(x: Any, example: Any) -> Any:
    """The cross-entropy of a two-layer network on one example."""
    hidden = jnp.tanh(x["in"]["W"] @ example["input"] + x["in"]["b"])
    return -jax.nn.log_softmax(x["out"] @ hidden)[example["label"]]


def mean_loss(x: Any) -> Any:
    return jax.vmap(network, (None, 0))(x, {"input": INPUTS, "label": LABELS}).mean()


def saved(record: Record, path: Path) -> Record:
    record.save(path)
    return Record.load(path)


def test_the_example_of_the_guide_runs_and_survives_its_file(tmp_path: Path) -> None:
    guide = (ROOT / "docs/methods.md").read_text("utf-8").partition("## Finite sums")[2]
    lines = [line.removeprefix(">>> ") for line in guide.splitlines() if line.startswith(">>> ")]
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    record = run(names["oracle"], sgd(0.01), steps=20, seeds=2)
    loaded = saved(record, tmp_path / "runs.parquet")
    assert loaded.config == record.config
    np.testing.assert_array_equal(loaded.last, record.last)
    A, y, x = names["A"], names["y"], record.last[0, 0]
    assert record.value[0, 0, -1] == pytest.approx(np.mean((A @ x - y) ** 2), rel=1e-12)


@pytest.mark.parametrize(
    "data",
    [(INPUTS, LABELS), {"a": INPUTS, "b": {"c": LABELS}}, [INPUTS, (LABELS, LABELS > 0)], INPUTS, np.ones((5, 3, 2))],
    ids=["tuple", "dict", "nested", "array", "small array"],
)
def test_data_is_any_tree_and_is_described(data: Any) -> None:
    oracle = finite_sum(lambda x, example: x[0] * jnp.sum(jax.tree.leaves(example)[0]), data, start=[1.0])
    told = describe(oracle)["objective"]["data"]
    assert len(str(told)) < 400
    assert "sha256" in str(told)


def test_integers_of_the_data_stay_integers_and_other_numbers_are_float64() -> None:
    seen = {}

    def loss(x: Any, example: Any) -> Any:
        seen.update({name: value.dtype for name, value in example.items()})
        return x[example["label"]] * example["weight"] * example["known"]

    data = {"label": np.array([0, 1, 1], np.int32), "weight": np.ones(3, np.float32), "known": np.array([True] * 3)}
    oracle = finite_sum(loss, data, start=[3, 5])
    assert seen == {"label": np.int32, "weight": np.float64, "known": np.bool_}
    seen.clear()
    record = run(oracle, sgd(0.25, batch=3), steps=1)
    assert seen == {"label": np.int32, "weight": np.float64, "known": np.bool_}
    np.testing.assert_allclose(record.last[0, 0], [3 - 0.25 / 3, 5 - 0.25 * 2 / 3], rtol=1e-15)


def test_a_network_s_gradient_in_the_simulator_is_that_of_autodiff_on_the_tree(tmp_path: Path) -> None:
    oracle = finite_sum(network, {"input": INPUTS, "label": LABELS}, start=START)
    record = run(oracle, sgd(0.5, batch=12), steps=1, seeds=2)
    with jax.enable_x64(True):
        slope = jax.grad(mean_loss)(START)
        one = jax.tree.map(lambda x, g: np.asarray(x - 0.5 * g), START, slope)
        length = np.sqrt(sum(float(jnp.sum(g * g)) for g in jax.tree.leaves(slope)))
    assert record.grad_norm[0, 0, 0] == pytest.approx(length, rel=1e-12)
    for found in (record, saved(record, tmp_path / "network.parquet")):
        tree = found.tree("last")
        assert {name: array.shape for name, array in tree.items()} == {
            "in.W": (1, 2, 4, 3),
            "in.b": (1, 2, 4),
            "out": (1, 2, 2, 4),
        }
        np.testing.assert_allclose(tree["in.W"][0, 0], one["in"]["W"], rtol=1e-12)
        np.testing.assert_allclose(tree["in.b"][0, 1], one["in"]["b"], rtol=1e-12)
        np.testing.assert_allclose(tree["out"][0, 0], one["out"], rtol=1e-12)
    assert record.tree("sampled")["out"].shape == (1, 2, 2, 4)


def test_a_function_of_a_tree_is_an_objective_of_vectors() -> None:
    objective = objectives.from_function(mean_loss, START)
    assert objective.start.shape == (24,)
    assert objective.tree is not None
    with jax.enable_x64(True):
        found = objective.tree.unflatten(objective.grad(objective.tree.flatten(START)))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, jax.grad(mean_loss)(START))
    record = run(gs.BlumGladyshev(objective, 0.1, 0.1), nsgdm(0.1, 0.5), steps=3)
    assert record.tree()["in.W"].shape == (1, 1, 4, 3)


def test_a_number_and_a_vector_are_given_as_they_are_and_a_matrix_as_a_matrix() -> None:
    shapes = []

    def f(x: Any) -> Any:
        shapes.append(x.shape)
        return jnp.sum(x**2)

    starts: list[Any] = [2.0, [1, 2], (1.0, 2.0), np.ones(3), [[1.0, 2], [3, 4]], np.ones((2, 2))]
    for start in starts:
        objectives.from_function(f, start)
    assert list(dict.fromkeys(shapes)) == [(), (2,), (3,), (2, 2)]
    record = run(gs.BlumGladyshev(objectives.from_function(f, np.ones(3)), 0.0, 0.0), sgd(0.1), steps=1)
    assert record.config["x"] == [{"name": "x", "shape": [3]}]
    np.testing.assert_array_equal(record.tree()["x"], record.last)


@pytest.mark.parametrize(
    ("start", "got"),
    [
        (1j, "complex128"),
        ({"a": np.ones(2, complex)}, "complex128"),
        ({}, "nothing"),
        ({"a": "x"}, "<U1"),
        ({"a": np.array([1.0, np.nan])}, "nan"),
        ([[1.0], [1.0, 2.0]], "lists of different lengths"),
    ],
)
def test_a_start_that_is_no_tree_of_finite_numbers_is_refused(start: Any, got: str) -> None:
    with pytest.raises(ValueError, match=f"mine: start must be a vector of finite numbers.*{got}"):
        flatten("mine", start)


def test_captured_numpy_arrays_count_in_float64() -> None:
    M = RNG.normal(size=(3, 3))
    objective = objectives.from_function(lambda z: jnp.sum((M @ z - M[0]) ** 2), np.ones(3))
    record = run(gs.BlumGladyshev(objective, 0.0, 0.0), sgd(0.01), steps=1)
    step = 0.01 * 2 * M.T @ (M @ np.ones(3) - M[0])
    np.testing.assert_allclose(record.last[0, 0], 1 - step, rtol=1e-14)
    with jax.enable_x64(True):
        wide = jnp.asarray(M)
    same = objectives.from_function(lambda z: jnp.sum((wide @ z - wide[0]) ** 2), np.ones(3))
    again = run(gs.BlumGladyshev(same, 0.0, 0.0), sgd(0.01), steps=1)
    np.testing.assert_allclose(again.last, record.last, rtol=1e-14)


def test_data_that_a_float32_program_has_captured_still_counts_in_float64() -> None:
    inputs = RNG.normal(size=(12, 3))
    program = jax.jit(lambda x: inputs @ x)
    program(jnp.ones(3))  # as long as it lives, JAX remembers this very array in float32

    def half_square(x: Any, example: Any) -> Any:
        return (example @ x) ** 2 / 2

    record = run(finite_sum(half_square, inputs, start=np.ones(3)), sgd(0.1, batch=12), steps=1)
    expected = 1 - 0.1 * inputs.T @ (inputs @ np.ones(3)) / 12
    np.testing.assert_allclose(record.last[0, 0], expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: None, "function must return one number; got None"),
        (lambda x: x, r"function must return one number; got an array of shape \(2,\)"),
        (lambda x: (x[0], x[1]), "function must return one number; got a tuple"),
        (lambda x: x[0] * 1j, "function must return one real number; got one of type complex128"),
        (lambda x: 3, "function must return one real number; got one of type int64"),
        (lambda x: np.sum(np.asarray(x)), "function must be written with jax.numpy"),
        (lambda x: x[0] if x[0] > 0 else x[1], "function must be written with jax.numpy"),
    ],
)
def test_a_function_that_is_no_objective_is_refused(function: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"from_function: {sentence}") as error:
        objectives.from_function(function, [1.0, 2.0])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "bad", [np.array(["a", "b"]), np.ones(2, complex), np.array([object(), object()]), "ab", object()]
)
def test_data_that_are_no_numbers_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="finite_sum: data must be arrays of real numbers"):
        finite_sum(lambda x, e: x[0], {"rows": bad}, start=[1.0])


def test_lists_in_place_of_arrays_are_refused_with_the_way_out() -> None:
    with pytest.raises(
        ValueError, match=r"one example per row and as many rows in each, np.array\(…\) of lists; got \[\(\), \(\)"
    ):
        finite_sum(lambda x, e: x[0], ([1.0, 2.0], [3.0, 4.0]), start=[1.0])
