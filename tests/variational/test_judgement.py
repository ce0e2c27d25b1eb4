"""When a run stops and when a fit is doubted: levels by simulation, warnings by their reasons, k-hat by known tails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from gladstorm.variational import FullRank, MeanField, fit_logdensity
from gladstorm.variational.conclusion import judge
from gladstorm.variational.driver import ERROR, LEAST_GAIN, Looks, Starts, gain_by_widening
from gladstorm.variational.gaussians import Diagonal, Triangular
from gladstorm.variational.weights import efficiency, is_near, khat, khat_in_words, smoothed

# Looks


def test_a_look_stops_where_little_is_left_and_not_before() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(1, 64))
    for c, stops in ((0.05, True), (50.0, False)):  # c/k nats below the limit: at most 10⁻⁴ left, or 0.1
        looks = Looks(1000)
        answers = [looks.nothing_left(k, base - c / k) for k in range(50, 1000, 50)]
        assert any(answers) == stops
        assert looks.gap == pytest.approx(c / 950, rel=1e-6)
    noisy = Looks(1000)
    assert not any(noisy.nothing_left(k, rng.normal(size=(1, 64))) for k in range(50, 1000, 50))


@pytest.mark.parametrize("noise", [1e-6, 1e-4, 1e-3])
@pytest.mark.parametrize("c", [1.1, 5.0, 20.0])
def test_a_run_is_stopped_too_early_in_at_most_five_of_a_hundred(c: float, noise: float) -> None:
    """After k steps c(K − k)/(kK) nats are left; a stop where that is more than 0.001 is wrong. 400 runs each."""
    steps, rng = 1000, np.random.default_rng(int(100 * c) + int(1e6 * noise))
    at = np.arange(50, 1000, 50)
    runs, wrong = 400, 0
    for _ in range(runs):
        looks, base = Looks(steps), rng.normal(size=(1, 64))
        for k in at:
            if looks.nothing_left(int(k), base - c / k + noise * rng.normal(size=(1, 64))):
                wrong += int(c * (steps - k) / (k * steps) > LEAST_GAIN)
                break
    assert wrong <= ERROR * runs + 2 * np.sqrt(ERROR * runs)


def test_a_look_waits_for_the_slowest_start_and_for_finite_draws() -> None:
    base = np.zeros((2, 64)) + np.arange(64)
    looks = Looks(1000)
    c = np.array([[0.01], [50.0]])
    assert not any(looks.nothing_left(k, base - c / k) for k in range(50, 1000, 50))
    assert looks.gap is not None
    assert looks.gap[0] < 1e-4 < looks.gap[1]
    broken = Looks(1000)
    assert not any(broken.nothing_left(k, np.full((1, 64), -np.inf)) for k in range(50, 1000, 50))
    assert broken.gap is None


# Warnings


def starts(**changes: Any) -> Starts:
    given = {
        "elbos": np.array([[-9.0, -9.0], [-9.5, -9.4]]),
        "gaps": np.zeros((2, 2)),
        "skipped": np.zeros(4, int),
        "steps": np.array([100]),
        "best": 0,
    }
    return SimpleNamespace(**given | changes)  # type: ignore[return-value]  # what a judgement reads of one


def _ended(*elbos: float) -> np.ndarray:
    return np.stack([np.array(elbos)] * 2, axis=1)


@pytest.mark.parametrize(
    ("changes", "weight", "words"),
    [
        ({}, -9.0, None),
        ({"elbos": np.array([[-9.4, -9.0], [-9.4, -9.4]])}, -9.0, "by about 0.4 nats"),
        ({"gaps": np.array([[0.0, 2.0], [0.0, 0.0]])}, -9.0, "by about 2 nats"),
        ({"elbos": np.array([[-9.0, -9.0], [-9.0, -11.0]])}, -9.0, "Too few starts came near the best one: 0 of 1"),
        ({"elbos": _ended(-9.0, -9.4, -30.0, -30.0)}, -9.0, "Too few starts came near the best one: 1 of 3"),
        ({"elbos": _ended(-9.0, -9.05, -30.0, -30.0)}, -9.0, None),  # two at the same optimum
        ({"elbos": _ended(-9.0, -9.4, -9.8, -30.0)}, -9.0, None),
        ({"skipped": np.array([3, 0])}, -9.0, "3 % of the gradients were not finite"),
        ({"skipped": np.array([0, 30])}, -9.0, None),  # another start's
        ({}, -np.inf, "not finite at some draws"),
        ({}, -1e7, "switch to double precision"),
    ],
)
def test_a_fit_is_doubted_for_a_reason(changes: Any, weight: float, words: str | None) -> None:
    warnings = judge(starts(**changes), np.array([-9.0, weight]), 1e-7)
    assert [sentence for sentence in warnings if words is None or words not in sentence] == []
    assert len(warnings) == (words is not None)


def test_a_fit_that_is_nowhere_finite_is_doubted_in_sentences_alone() -> None:
    nothing = np.full((2, 3), -np.inf)
    warnings = " ".join(judge(starts(elbos=nothing, skipped=np.array([70, 70])), np.array([np.nan]), 1e-16))
    assert "not finite at some draws" in warnings
    assert "70 % of the gradients were not finite" in warnings


def test_a_budget_that_is_too_short_is_a_warning() -> None:
    hard = fit_logdensity(
        lambda z: -0.5 * jnp.sum((z / 1e4) ** 2) - 0.5e-3 * z[0] ** 2, 30, steps=200, starts=2, progress=False,
        family=MeanField(), start=np.full(30, 3e4),
    )  # fmt: skip
    assert not hard.converged
    assert "The budget was too short" in hard.warnings[0]


NO_INTEGRAL: dict[str, Any] = {
    "flat": lambda z: -0.5 * z[0] ** 2,
    "flat along a diagonal": lambda z: -0.5 * (z[0] + z[1]) ** 2,
    "flat on one side": lambda z: -0.5 * z[0] ** 2 - jnp.logaddexp(0.0, -z[1]),
    "growing": lambda z: -0.5 * z[0] ** 2 + z[1],
}


@pytest.mark.parametrize("family", [MeanField(), FullRank()], ids=["mean field", "full rank"])
@pytest.mark.parametrize("name", NO_INTEGRAL)
def test_a_density_without_an_integral_is_doubted_even_after_few_steps(name: str, family: Any) -> None:
    fit = fit_logdensity(NO_INTEGRAL[name], 2, steps=300, starts=1, family=family, progress=False)
    bounded = name == "flat along a diagonal" and family == MeanField()  # a mean field cannot become wide along it
    assert fit.converged == bounded


def test_a_gaussian_gains_by_widening_what_it_lacks_in_width() -> None:
    """q = N(0, s²) for a density N(0, 1), three times as wide: log 3 − 4s² nats."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(4096, 2))
    for tril, gain in ((np.diag([1.0, 0.1]), np.log(3) - 0.04), (np.eye(2), np.log(3) - 4.0)):
        z = noise @ tril.T
        weights = -0.5 * np.sum(z**2, axis=1) + 0.5 * np.sum(noise**2, axis=1)
        for q in (Triangular(np.zeros(2), tril), Diagonal(np.zeros(2), np.diagonal(tril))):
            measured = gain_by_widening(weights, z, q, lambda z: -0.5 * np.sum(z**2, axis=1))
            assert measured == pytest.approx(gain, abs=0.3)
            assert measured <= gain + 0.05  # a lower bound


