"""The calibration of the diagnosis: its truths are those of the formulas, and repetitions agree with them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import default_rng

from evidence.calibration import coverage as calibration
from evidence.calibration import followed, growth, watching
from evidence.calibration.coverage import draw_probes, problems
from evidence.calibration.networks import loss_of as plain_loss
from evidence.calibration.page import powers
from evidence.networks.trainings import TRAININGS
from evidence.study import PUBLISHED
from gladstorm.diagnosis import Finding, diagnose
from gladstorm.diagnosis.curvature import curvature, smoothness
from gladstorm.diagnosis.finding import ESTIMATED, NO_GROWTH
from gladstorm.diagnosis.growth import anchor, constants

TABLES = 40
MISSES = 6  # of 40 intervals of 95 %, more than so many miss with probability 1/300; at 80 %, with 0.71


def test_the_truths_are_those_of_the_formulas() -> None:
    known = problems()
    assert known["wrapper"].truth == pytest.approx({"G": 0.5, "B": 0.5, "anchor": 0.0})
    squares = known["streaming least squares"]
    objective = squares.oracle.objective
    e = np.linalg.norm(np.asarray(objective.start) - np.asarray(objective.optimum))  # type: ignore[attr-defined]
    assert squares.truth == pytest.approx({"G": (11 * e**2 + 10 / 4) ** 0.5, "B": 11**0.5, "anchor": e})
    # d m-directions of curvature d and d² C-directions of curvature d + 2
    assert known["variational Gaussian"].truth["B"] == pytest.approx(((3 * 3 + 9 * 5) / 12) ** 0.5)


def misses(findings: list[Finding], truth: float) -> int:
    return sum(not (each.low or 0.0) - 1e-9 <= truth <= (each.high or 0.0) + 1e-9 for each in findings if each.estimate)


def test_repetitions_find_growth_where_it_is_and_only_there() -> None:
    known = problems()["wrapper"]
    tables, L2 = draw_probes(known, 3.0, 48, TABLES, seed=0)
    found = [
        {"G": G, "B": B, "anchor": anchor(probes, default_rng(0)), **smoothness(probes, default_rng(0))}
        for probes in tables
        for G, B in [constants(probes, default_rng(0))]
    ]
    truth = {**known.truth, "L": L2**0.5, "ell": (L2 + 0.25) ** 0.5, "rho": 0.25 / L2}
    for name, value in truth.items():
        assert misses([each[name] for each in found], value) <= MISSES, name
    assert sum(each["B"].verdict == ESTIMATED for each in found) >= TABLES - 3  # one in a hundred is too wide


@pytest.mark.parametrize(("name", "radius"), [("wrapper", 0.3), ("wrapper, B = 0", 1.5)])
def test_growth_that_cannot_be_seen_is_not_estimated(name: str, radius: float) -> None:
    tables, _ = draw_probes(problems()[name], radius, 48, TABLES, seed=0)
    verdicts = [constants(probes, default_rng(0))[1].verdict for probes in tables]
    assert ESTIMATED not in verdicts
    assert verdicts.count(NO_GROWTH) <= 4  # published: 0 and 3 in a hundred


def test_the_cubic_s_curvature_between_two_points_is_found_as_its_formula_says() -> None:
    known = problems()["wrapper, cubic"]
    assert known.curvature is not None
    tables, L2 = draw_probes(known, 3.0, 48, TABLES, seed=0)
    found = []
    for probes in tables:
        smooth = smoothness(probes, default_rng(0))
        found.append({**smooth, **curvature(probes, smooth["L"], default_rng(0))})
    for name, value in {**known.curvature(0.15), "L": L2**0.5, "ell": (L2 + 1) ** 0.5}.items():
        assert all(each[name].is_estimated for each in found)
        assert misses([each[name] for each in found], value) <= MISSES, name
        if name != "L0":
            assert np.median([each[name].estimate or 0.0 for each in found]) == pytest.approx(value, rel=0.1)


def test_a_calibration_counts_what_the_diagnoses_say(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def draw(*given: Any) -> Any:
        seen["tables"], seen["L2"] = draw_probes(*given)
        return seen["tables"], seen["L2"]

    monkeypatch.setattr(calibration, "draw_probes", draw)
    counted = calibration.calibrate(problems()["streaming least squares"], 3.0, 48, 2, seed=9)
    tables = seen["tables"]
    assert tables[0].radius * counted["truth"]["B"] == pytest.approx(3.0 * counted["truth"]["G"])
    assert counted["truth"]["rho"] == pytest.approx(11 / seen["L2"])
    findings = [diagnose(probes).findings for probes in tables]
    for name, value in counted["truth"].items():
        stated = [each[name] for each in findings if each[name].estimate is not None]
        quantity = counted["quantities"][name]
        assert quantity["stated"] == len(stated)
        assert quantity["covered"] == len(stated) - misses(stated, value)
        assert sum(quantity["verdicts"].values()) == 2
        if stated:
            errors = [abs((each.estimate or 0.0) / value - 1) for each in stated]
            assert quantity["error"] == pytest.approx(np.median(errors))


@pytest.mark.parametrize("ratio", [0.03, 30.0])
def test_problems_of_the_critical_batch_have_their_ratio_and_mostly_hold_it(ratio: float) -> None:
    for name in watching.problems(ratio):
        row = watching.of_batches(name, ratio, 8, seed=5)
        assert row["truth"] == pytest.approx(ratio)
        assert 6 <= row["covered"] <= row["repetitions"] == 8  # of 95 %, fewer than six hold with probability 1/2000


def test_published_intervals_of_the_critical_batch_and_of_every_look_hold_as_often_as_they_say() -> None:
    results = json.loads((PUBLISHED / "calibration/watching.json").read_text("utf-8"))
    problems_and_ratios = {(row["problem"], round(row["truth"], 6)) for row in results["batches"]}
    assert len(problems_and_ratios) == len(results["batches"]) == 12
    assert all(0.92 <= row["covered"] / row["repetitions"] <= 0.98 for row in results["batches"])
    assert {row["repetitions"] for row in results["batches"]} == {200}
    assert all(row["missed"] <= 0.05 * row["runs"] and row["runs"] == 1000 for row in results["sequences"])
    assert all(row["low"] <= row["exact"] <= row["high"] for row in results["clipping"])


def test_advice_that_was_followed_is_nowhere_far_behind_adamw_and_nsgdm_is_behind_nowhere() -> None:
    rows = json.loads((PUBLISHED / "calibration/followed.json").read_text("utf-8"))
    assert [row["training"] for row in rows] == list(followed.TRAININGS)
    for row in rows:
        ratio = np.mean(row["followed"]["losses"]) / np.mean(row["adamw"]["losses"])
        assert ratio < (1.0 if row["followed"]["method"] == "nsgdm" else 1.15)
        assert (row["followed"]["method"] == "nsgdm") == (row["path"]["low"] > 1 and row["path"]["estimate"] >= 2)
        finding = row["critical_batch"]
        known = finding["estimate"] if finding["high"] else finding["low"]
        batch, steps = followed.advised_batch(known), row["followed"]["steps"]
        assert row["followed"]["batch"] == batch
        assert steps / (1 + known / batch) == pytest.approx(600 / (1 + known / 32), rel=2e-3)


def test_growth_is_told_of_every_network_of_the_study_in_the_norms_of_its_layers() -> None:
    rows = json.loads((PUBLISHED / "calibration/growth.json").read_text("utf-8"))
    assert [row["network"] for row in rows] == list(TRAININGS)
    told = powers(rows, "layers")
    for row in rows:
        low, high, verdict = (row["layers"]["power"][name] for name in ("low", "high", "verdict"))
        assert (low is None) == (row["layers"]["B"]["verdict"] != ESTIMATED)
        places = [place for place, networks in told.items() if row["network"] in networks]
        if verdict == ESTIMATED:
            assert places == ["above" if low > 2 else "below" if high < 2 else "about"]
        else:
            assert not places
    (again,) = growth.measure(quick=True)
    assert again["network"] == rows[0]["network"]
    assert again["layers"]["distance"] == pytest.approx(rows[0]["layers"]["distance"], rel=0.02)  # sums of other orders


def test_noise_that_is_added_has_the_variance_that_is_said_and_no_value() -> None:
    training = followed.TRAININGS["perceptron on digits, noise added that grows"]
    model, batch = training.model(0), next(training.batches(0))
    params = list(model.parameters())
    with torch.no_grad():
        for p in params:
            p.add_(0.01)
    exact = torch.autograd.grad(plain_loss(model, batch), params)
    squares = []
    for _ in range(50):
        loss = training.loss_of(model, batch)
        assert loss.item() == pytest.approx(plain_loss(model, batch).item())
        noisy = torch.autograd.grad(loss, params)
        squares.append(sum(float(((a - b) ** 2).sum()) for a, b in zip(noisy, exact, strict=True)))
    r2 = 0.01**2 * sum(p.numel() for p in params)
    assert np.mean(squares) == pytest.approx(3.0**2 * r2 / 32, rel=0.05)
