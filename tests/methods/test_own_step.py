"""A step of one's own, as a user writes it: swept, decayed, composed; mypy reads this file too."""

from typing import Any

import jax
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
