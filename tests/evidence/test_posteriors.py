"""The posteriors of the study are what they say, their gaps are what the page counts, and a trial has a page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, linalg, stats

pytest.importorskip("numpyro")

from numpyro.infer.util import log_density

from evidence import study
from evidence.posteriors import families, models, page, rivals
from evidence.posteriors.results import BestGaussian, JudgedFit, PosteriorCase

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


def _traps(data: dict[str, Any], at: dict[str, Any]) -> float:
    total = 0.0
    for row in data["y"]:
        chances = [at["c"] if t and row[t - 1] else at["p"] for t in range(len(row))]
        there = at["omega"] * np.prod([q if hit else 1 - q for hit, q in zip(row, chances, strict=True)])
        total += np.log(there + (1 - at["omega"]) * (row.sum() == 0))
    return float(total)


def _soil(data: dict[str, Any], at: dict[str, Any]) -> float:
    rates = np.array([[-at["k1"], at["alpha12"] * at["k2"]], [at["alpha21"] * at["k1"], -at["k2"]]])
    pools = data["totalC_t0"] * np.array([at["gamma"], 1 - at["gamma"]])
    gone = [data["totalC_t0"] - (linalg.expm(t * rates) @ pools).sum() for t in data["ts"]]
    total = stats.norm(gone, at["sigma"]).logpdf(data["eCO2mean"]).sum() + stats.beta(10, 1).logpdf(at["gamma"])
    total += sum(stats.halfnorm.logpdf(at[name]) for name in ("k1", "k2", "alpha21", "alpha12"))
    return float(total + stats.halfcauchy.logpdf(at["sigma"]))


def _arma(data: dict[str, Any], at: dict[str, Any]) -> float:
    error = data["y"][0] - at["mu"] * (1 + at["phi"])
    total = stats.norm(0, at["sigma"]).logpdf(error)
    for before, now in zip(data["y"], data["y"][1:], strict=False):
        error = now - at["mu"] - at["phi"] * before - at["theta"] * error
        total += stats.norm(0, at["sigma"]).logpdf(error)
    total += stats.norm(0, 10).logpdf(at["mu"]) + stats.norm(0, 2).logpdf([at["phi"], at["theta"]]).sum()
    return float(total + stats.halfcauchy(0, 2.5).logpdf(at["sigma"]))


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
    "traps": (
        models.trap_response,
        _traps,
        {"y": np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 0]], float)},
        {"omega": 0.6, "p": 0.3, "c": 0.8},
    ),
    "soil": (
        models.soil,
        _soil,
        {"totalC_t0": 7.7, "t0": 0.0, "ts": np.array([1.0, 2.5, 4.0]), "eCO2mean": np.array([1.0, 2.0, 2.4])},
        {"k1": 0.3, "k2": 0.5, "alpha21": 0.2, "alpha12": 0.4, "gamma": 0.8, "sigma": 0.5},
    ),
    "arma": (
        models.moving_average,
        _arma,
        {"y": _RNG.normal(size=6)},
        {"mu": 0.3, "phi": 0.6, "theta": -0.4, "sigma": 0.7},
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


@pytest.mark.parametrize("family", [families.MEAN_FIELD, families.FULL_RANK])
def test_sticking_gradients_vanish_at_the_posterior_and_others_do_not(family: str) -> None:
    mean = np.array([1.0, -2.0])
    lower = np.diag([0.5, 3.0]) if family == families.MEAN_FIELD else np.array([[0.5, 0.0], [2.0, 3.0]])
    precision = np.linalg.inv(lower @ lower.T)
    widths = np.diagonal(lower)
    x = [*mean, *np.log(np.expm1(widths)), *([] if family == families.MEAN_FIELD else [2.0 / 3.0])]
    with jax.enable_x64(True):
        run = rivals.program(lambda z: -0.5 * (z - mean) @ precision @ (z - mean), 2, family, ["Adam"])
        rows = {"Adam": np.array([(0.1, 0.0, 0.999, np.inf, stl) for stl in (1.0, 0.0)])}
        keys = jax.random.split(jax.random.key(0), 1)
        ends = run(1, keys, rows, {"Adam": np.array([x, x])}, {"Adam": np.zeros(2, int)})["Adam"]
    steps = np.abs(np.asarray(ends) - x)
    assert steps[0].max() < 0.1 * 1e-3  # Adam divides by the size of a gradient, which is that of rounding here
    assert steps[1].min() > 0.05


def test_the_full_rank_coordinates_are_numpyro_s() -> None:
    from numpyro.distributions.transforms import ScaledUnitLowerCholeskyTransform

    x = np.random.default_rng(0).normal(size=9)
    mean, lower = families.unpacked(families.FULL_RANK, x, 3)
    np.testing.assert_array_equal(mean, x[:3])
    theirs = ScaledUnitLowerCholeskyTransform()(np.concatenate([x[6:], x[3:6]]))
    np.testing.assert_allclose(lower, theirs, rtol=1e-6)
    eps = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(families.whitened(families.FULL_RANK, x, eps) @ lower, eps, rtol=1e-5)
    z, determinant = families.point(families.FULL_RANK, x, eps)
    np.testing.assert_allclose(z, mean + lower @ eps, rtol=1e-6)
    np.testing.assert_allclose(determinant, np.linalg.slogdet(lower)[1], rtol=1e-5)


def test_the_elbo_of_the_posterior_itself_is_the_log_evidence() -> None:
    lower, mode = np.array([[0.5, 0.0], [2.0, 3.0]]), np.array([1.0, -2.0])
    precision = np.linalg.inv(lower @ lower.T)
    with jax.enable_x64(True):
        constant = float(stats.multivariate_normal(mode, lower @ lower.T).logpdf(mode))

        def density(z: Any) -> Any:
            return 7 + constant - 0.5 * (z - mode) @ precision @ (z - mode)

        draws = families.antithetic(2, 40_000, 0)
        found = families.elbos(density, mode[None], lower[None], draws)
        assert float(found[0]) == pytest.approx(7, abs=0.03)
        (x,) = families.fixed_draws(families.FULL_RANK, density, [np.zeros(5)], [families.antithetic(2, 4000, 1)], 200)
        mean, scale = families.unpacked(families.FULL_RANK, x, 2)
    np.testing.assert_allclose(mean, mode, atol=1e-3)
    np.testing.assert_allclose(scale, lower, rtol=0.05, atol=0.1)


def test_the_sentences_that_are_judged_are_those_that_were_registered_and_so_are_the_models() -> None:
    text = (study.PUBLISHED / "posteriors/registered.md").read_text("utf-8")
    registered = [" ".join(each.split()) for each in re.findall(r"^\d+\. ((?:.+\n)+?)(?=\d+\.|\n)", text, re.MULTILINE)]
    results = page.load(study.PUBLISHED / "posteriors")
    assert [sentence.words for sentence in page.sentences(results)] == registered
    for some in (models.DEVELOPMENT, models.VALIDATION):
        assert f"({len(some)}): " in text
        assert all(name.split("-")[1] in text for name in some)


def test_the_second_validation_is_judged_by_what_was_registered() -> None:
    text = (study.PUBLISHED / "posteriors/second.md").read_text("utf-8")
    registered = re.findall(r"^\d+\. (.+)$", text, re.MULTILINE)
    second = page.load(study.PUBLISHED / "posteriors").second
    assert second is not None
    assert [sentence.words for sentence in page.sentences_again(second)] == registered
    assert all(name.split("-")[1] in text for name in models.SECOND)
    assert not models.SECOND.keys() & (models.VALIDATION | models.DEVELOPMENT).keys()
    assert {case.model for case in second.cases} <= models.SECOND.keys()


def test_what_the_tutorial_says_of_normalized_steps_is_what_was_measured() -> None:
    bias = page.load(study.PUBLISHED / "posteriors").bias
    text = " ".join((study.PUBLISHED.parent / "numpyro.md").read_text("utf-8").split())
    for name in ("NSGDM", "NSTORM"):
        alone, ten = ([each[d][0] for kind, each in bias.items() if kind.startswith(name)] for d in (1, 10))
        assert f"{min(alone):.1f} to {max(alone):.1f} % " in text.partition(f"with {name}")[0] + " "
        assert max(ten) < 0.45
        assert all(each[1][0] > 2 * each[1][1] for kind, each in bias.items() if kind.startswith(name))
    ours = [each[0] for each in bias["untuned_per_coordinate"].values()]
    assert f"has {min(ours):.1f} to {max(ours):.1f} % in every dimension" in text


def _fit(gap: float | None, *warnings: str) -> JudgedFit:
    return JudgedFit(gap, 0.5, list(warnings), None)


def _case(ours: list[float | None], fits: dict[int, list[JudgedFit]] | None = None) -> PosteriorCase:
    best, rivals = BestGaussian(0.0, 0.5, None), {"Adam": {10: [None, 4.0, None]}}
    return PosteriorCase("m", "validation", "mean field", 2, best, rivals, {10: ours}, {10: 1}, fits or {})


def test_a_score_is_the_geometric_mean_of_medians_and_what_is_not_finite_is_far_away() -> None:
    cases = [_case([-0.001, 0.0, 5.0]), _case([2.0, 1.0, None])]
    assert page.score(cases, page.OURS, 10) == pytest.approx((0.01 * 2.0) ** 0.5)
    assert page.score(cases, "Adam", 10) == pytest.approx(page.LARGEST)
    assert page.near(cases, page.OURS, 10) == (2, 6)


def test_a_warning_is_missed_by_a_bad_fit_and_false_of_a_good_one() -> None:
    fits = [_fit(0.5), _fit(0.9, "No other start."), _fit(1.1), _fit(None, "Not finite."), _fit(30.0, "a", "b")]
    assert page.warned([_case([], {10: fits, 20: [_fit(0.1)]})], (10, 20)) == {True: (1, 3), False: (2, 3)}


def test_a_trial_needs_no_database_and_its_runs_are_those_of_the_public_fit(
    monkeypatch: pytest.MonkeyPatch, evidence: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    judging = pytest.importorskip("evidence.posteriors.judging")
    from evidence.posteriors.problems import made
    from gladstorm.variational import MeanField, fit_logdensity

    monkeypatch.setattr(judging, "QUICK", replace(judging.QUICK, models=("made-regression",), budgets=[10, 30]))
    assert evidence("posteriors", "--quick", "--out", str(tmp_path))[0] == 0
    results = page.load(tmp_path)
    assert (tmp_path / "index.md").read_text("utf-8") == page.render(results)
    (case,) = results.cases
    with jax.enable_x64(True):
        problem = made("made-regression", None)
        fit = fit_logdensity(
            problem.logdensity,
            4,
            steps=30,
            starts=4,
            start=problem.starts(range(4)),
            family=MeanField(),
            progress=False,
        )
    assert list(fit.warnings) == case.fits[30][0].warnings
    gap = case.best.elbo - fit.elbo
    assert gap == pytest.approx(case.fits[30][0].gap, abs=6 * fit.elbo_error)
    code, _, error = evidence("posteriors", "--out", str(tmp_path / "other"))
    assert code == 2
    assert "--posteriordb must be a clone" in error