# k-hat


def test_khat_is_the_shape_of_the_tail() -> None:
    rng = np.random.default_rng(2)
    for shape in (0.3, 1.0):
        estimates = [khat(np.log(rng.pareto(1 / shape, 2000) + 1)) for _ in range(20)]
        assert np.mean(estimates) == pytest.approx(shape, abs=0.08)
    assert khat(np.concatenate([[100.0], np.zeros(999)])) == np.inf
    assert khat(np.zeros(1000)) == 0


@pytest.mark.parametrize(
    ("k", "share", "words"),
    [
        (None, None, "subsampled"),
        (0.2, 0.6, "close to the posterior"),
        (0.77, 0.97, "close to the posterior"),  # a logistic regression, whose tails have next to no weight
        (0.6, 0.3, "usable"),
        (0.9, 0.3, "probably too small"),
        (0.3, 0.012, "1.2 % of importance draws are effective, k-hat = 0.30: the posterior has parts"),
        (np.inf, 0.0, "probably too small"),
    ],
)
def test_what_weights_say_is_one_verdict(k: float | None, share: float | None, words: str) -> None:
    assert words in khat_in_words(k, share)
    assert ("k-hat" in khat_in_words(k, share)) == ("close" not in words)


LAWS = {"t": (7, 10, 20), "skewnorm": (1, 2), "loggamma": (8, 64), "logistic": ()}


