"""`python -m benchmarks` says what it can measure, and measures nothing else."""

import numpy as np
import pytest

from benchmarks.measuring import share


@pytest.mark.parametrize(("rate", "holds"), [(64, False), (65, True), (100, True), (101, False)])
def test_a_share_above_the_whole_peak_fails_as_one_below_the_goal_does(rate: int, holds: bool) -> None:
    assert share("W", np.array([rate]), np.array([100]), 0.65).holds == holds
