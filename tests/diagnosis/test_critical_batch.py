"""The critical batch size: its interval holds the truth as often as it says, and it is where a batch sweep bends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from gladstorm.diagnosis import Probe, Probes, diagnose, spread
from gladstorm.diagnosis.critical_batch import critical_batch, window
from gladstorm.diagnosis.finding import ESTIMATED, UNKNOWN

NOTHING = (math.nan, math.nan, math.nan)
COUNT, REPETITIONS = 32, 200
PROBLEMS = ["gaussian", "few directions", "skewed", "heavy tails"]


def draw(problem: str, generator: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Noise of samples in ten dimensions with E‖u‖² = 1."""
    if problem == "gaussian":
        return generator.normal(size=shape) / math.sqrt(10)
    if problem == "few directions":
        scales = np.array([4.0, 2.0, 1.0, *[0.3] * 7])
        return np.asarray(generator.normal(size=shape) * scales / np.linalg.norm(scales))
    if problem == "skewed":
        return np.asarray((generator.exponential(size=shape) - 1) / math.sqrt(10))
    return np.asarray(generator.standard_t(6, size=shape) * math.sqrt(4 / 6 / 10))


def tables(problem: str, ratio: float, repetitions: int, seed: int) -> list[Probes]:
    """Probes at the start, each of 4 groups of 8 samples, with ‖∇f‖ = 1 and a variance of this ratio."""
    generator = default_rng(seed)
    made = []
    for _ in range(repetitions):
        noise = draw(problem, generator, (COUNT, 4, 8, 10)).mean(axis=2)
        groups = np.eye(10)[0] + math.sqrt(ratio) * noise
        squares, totals = np.sum(groups**2, axis=2), np.sum(groups.sum(axis=1) ** 2, axis=1)
        rows = [spread(each.tolist(), float(total), 8) for each, total in zip(squares, totals, strict=True)]
        made.append(Probes.of(Probe(i, i, "start", 0.0, 4, 8, *row, *NOTHING) for i, row in enumerate(rows)))
    return made


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("ratio", [0.01, 1.0, 30.0])
def test_the_interval_holds_the_ratio_of_variance_to_squared_gradient_95_times_in_100(
    problem: str, ratio: float
) -> None:
    generator = default_rng(1)
    found = [critical_batch(each, generator) for each in tables(problem, ratio, REPETITIONS, seed=2)]
    held = [(each.low or 0) <= ratio <= (math.inf if each.high is None else each.high) for each in found]
    assert 0.92 <= np.mean(held) <= 0.98
    if ratio <= 1:
        assert {each.verdict for each in found} == {ESTIMATED}


def test_where_the_gradient_is_hardly_told_from_0_it_holds_the_ratio_more_often_and_never_less() -> None:
    generator = default_rng(1)
    found = [critical_batch(each, generator) for each in tables("few directions", 100.0, REPETITIONS, seed=2)]
    assert np.mean([each.high is None for each in found]) > 0.8
    assert np.mean([(each.low or 0) <= 100 <= (math.inf if each.high is None else each.high) for each in found]) >= 0.95


def test_a_gradient_that_cannot_be_told_from_0_leaves_the_upper_end_open() -> None:
    found = critical_batch(tables("gaussian", 1e6, 1, seed=0)[0], default_rng(0))
    assert (found.verdict, found.high) == (UNKNOWN, None)
    assert 100 < (found.low or 0) < 1e6
    assert "cannot be told from 0 by 32 probes at the start; needs about 130 or more" in (found.needs or "")


def test_a_mean_of_squared_gradients_below_0_is_an_error_and_counts_as_0() -> None:
    rows = (Probe(i, i, "start", 0.0, 4, 8, 6.0 + i % 2, -2.0 + i % 3, *NOTHING) for i in range(12))
    found = critical_batch(Probes.of(rows), default_rng(0))
    assert (found.verdict, found.estimate, found.high) == (UNKNOWN, None, None)
    assert (found.low or 0) > 1


def test_it_is_a_ratio_of_means_and_no_mean_of_ratios() -> None:
    (probes,) = tables("gaussian", 50.0, 1, seed=3)
    found = critical_batch(probes, default_rng(0))
    assert found.estimate == pytest.approx(probes.noise.mean() / probes.gradient2.mean())
    exact = Probes.of(Probe(i, i, "start", 0.0, 4, 8, 6.0, 2.0, *NOTHING) for i in range(12))
    found = critical_batch(exact, default_rng(0))
    assert (found.estimate, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0))


def trained(critical: list[float]) -> Probes:
    """A training whose critical batch is this at each of its probes."""
    generator = default_rng(0)
    rows = []
    for i, ratio in enumerate(critical):
        V, g2 = ratio * generator.gamma(20) / 20, 1 + 0.05 * generator.normal()
        rows.append(Probe(20 * i, i, "path" if i else "start", 0.1 * i, 2, 16, V, g2, *NOTHING))
    return Probes.of(rows)


def test_the_window_is_the_end_of_the_path_or_the_start_where_there_is_none() -> None:
    run = trained([1.0] * 30 + [9.0] * 10)
    assert window(run).tolist() == list(range(30, 40))
    assert critical_batch(run, default_rng(0)).estimate == pytest.approx(9.0, rel=0.2)
    assert len(window(tables("gaussian", 1.0, 1, seed=0)[0])) == COUNT
    few = critical_batch(trained([1.0] * 5), default_rng(0))
    assert (few.verdict, few.needs) == (UNKNOWN, "5 probes at the end of the path, needs 8 or more")


def test_advice_says_what_a_batch_costs() -> None:
    growing = diagnose(trained(np.linspace(1, 100, 64).tolist()))
    said = growing.recommend(batch=10).batching or ""
    critical = growing.findings["critical_batch"].estimate or 0.0
    assert critical == pytest.approx(np.linspace(1, 100, 64)[-16:].mean(), rel=0.2)
    assert "a larger batch would save steps nearly in proportion" in said
    assert (
        f"{1 + critical / 10:.3g} times the fewest steps and {1 + 10 / critical:.3g} times the fewest samples" in said
    )
    steady = diagnose(trained([20.0] * 64))
    assert "your batch is about that" in (steady.recommend(batch=20).batching or "")
    assert "a smaller batch would save samples" in (steady.recommend(batch=2000).batching or "")
    assert f"Batch: {steady.recommend().batching}" in str(steady)
    assert steady.as_dict()["batching"] == steady.recommend().batching


def test_who_asks_about_a_batch_is_told_what_it_takes_to_know() -> None:
    few = diagnose(trained([1.0] * 5))
    assert few.recommend().batching is None
    needs = "5 probes at the end of the path, needs 8 or more"
    said = f"The critical batch size at the end of your path is not known: {needs}."
    assert few.recommend(batch=10).batching == said
