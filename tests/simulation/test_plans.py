"""A plan is run and measured against its bound without numbers copied by hand."""

import numpy as np
import pytest

import gladstorm as gs


def test_a_plan_is_run_for_its_horizon_and_measured_against_its_bound() -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
    plan = gs.theory.Plan(gs.theory.for_oracle(oracle, "nstorm"), horizon=41)
    record = gs.run(oracle, plan, seeds=3)
    by_hand = gs.run(oracle, gs.from_plan(plan), steps=40, seeds=3)
    np.testing.assert_array_equal(record.mean_grad_norm, by_hand.mean_grad_norm)
    found = record.against(plan)
    assert found.measured == pytest.approx(record.mean_grad_norm[0, :, -1].mean(), rel=1e-14)
    assert found.low < found.measured < found.high
    assert (found.bound, found.ratio) == (plan.statement.bound(41), found.measured / plan.statement.bound(41))
    with pytest.raises(ValueError, match=r"steps must be left out with a plan, whose horizon says them; got steps=40"):
        gs.run(oracle, plan, steps=40)
    with pytest.raises(ValueError, match=r"steps must be given"):
        gs.run(oracle, gs.from_plan(plan))
    with pytest.raises(ValueError, match=r"plan must be for the record's 41 iterates; got a horizon of 40\."):
        record.against(gs.theory.Plan(plan.statement, horizon=40))
    with pytest.raises(ValueError, match=r"must be asked of one configuration, as record\[label\] selects; got 2\."):
        gs.sweep(oracle, [gs.sgd([0.1, 0.2])], steps=40).against(plan)
