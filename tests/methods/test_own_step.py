"""A step of one's own, as a user writes it: swept, decayed, composed; mypy reads this file too."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm as gs

ORACLE = gs.BlumGladyshev(gs.objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)


@gs.part
class Twice(gs.steps.Memoryless):
    """x − 2γv."""

    gamma: gs.Number = gs.leaf(gs.rules.POSITIVE)

    def __call__(self, x: Any, v: Any) -> Any:
        return jax.tree.map(lambda x, v: x - 2 * self.gamma * v, x, v)


def test_a_step_of_one_s_own_is_swept_and_decays_as_the_package_s() -> None:
    record = gs.sweep(
        ORACLE,
        {
            "own": gs.methods.with_decay(gs.Method(gs.estimators.Fresh(), Twice(gamma=[0.05, 0.1]))),
            "plain": gs.methods.with_decay(gs.Method(gs.estimators.Fresh(), gs.steps.Plain(gamma=[0.1, 0.2]))),
        },
        steps=5,
    )
    np.testing.assert_allclose(record["own"].grad_norm, record["plain"].grad_norm, rtol=1e-12)


def test_a_number_that_must_not_end_at_zero_still_must_not() -> None:
    ending = gs.schedules.LinearDecay(1.0)
    with pytest.raises(ValueError, match=r"Clipped: c must be finite and > 0 at every step; got c=0\.0"):
        gs.run(ORACLE, gs.Method(gs.estimators.Fresh(), gs.steps.Clipped(0.1, ending)), steps=5)
    with pytest.raises(ValueError, match=r"Twice: gamma must be finite and > 0; got gamma=0\.0"):
        gs.run(ORACLE, gs.Method(gs.estimators.Fresh(), Twice(0.0)), steps=5)


@gs.part
class OnVectors(gs.steps.Memoryless):
    """x − γv, written for one array."""

    gamma: gs.Number = gs.leaf(gs.rules.POSITIVE)

    def __call__(self, x: Any, v: Any) -> Any:
        return x - self.gamma * v


@gs.part
class NotesShapes(gs.steps.Memoryless):
    """x − γv; `shapes` gets those of v."""

    gamma: gs.Number = gs.leaf(gs.rules.POSITIVE)

    def __call__(self, x: Any, v: Any) -> Any:
        shapes.append(jax.tree.map(jnp.shape, v))
        return jax.tree.map(lambda x, v: x - self.gamma * v, x, v)


shapes: list[Any] = []


def test_a_step_sees_the_tree_that_the_function_takes_and_a_matrix_stays_a_matrix() -> None:
    start = {"W": np.arange(6.0).reshape(2, 3), "b": np.ones(2)}
    objective = gs.objectives.from_function(lambda x: jnp.sum(x["W"] ** 4) + jnp.sum(x["b"] ** 2), start)
    oracle = gs.BlumGladyshev(objective, B=0.1, G=0.1)
    own = gs.run(oracle, gs.Method(gs.estimators.Fresh(), NotesShapes(0.001)), steps=5)
    assert {str(each) for each in shapes} == {"{'W': (2, 3), 'b': (2,)}"}
    np.testing.assert_allclose(own.last, gs.run(oracle, gs.sgd(0.001), steps=5).last, rtol=1e-12)
    with pytest.raises(ValueError, match=r"OnVectors: x and v are the tree that f takes, so move them by jax.tree.map"):
        gs.run(oracle, gs.Method(gs.estimators.Fresh(), OnVectors(0.001)), steps=5)


def test_optax_s_muon_gets_matrices_and_takes_an_orthogonal_step() -> None:
    start = np.random.default_rng(0).normal(size=(4, 3))
    oracle = gs.BlumGladyshev(gs.objectives.from_function(lambda W: jnp.sum(W**2), start), B=0.0, G=0.0)
    record = gs.run(oracle, gs.Method(gs.estimators.Fresh(), gs.steps.FromOptax(0.1, "contrib.muon")), steps=1)
    moved = record.last.reshape(4, 3) - start
    singular = np.linalg.svd(moved, compute_uv=False)
    assert singular[-1] > 0.5 * singular[0]  # Newton–Schulz sends singular values to about 1
    plain = np.linalg.svd(start, compute_uv=False)
    assert plain[-1] < 0.5 * plain[0]
