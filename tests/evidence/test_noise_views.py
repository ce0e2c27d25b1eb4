"""The two views of a run's noise: from the start and from where it is least."""

import numpy as np
import pytest

from evidence.natural.noise_along_path import noise_along_path
from evidence.natural.page import noise_views
from gladstorm import BlumGladyshev, sgd
from gladstorm.problems import objectives
from gladstorm.problems.oracles import FiniteSum, StreamingLeastSquaresOracle


def test_least_squares_noise_falls_on_the_way_from_the_start_and_grows_with_the_distance_to_the_solution() -> None:
    stream = StreamingLeastSquaresOracle(objectives.named("streaming-least-squares:0.5", dim=3))
    path = noise_along_path(stream, sgd(0.02), steps=200, points=8)
    assert path["steps"][[0, -1]].tolist() == [0, 200]
    assert path["from_start"][0] == 0
    assert np.corrcoef(path["from_start"], path["variance"])[0, 1] < -0.9
    assert np.corrcoef(path["from_anchor"] ** 2, path["variance"])[0, 1] > 0.9
    assert np.all(path["variance"] < 1.2 * path["allowed_from_anchor"])  # 2,000 draws
    assert np.all(path["variance"] < path["allowed_from_start"])
    figure = noise_views(path, "least squares")
    assert [ax.get_xlabel() for ax in figure.axes] == ["distance from the start x⁰", "distance from x*"]
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx(path["variance"])


def test_noise_that_was_added_is_anchored_at_the_start() -> None:
    wrapper = BlumGladyshev(objectives.named("quadratic", dim=2, start=3.0), 0.5, 0.1)
    path = noise_along_path(wrapper, sgd(0.05), steps=50, points=3, draws=100)
    assert path["anchor"] == "x⁰"
    assert path["from_start"] == pytest.approx(path["from_anchor"])
    assert path["allowed_from_start"] == pytest.approx(path["allowed_from_anchor"])
    with pytest.raises(ValueError, match="oracle must declare BG-0 constants; got oracle=FiniteSum"):
        noise_along_path(FiniteSum(objectives.named("dro:5", dim=2)), sgd(0.05), steps=5)
