"""The posteriors of the study are what they say, their gaps are what the page counts, and a trial has a page."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, stats

pytest.importorskip("numpyro")

from numpyro.infer.util import log_density

from evidence.posteriors import models

_RNG = np.random.default_rng(7)


def _capture(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = 0.0
    for row in data["y"]:
        there = at["omega"] * np.prod(np.where(row == 1, at["p"], 1 - at["p"]))
        total += np.log(there + (1 - at["omega"]) * (row.sum() == 0))
    return total


def _dogs(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = stats.norm(0, 100).logpdf(at["beta"]).sum()
    for dog in data["y"]:
        for trial, shock in enumerate(dog):
            had = dog[:trial].sum()
            logit = at["beta"] @ [1, trial - had, had]
            total += np.log(1 / (1 + np.exp(-logit if shock else logit)))
    return float(total)


def _bones(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = stats.norm(0, 36).logpdf(at["theta"]).sum()
    for theta, grades in zip(at["theta"], data["grade"], strict=True):
        for j, grade in enumerate(grades):
            if grade != -1:
                n = int(data["ncat"][j])
                cuts = 1 / (1 + np.exp(-data["delta"][j] * (theta - data["gamma"][j, : n - 1])))
                total += np.log(-np.diff(np.concatenate([[1], cuts, [0]])))[int(grade) - 1]
    return float(total)


def _markov(data: dict[str, Any], at: dict[str, Any]) -> float:
    moves = np.stack([at["theta1"], at["theta2"]])
    weights = stats.norm(at["mu"], 1).pdf(data["y"][0])
    for y in data["y"][1:]:
        weights = (weights @ moves) * stats.norm(at["mu"], 1).pdf(y)
    return float(np.log(weights.sum()) + stats.norm([3, 10], 1).logpdf(at["mu"]).sum())


def _garch(data: dict[str, Any], at: dict[str, Any]) -> float:
    beta1, variance, total = at["share"] * (1 - at["alpha1"]), data["sigma1"] ** 2, np.log(1 - at["alpha1"])
    for y in data["y"]:
        total += stats.norm(at["mu"], np.sqrt(variance)).logpdf(y)
        variance = at["alpha0"] + at["alpha1"] * (y - at["mu"]) ** 2 + beta1 * variance
    return float(total)


def _hares(data: dict[str, Any], at: dict[str, Any]) -> float:
    a, b, c, d = at["theta"]
    years = len(data["y"])
    found = integrate.solve_ivp(
        lambda _, z: [(a - b * z[1]) * z[0], (d * z[0] - c) * z[1]],
        (0, years),
        at["z_init"],
        t_eval=range(years + 1),
        rtol=1e-9,
        atol=1e-9,
    ).y.T
    total = stats.lognorm(at["sigma"], scale=found).logpdf(np.vstack([data["y_init"], data["y"]])).sum()
    prior = stats.truncnorm(-np.array([2, 1, 2, 1]), np.inf, [1, 0.05, 1, 0.05], [0.5, 0.05, 0.5, 0.05])
    total += prior.logpdf(at["theta"]).sum() + stats.lognorm(1, scale=np.exp(-1)).logpdf(at["sigma"]).sum()
    return float(total + stats.lognorm(1, scale=10).logpdf(at["z_init"]).sum())


def _mixture(data: dict[str, Any], at: dict[str, Any]) -> float:
    parts = [stats.norm(at["mu"][k], at["sigma"][k]).pdf(data["y"]) for k in (0, 1)]
    total = np.log(at["theta"] * parts[0] + (1 - at["theta"]) * parts[1]).sum() + stats.beta(5, 5).logpdf(at["theta"])
    return float(total + stats.norm(0, 2).logpdf(at["mu"]).sum() + stats.halfnorm(0, 2).logpdf(at["sigma"]).sum())


_GRADES = np.array([[1, 2, -1], [3, 1, 5]], float)
BY_HAND: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "capture": (
        models.capture_recapture,
        _capture,
        {"y": np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1], [0, 0, 0]], float)},
        {"omega": 0.6, "p": np.array([0.2, 0.5, 0.9])},
    ),
    "dogs": (
        models.dogs,
        _dogs,
        {"y": _RNG.integers(0, 2, (4, 6)).astype(float)},
        {"beta": np.array([0.5, -0.3, 0.2])},
    ),
    "bones": (
        models.bones,
        _bones,
        {"nChild": 2, "ncat": np.array([3, 2, 5]), "grade": _GRADES, "delta": np.array([1, 2, 0.5])}
        | {"gamma": np.array([[0, 2, -1, -1], [1, -1, -1, -1], [-1, 0, 1, 2.5]])},
        {"theta": np.array([0.3, 1.7])},
    ),
    "markov": (
        models.hidden_markov,
        _markov,
        {"y": np.array([3.1, 9.0, 4.0, 10.5])},
        {"theta1": np.array([0.7, 0.3]), "theta2": np.array([0.2, 0.8]), "mu": np.array([2.5, 9.0])},
    ),
    "garch": (
        models.garch,
        _garch,
        {"y": _RNG.normal(size=6), "sigma1": 0.5},
        {"mu": 0.1, "alpha0": 0.4, "alpha1": 0.3, "share": 0.5},
    ),
    "hares": (
        models.lotka_volterra,
        _hares,
        {"y_init": np.array([30.0, 4.0]), "y": np.array([[47, 6.0], [70, 10]])},
        {"theta": np.array([0.5, 0.03, 0.8, 0.02]), "sigma": np.array([0.3, 0.2]), "z_init": np.array([33.0, 6.0])},
    ),
    "mixture": (
        models.gaussian_mixture,
        _mixture,
        {"y": _RNG.normal(size=5)},
        {"mu": np.array([-1.0, 2.0]), "sigma": np.array([0.7, 1.5]), "theta": 0.3},
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_density_is_the_one_written_by_hand(name: str) -> None:
    model, by_hand, data, at = BY_HAND[name]
    with jax.enable_x64(True):
        found = float(log_density(model, (data,), {}, at)[0])
    assert found == pytest.approx(by_hand(data, at), rel=1e-6)
