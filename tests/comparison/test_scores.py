"""Scores, means over seeds and their intervals, by hand."""

import numpy as np
import pytest

from gladstorm.comparison.scores import at_edge, interval, positive_interval, ratio
from gladstorm.core.estimate import Estimate
from gladstorm.core.statistics import mean_of, over_seeds, share_interval, significant


def test_a_number_is_at_the_edge_if_it_is_the_smallest_or_largest_of_several() -> None:
    assert at_edge(1.0, [1.0, 10.0, 100.0])
    assert at_edge(100.0, [1.0, 10.0, 100.0])
    assert not at_edge(10.0, [1.0, 10.0, 100.0])
    assert not at_edge(1.0, [1.0, 1.0])


def test_the_mean_over_seeds_has_student_s_interval() -> None:
    mean = mean_of(np.array([1.0, 3.0]))
    assert (mean.value, mean.deviation, mean.n) == (2.0, 2**0.5, 2)
    assert mean.interval() == pytest.approx((2 - 12.7062, 2 + 12.7062), rel=1e-5)  # t of one degree of freedom
    assert mean_of(np.ones(3)).interval() == (1.0, 1.0)
    assert over_seeds(np.array([1.0, 3.0])) == {"mean": 2.0, "std": 2**0.5, "per_seed": [1.0, 3.0]}
    assert over_seeds(np.array([np.inf])) == {"mean": None, "std": None, "per_seed": [None]}


def test_the_interval_of_norms_is_positive_and_that_of_student_to_first_order() -> None:
    wide, narrow = np.array([0.01, 0.02, 1.0]), 1 + 1e-4 * np.array([-1.0, 0.0, 2.0])
    student, positive = interval(wide), positive_interval(wide)
    assert np.all(np.diff([student.low, 0, positive.low, wide.mean(), positive.high]) > 0)
    assert positive_interval(narrow).low == pytest.approx(interval(narrow).low, abs=1e-6)
    assert positive_interval(narrow).high == pytest.approx(interval(narrow).high, abs=1e-6)
    for without in ([0.0, 1.0], [2.0], [1.0, np.inf]):
        assert positive_interval(np.array(without)) == interval(np.array(without))
    assert interval(np.array([2.0])) == Estimate(2.0)
    assert interval(np.array([1.0, np.nan])) == Estimate(None)


def test_methods_are_compared_seed_by_seed_by_the_geometric_mean() -> None:
    assert ratio(np.array([1.0, 2.0]), np.array([2.0, 4.0])).value == 0.5
    assert ratio(np.array([1.0, 8.0]), np.array([2.0, 4.0])).value == pytest.approx(1.0)
    assert ratio(np.array([1.0, np.inf]), np.array([2.0, 4.0])).value is None


def test_the_interval_of_a_share_is_exact() -> None:
    assert share_interval(3, 3) == pytest.approx((0.025 ** (1 / 3), 1.0))
    assert share_interval(0, 3) == pytest.approx((0.0, 1 - 0.025 ** (1 / 3)))


def test_significant_digits_are_counted_from_the_first_that_is_not_zero() -> None:
    assert (significant(1 / 3, 4), significant(123456.0, 2)) == (0.3333, 120000.0)
