"""The third validation asks what was registered, of models that are what they say, and counts what a fit says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

pytest.importorskip("numpyro")

from numpyro.infer.util import log_density

from evidence import study
from evidence.posteriors import confessed, confession, models, new_models, page
from evidence.posteriors.results import (
    CheckedCase,
    CheckedFit,
    Moments,
    PosteriorSettings,
    ReferenceChains,
    ThirdValidation,
    WayToPosterior,
)

REGISTERED = study.PUBLISHED / "posteriors/third.md"


def _frailty(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = stats.norm(0, 5).logpdf(at["alpha"]) + stats.norm(0, 2).logpdf(at["beta"]).sum()
    total += (
        stats.lognorm(1).logpdf(at["shape"]) + stats.halfnorm.logpdf(at["spread"]) + stats.norm.logpdf(at["z"]).sum()
    )
    for clinic, x, time, died in zip(data["clinic"], data["x"], data["time"], data["died"], strict=True):
        rate = np.exp(at["alpha"] + x @ at["beta"] + at["spread"] * at["z"][clinic])
        law = stats.weibull_min(at["shape"], scale=rate ** (-1 / at["shape"]))
        total += law.logpdf(time) if died else law.logsf(time)
    return float(total)


def _guessing(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = stats.norm.logpdf(at["ability"]).sum() + stats.norm.logpdf(at["mu"]) + stats.halfnorm.logpdf(at["spread"])
    total += stats.norm(at["mu"], at["spread"]).logpdf(at["difficulty"]).sum()
    total += stats.lognorm(0.5).logpdf(at["sharpness"]) + stats.beta(2, 8).logpdf(at["guess"])
    for person, row in zip(at["ability"], data["right"], strict=True):
        for item, hit in zip(at["difficulty"], row, strict=True):
            p = at["guess"] + (1 - at["guess"]) * expit(at["sharpness"] * (person - item))
            total += np.log(p if hit else 1 - p)
    return float(total)


def _downloads(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = stats.norm(0, 5).logpdf([at["k"], at["m"]]).sum() + stats.laplace(0, 0.05).logpdf(at["delta"]).sum()
    total += stats.norm(0, data["sigmas"]).logpdf(at["beta"]).sum() + stats.halfnorm(0, 0.5).logpdf(at["sigma_obs"])
    for t, x, y in zip(data["t"], data["X"], data["y"], strict=True):
        slope, _ = integrate.quad(  # of the trend: it changes by delta at each change
            lambda u: at["k"] + at["delta"] @ (data["t_change"] <= u), 0, t, points=data["t_change"]
        )
        total += stats.norm(at["m"] + slope + x @ at["beta"], at["sigma_obs"]).logpdf(y)
    return float(total)


def _few_matter(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = stats.halfcauchy(0, 0.1).logpdf(at["tau"]) + stats.halfcauchy.logpdf(at["lambda"]).sum()
    total += stats.invgamma(2, scale=8).logpdf(at["slab"]) + stats.norm.logpdf(at["z"]).sum()
    shrunk = 1 / np.sqrt(1 / at["slab"] + 1 / (at["tau"] * at["lambda"]) ** 2)  # variances of slab and horseshoe
    p = expit(at["alpha"] + data["x"] @ (shrunk * at["z"]))
    return float(total + stats.norm(0, 2).logpdf(at["alpha"]) + stats.bernoulli(p).logpmf(data["y"]).sum())


_RNG = np.random.default_rng(11)
_DAYS = np.linspace(0, 1, 5)
_SERIES = {"t": _DAYS, "t_change": np.array([0.3, 0.6]), "tau": 0.05, "sigmas": np.array([10.0, 2.0])}
BY_HAND: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "frailty": (
        new_models.frailty,
        _frailty,
        new_models.made_data("frailty"),
        {"alpha": -1.0, "beta": np.array([0.4, -0.2]), "shape": 1.3, "spread": 0.6, "z": _RNG.normal(size=10)},
    ),
    "guessing": (
        new_models.guessing,
        _guessing,
        new_models.made_data("guessing"),
        {"ability": _RNG.normal(size=40), "difficulty": _RNG.normal(size=15), "mu": 0.2, "spread": 0.8}
        | {"sharpness": 1.4, "guess": 0.2},
    ),
    "downloads": (
        new_models.downloads,
        _downloads,
        _SERIES | {"X": _RNG.normal(size=(5, 2)), "y": _RNG.normal(size=5)},
        {"k": 0.5, "m": 0.1, "delta": np.array([0.4, -0.7]), "beta": np.array([0.3, 1.0]), "sigma_obs": 0.4},
    ),
    "few_matter": (
        new_models.few_matter,
        _few_matter,
        new_models.made_data("few_matter"),
        {"tau": 0.3, "lambda": _RNG.gamma(1, size=12), "slab": 4.0, "z": _RNG.normal(size=12), "alpha": 0.2},
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_new_density_is_the_one_written_by_hand(name: str) -> None:
    model, by_hand, data, at = BY_HAND[name]
    with jax.enable_x64(True):
        found = float(log_density(model, (data,), {}, at)[0])
    assert found == pytest.approx(by_hand(data, at), rel=1e-6)


def test_the_third_validation_asks_what_was_registered_of_models_that_no_table_had() -> None:
    text = REGISTERED.read_text("utf-8")
    registered = re.findall(r"^\d+\. (.+)$", text, re.MULTILINE)
    assert [sentence.words for sentence in confession.sentences(_third())] == registered
    assert not new_models.NEW.keys() & (models.DEVELOPMENT | models.VALIDATION | models.SECOND).keys()
    assert len(new_models.NEW) == 10
    assert all(name.split("-")[-1] in text for name in new_models.NEW)
    for name in new_models.MADE:
        first, again = new_models.made_data(name), new_models.made_data(name)
        assert all(np.array_equal(first[key], again[key]) for key in first)


def test_errors_are_the_largest_of_all_numbers_in_standard_deviations_of_the_reference() -> None:
    true: Moments = {"a": [[0.0, 1.0], [2.0, 4.0]], "b": [[3.0], [1.0]]}
    found: Moments = {"a": [[1.0, 1.0], [1.0, 4.4]], "b": [[3.2], [1.0]], "more": [[9.0], [9.0]]}
    measured = confessed.errors(found, true)
    assert measured["mean"] == pytest.approx(0.5)
    assert measured["sds"] == pytest.approx([0.5, 1.1])
    assert confession.worst(measured["sds"]) == pytest.approx(0.5)
    assert confessed.errors(found, None) == {"mean": None, "sds": []}
    draws = np.random.default_rng(0).normal([1.0, -1.0], [2.0, 3.0], size=(100_000, 2))
    ((means, sds),) = confessed.moments({"x": draws}).values()
    assert means == pytest.approx([1.0, -1.0], abs=0.03)
    assert sds == pytest.approx([2.0, 3.0], rel=0.01)


GOOD = CheckedFit(0.2, 0.3, 0.9, True, [], True, 0.5, 0.01, 0.05, [0.95, 1.1])


@pytest.mark.parametrize(
    ("change", "good", "right", "silent"),
    [
        ({}, True, True, True),
        ({"gap": 1.1}, False, True, True),
        ({"gap": None}, False, True, True),
        ({"mean": 0.11}, True, False, True),
        ({"sds": [0.79, 1.0]}, True, False, True),
        ({"sds": [1.0, 1.21]}, True, False, True),
        ({"sds": [None, 1.1]}, True, False, True),
        ({"mean": None, "sds": []}, True, None, True),
        ({"warnings": ["Too few starts."]}, True, True, False),
        ({"near": False}, True, True, False),
        ({"steady": False}, True, True, False),
    ],
)
def test_what_is_good_right_and_silent_is_what_was_registered(
    change: dict[str, Any], good: bool, right: bool | None, silent: bool
) -> None:
    fit = replace(GOOD, **change)
    assert (confession.good(fit), confession.right(fit), confession.says_nothing(fit)) == (good, right, silent)


def _third(*fits: CheckedFit, family: str = "full rank") -> ThirdValidation:
    every = {1000: list(fits) or [GOOD], 10_000: [GOOD]}
    cases = [
        CheckedCase(
            name,
            each,
            3,
            -4.0,
            {"Adam": {1000: [9.0], 10_000: [4.0]}},
            {1000: [3.0, 0.4], 10_000: [0.001, None]},
            {},
            some,
        )
        for name, each, some in (
            ("stays", "mean field", {1000: [GOOD], 10_000: [GOOD]}),
            ("stays", family, every),
        )
    ]
    settings = PosteriorSettings([1000, 10_000], 1, 2, 0, "digest", {})
    way = WayToPosterior([8.0, 0.5], [9.0, 1.0], 0.04, [0.9, 1.3], 1200, 400.0, 0.3, 0.8, -4.0, "FullRank()")
    ways = {"fit": way, "fit, new process": way, "SVI": way, "NUTS": way, "NUTS, dense": way, "NUTS from the fit": way}
    by_model = {"stays": ways | {"full": way, "flow": replace(way, khat=0.1)}}
    chains = {"stays": ReferenceChains(True, 1.0, 4000.0, 1, 0.0), "patches": ReferenceChains(False, 1.1, 90.0, 2, 0.1)}
    return ThirdValidation(settings, 1, cases, chains, by_model, by_model, by_model)


def test_sentences_count_bad_fits_that_warn_and_silent_ones_that_are_wrong() -> None:
    bad, told = replace(GOOD, gap=5.0), replace(GOOD, gap=5.0, warnings=["x"])
    alarm, wrong = replace(GOOD, warnings=["x"]), replace(GOOD, mean=0.3)
    third = _third(bad, told, told, alarm, wrong)
    outcomes = [sentence.outcome for sentence in confession.sentences(third)]
    assert outcomes[2:] == ["2 of 16", "1 of 1", "2 of 3", "1 of 5", "4 of 5"]
    assert [sentence.holds for sentence in confession.sentences(third)][2:] == [False, True, False, False, True]
    assert "full rank at 1,000 (1 of 3)" in confession.missed(third)
    assert "full rank at 1,000 (1 of 2)" in confession.wrong(third)
    assert confession.sentences(_third())[4].holds is None
    assert confession.score(third.cases, confession.OURS, 1000) == pytest.approx(1.7)
    assert "| `warnings` | 2 of 3 | 1 of 5 |" in confession.alarms(third)


def test_what_the_tutorial_says_of_silent_fits_is_what_was_measured() -> None:
    third = page.load(study.PUBLISHED / "posteriors").third
    assert third is not None
    assert [sentence.holds for sentence in confession.sentences(third)].count(None) == 0
    assert "1,000" in confession.missed(third)
    assert "10,000" not in confession.missed(third)
    for draws in third.resampled.values():
        low, high = draws["resample"].sds
        assert low is not None
        assert high is not None


def test_the_page_has_all_of_it(tmp_path: Path) -> None:
    results = replace(page.load(study.PUBLISHED / "posteriors"), third=_third(replace(GOOD, gap=5.0, mean=0.4)))
    text = page.render(results)
    assert text.index("errors against NUTS") < text.index("## Nats") < text.index("Before the method changed")
    for words in (
        "| stays | 8 | 0.5 | 8 | 8 | 8 | 0.04; 1.3 |",
        "its own, dense",
        "| flow | -4.00 | 0.1 |",
        "on patches",
    ):
        assert words in text
    from evidence.results import save

    save(tmp_path / "results.json", results)
    assert page.load(tmp_path).third == results.third
    page.draw(tmp_path)
    assert (
        "own words" in (tmp_path / "confession.svg").read_text("utf-8") or (tmp_path / "confession.svg").stat().st_size
    )
