"""f and ∇f must be finite at x⁰: otherwise one sentence, before any work, wherever the problem is given."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm as gs
from gladstorm.problems import objectives

Said = Callable[..., tuple[int, str, str]]
ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, 6.0]])


def own(function: Callable[[Any], Any], start: Any) -> gs.BlumGladyshev:
    return gs.BlumGladyshev(objectives.from_function(function, start), B=0.1, G=0.1)


PROBLEMS = {
    "NaN": (own(lambda x: jnp.sum(jnp.log(x)), [-1.0, 2.0]), "FromFunction: .*; got f = nan. Start elsewhere"),
    "infinite": (own(lambda x: jnp.sum(1 / x), [1.0, 0.0]), "FromFunction: .*; got f = inf. Start elsewhere"),
    "a gradient": (own(lambda x: jnp.sum(jnp.sqrt(x)), [1.0, 0.0]), "FromFunction: .*; got ∇f = inf in a coordinate"),
    "data": (
        gs.finite_sum(lambda x, row: jnp.sum((row - x) ** 2), ROWS, np.zeros(2)),
        "PerExample: .*; got f = nan. Look at the data: the loss of example 2 is not finite",
    ),
    "of this package": (
        gs.BlumGladyshev(objectives.named("cosh", dim=2, start=1e4), B=0.1, G=0.1),
        "Cosh: .*; got f = inf",
    ),
}
RUNS: dict[str, Callable[..., Any]] = {
    "run": lambda oracle, **options: gs.run(oracle, gs.sgd(0.1), steps=3, **options),
    "sweep": lambda oracle, **options: gs.sweep(oracle, {"a": gs.sgd([0.1, 0.2])}, steps=3, **options),
    "one of many": lambda oracle, **options: gs.run(
        [_finite(oracle), oracle], gs.sgd(0.1), steps=3, seeds=2, **options
    ),
    "compare": lambda oracle, **options: gs.compare(oracle, {"a": gs.sgd([0.1, 0.2])}, budget=9, **options),
    "compare, from seeds": lambda oracle, **options: gs.compare(
        lambda seed: oracle, {"a": gs.sgd([0.1, 0.2])}, budget=9, **options
    ),
}


def _finite(oracle: Any) -> Any:
    """The same problem at a start where it is finite."""
    objective = oracle.objective
    fields = {"start": np.ones(2)} | ({"data": np.ones((3, 2))} if hasattr(objective, "data") else {})
    return replace(oracle, objective=replace(objective, **fields))


@pytest.mark.parametrize("way", RUNS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_start_that_is_not_finite_is_refused_before_any_work(problem: str, way: str, tmp_path: Path) -> None:
    oracle, sentence = PROBLEMS[problem]
    with pytest.raises(ValueError, match=sentence) as error:
        RUNS[way](oracle, store=tmp_path / "store")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("command", ["simulate --steps 3 --method sgd --gamma 0.1", "compare --budget 9 --method sgd"])
def test_the_command_line_says_so_in_a_sentence(gladstorm: Said, command: str) -> None:
    code, out, err = gladstorm(*command.split(), "--objective", "cosh", "--dim", "2", "--start", "1e4", "--quiet")
    assert (code, out) == (2, "")
    assert "Cosh: f and ∇f must be finite at the start; got f = inf." in " ".join(err.split())


def test_data_that_the_loss_does_not_read_may_be_nan() -> None:
    oracle = gs.finite_sum(lambda x, row: jnp.sum((jnp.where(jnp.isnan(row), x, row) - x) ** 2), ROWS, np.zeros(2))
    assert np.isfinite(gs.run(oracle, gs.sgd(0.01), steps=3).grad_norm).all()


def test_a_number_as_start_is_a_number_to_the_function_and_the_record() -> None:
    for start in (1.0, 2, np.float64(1.5), np.array(1.5)):
        objective = objectives.from_function(lambda x: x**2, start)
        assert objective.start.shape == (1,)
        assert objective.grad(jnp.array([3.0])).tolist() == [6.0]
    record = gs.run(own(lambda x: x**2, 1.0), gs.sgd(0.1), steps=3)
    assert record.config["x"] == [{"name": "x", "shape": []}]
    oracle = gs.finite_sum(lambda x, example: (x - example) ** 2, np.arange(3.0), 0.0)
    assert float(oracle.objective.value(jnp.array([1.0]))) == pytest.approx(2 / 3)
    with pytest.raises(
        ValueError, match=r"from_function: function must return one number; got an array of shape \(1,\)"
    ):
        objectives.from_function(lambda x: x**2, [1.0])  # a list of one number is a vector
