"""The module that Optax may have, handover/optax_contrib, takes the steps of `gladstorm.optax.nsgdm` by layer."""

import importlib
import unittest
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gladstorm.optax import by_layer, nsgdm
from handover.optax_contrib import _nsgdm as handed

SHAPES = {
    "conv": {"kernel": (3, 3, 2, 5), "bias": (5,)},
    "dense": {"kernel": (4, 8)},
    "head": {"kernel": (8, 1), "scale": ()},
    "token_embedding": {"embedding": (6, 4)},
    "attention": {"query": {"kernel": (6, 2, 3), "bias": (2, 3)}, "out": {"kernel": (2, 3, 6)}},
    "position_bias": (2, 3, 4),
    "norm": {"gain": (3, 1), "scale": (2, 3, 4)},
}


@pytest.mark.parametrize(
    ("size", "rate", "options"),
    [
        (1.0, optax.linear_schedule(0.1, 0.0, 5), {}),
        (1.0, 0.1, {"momentum": 0.5, "weight_decay": 0.3}),
        (1e-200, 0.1, {"weight_decay": 0.3}),
    ],
)
def test_its_steps_are_ours_in_float64(size: float, rate: Any, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):

        def make() -> Any:
            draw = partial(rng.normal, 0.0, size)
            return jax.tree.map(lambda shape: jnp.asarray(draw(shape)), SHAPES, is_leaf=lambda x: isinstance(x, tuple))

        optimizers = nsgdm(rate, norm=by_layer, **options), handed.nsgdm(rate, **options)
        all_params = [jax.tree.map(lambda x: x / size, make())] * 2
        states = [one.init(params) for one, params in zip(optimizers, all_params, strict=True)]
        for _ in range(4):
            grads = make()
            for i, one in enumerate(optimizers):
                updates, states[i] = one.update(grads, states[i], all_params[i])
                all_params[i] = optax.apply_updates(all_params[i], updates)
        for ours, its in zip(*map(jax.tree.leaves_with_path, all_params), strict=True):
            np.testing.assert_allclose(its[1], ours[1], rtol=0, atol=1e-12, err_msg=jax.tree_util.keystr(its[0]))


def test_its_own_tests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optax.contrib, "_nsgdm", handed, raising=False)  # where they import it from
    tests = importlib.import_module("handover.optax_contrib._nsgdm_test")
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(result)
    assert result.wasSuccessful(), [*result.failures, *result.errors]
    assert result.testsRun == 8
