"""The calibration of the diagnosis: its truths are those of the formulas, and a few repetitions agree with them."""

from __future__ import annotations

import numpy as np
import pytest

from evidence.calibration.coverage import calibrate, problems


def test_the_truths_are_those_of_the_formulas() -> None:
    known = problems()
    assert known["wrapper"].truth == pytest.approx({"G": 0.5, "B": 0.5, "anchor": 0.0})
    squares = known["streaming least squares"]
    objective = squares.oracle.objective
    e = np.linalg.norm(np.asarray(objective.start) - np.asarray(objective.optimum))  # type: ignore[attr-defined]
    assert squares.truth == pytest.approx({"G": (11 * e**2 + 10 / 4) ** 0.5, "B": 11**0.5, "anchor": e})
    # d m-directions of curvature d and d² C-directions of curvature d + 2
    assert known["variational Gaussian"].truth["B"] == pytest.approx(((3 * 3 + 9 * 5) / 12) ** 0.5)


def test_repetitions_find_growth_where_it_is_and_only_there() -> None:
    """One table in 25 has too wide an interval for B: four of eight have with probability below 1e-3."""
    known = problems()
    grows = calibrate(known["wrapper"], 3.0, 48, 8)
    assert grows["quantities"]["B"]["verdicts"]["estimated"] >= 5
    assert grows["quantities"]["B"]["covered"] >= 5
    assert grows["truth"]["rho"] == pytest.approx(0.25)
    assert all(grows["quantities"][name]["error"] < 0.5 for name in ("G", "B", "rho", "ell", "L"))
    for name, reach in (("wrapper", 0.3), ("wrapper, B = 0", 3.0)):
        assert "estimated" not in calibrate(known[name], reach, 48, 8)["quantities"]["B"]["verdicts"]


def test_the_cubic_s_curvature_between_two_points_is_found_as_its_formula_says() -> None:
    """Of eight tables, intervals that hold the truth with 95 % hold it in six or more with probability 0.994."""
    quantities = calibrate(problems()["wrapper, cubic"], 3.0, 48, 8)["quantities"]
    for name in ("alpha", "L0", "L1", "L", "ell"):
        assert quantities[name]["covered"] >= 6, name
        assert quantities[name]["verdicts"] == {"estimated": 8}
    assert max(quantities[name]["error"] for name in ("alpha", "L1", "L")) < 0.1