def test_a_fit_whose_deviation_is_right_is_not_doubted_for_its_khat() -> None:
    """Best normal laws of some that are a little heavy or skewed, in one dimension: deviations are 0 to 5 % off."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(101)
    noise, alarms = np.random.default_rng(0).normal(size=16_384), 0
    for name, shapes in LAWS.items():
        for law in [getattr(stats, name)(shape) for shape in shapes] or [getattr(stats, name)()]:

            def loss(x: Any, law: Any = law) -> float:
                return -float(shares @ law.logpdf(x[0] + np.exp(x[1]) * nodes)) / shares.sum() - float(x[1])

            loc, log_scale = minimize(loss, [law.median(), np.log(law.std())], method="Nelder-Mead").x
            log_weights = law.logpdf(loc + np.exp(log_scale) * noise) - stats.norm.logpdf(noise)
            assert np.exp(log_scale) == pytest.approx(law.std(), rel=0.055)
            assert is_near(khat(log_weights), efficiency(log_weights)), name
            alarms += khat(log_weights) > 0.7
    assert alarms > 2  # of k-hat alone


def test_a_fit_has_no_khat_where_its_draws_have_no_density() -> None:
    """The uniform distribution on [−1, 1]: a normal one has draws outside, where log p is −∞."""
    fit = fit_logdensity(
        lambda z: jnp.where(jnp.abs(z[0]) < 1, -0.5 * (z[0] / 0.6) ** 2, -jnp.inf),
        1,
        steps=200,
        starts=1,
        start=np.zeros(1),
        progress=False,
    )
    assert fit.khat == np.inf
    assert "not finite at some draws" in fit.warnings[0]


def test_smoothed_weights_have_the_order_and_nearly_the_sum_of_the_tail_they_replace() -> None:
    rng = np.random.default_rng(5)
    weights = rng.permutation(rng.pareto(1 / 0.3, 4000) + 1)
    smooth = smoothed(np.log(weights))
    assert smooth.sum() == pytest.approx(1)
    assert (np.argsort(smooth, kind="stable") == np.argsort(weights, kind="stable")).all()
    small = weights < np.quantile(weights, 0.9)
    assert smooth[small] / smooth[small].sum() == pytest.approx(weights[small] / weights[small].sum())
    assert smooth[~small].sum() == pytest.approx(weights[~small].sum() / weights.sum(), rel=0.05)


def test_efficiency_is_the_share_of_draws_that_count() -> None:
    rng = np.random.default_rng(6)
    log_weights = 0.5 * rng.normal(size=200_000)  # E w² / (E w)² = e^{σ²}
    assert efficiency(log_weights) == pytest.approx(np.exp(-0.25), rel=0.02)
    assert efficiency(np.full(10, -np.inf)) == efficiency(np.array([np.nan, 0.0])) == 0.0


def test_a_flat_coordinate_is_a_warning_and_no_crash() -> None:
    q = Triangular(np.zeros(2), np.array([[1.0, 0.0], [0.0, np.inf]]))
    gain = gain_by_widening(np.zeros(5), np.zeros((5, 2)), q, lambda z: np.zeros(len(z)))
    assert gain == np.inf
    (warning,) = judge(starts(), np.zeros(5), 1e-7, gain)
    assert "may have no integral. Give it a proper prior" in warning
