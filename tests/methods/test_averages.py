"""Averages: the means they say they are, of iterates they do not move, recorded beside them."""

import dataclasses
from math import ceil, comb
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm import BlumGladyshev, Method, nsgdm, part, run, sgd, sweep
from gladstorm.methods.averages import Average, PolynomialAverage, TailAverage
from gladstorm.methods.schedules import PowerDecay
from gladstorm.problems import objectives
from gladstorm.simulation import layout

K, GAMMA = 11, 0.3
ORACLE = BlumGladyshev(objectives.named("quadratic", dim=2, start=1.0), 0.5, 0.7)  # f(x) = ‖x‖²/2, ∇f(x) = x


def averaged(method: Method, average: Any) -> Method:
    changed: Method = dataclasses.replace(method, average=average)
    return changed


@pytest.fixture(scope="module")
def iterates() -> np.ndarray:
    """x⁰..x^K of SGD, from runs of every length."""
    return np.array([run(ORACLE, sgd([GAMMA]), steps=k, seeds=[5]).last[0, 0] for k in range(K + 1)])


def tail(share: float) -> Any:
    first = ceil((1 - share) * K)
    return lambda j, k: float(j >= first) if k >= first else float(j == k)


MEANS: dict[str, tuple[Average, Any]] = {  # the weight of x^j in the mean at k, up to a factor
    "of all": (PolynomialAverage(0), lambda j, k: 1.0),
    "polynomial": (PolynomialAverage(), lambda j, k: comb(j + 8, 8)),
    "of the last half": (TailAverage(), tail(0.5)),
    "of the last fifth": (TailAverage(0.2), tail(0.2)),
    "of all, as a tail": (TailAverage(1.0), lambda j, k: 1.0),
    "by a schedule": (PolynomialAverage(PowerDecay(8.0, 0.0)), lambda j, k: comb(j + 8, 8)),
}


@pytest.mark.parametrize("name", MEANS)
def test_what_is_reported_is_the_weighted_mean_of_the_iterates(name: str, iterates: np.ndarray) -> None:
    average, weight = MEANS[name]
    record = run(ORACLE, averaged(sgd([GAMMA]), average), steps=K, seeds=[5])
    means = np.array(
        [np.average(iterates[: k + 1], axis=0, weights=[weight(j, k) for j in range(k + 1)]) for k in range(K + 1)]
    )
    np.testing.assert_allclose(record.reported[0, 0], means[-1], rtol=1e-12)
    np.testing.assert_allclose(record.reported_grad_norm[0, 0], np.linalg.norm(means, axis=1), rtol=1e-12)
    np.testing.assert_allclose(record.reported_value[0, 0], np.sum(means**2, axis=1) / 2, rtol=1e-12)
    np.testing.assert_array_equal(record.last[0, 0], iterates[-1])  # it moves nothing
    np.testing.assert_allclose(record.grad_norm[0, 0], np.linalg.norm(iterates, axis=1), rtol=1e-14)


def test_a_method_without_an_average_reports_its_iterates_and_shares_programs_with_one_that_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layout, "CHEAP_BYTES", 0)
    methods = {"plain": nsgdm(0.1, 0.2), "averaged": averaged(nsgdm(0.1, 0.2), TailAverage())}
    record = sweep(ORACLE, methods, steps=K, seeds=2)
    for reported, iterate in (("reported", "last"), ("reported_grad_norm", "grad_norm"), ("reported_value", "value")):
        np.testing.assert_array_equal(getattr(record, reported)[0], getattr(record, iterate)[0])
    np.testing.assert_array_equal(record.last[0], record.last[1])
    assert (record.reported[0] != record.reported[1]).all()
    assert sweep(ORACLE, list(methods.values()), steps=1).labels == (
        "momentum+normalized",
        "momentum+normalized+tailaverage",
    )


@part
class Nothing(Average):
    """x̄ = x⁰, of all iterates the one that is finite for good."""

    def weight(self, k: Any, horizon: Any) -> Any:
        return jnp.zeros(())


@pytest.mark.parametrize("gamma", [10.0, 1e300])  # in a few steps, and in the first
def test_a_run_that_diverged_reports_nothing_from_there_on(gamma: float) -> None:
    oracle = BlumGladyshev(objectives.named("double-well", start=3.0), 5.0, 1.0)
    wild = run(oracle, averaged(sgd(gamma), Nothing()), steps=30)
    step = int(wild.diverged[0, 0])
    assert (step == 1) == (gamma > 10)
    assert 0 < step < 30
    for curve in (wild.reported_grad_norm[0, 0], wild.reported_value[0, 0]):
        assert np.isfinite(curve[:step]).all()
        assert np.isnan(curve[step:]).all()


@pytest.mark.parametrize(
    ("average", "sentence"),
    [
        (PolynomialAverage(-1), r"PolynomialAverage: degree must be finite and ≥ 0; got degree=-1\."),
        (8, r"Method: average must be of a class that inherits Average, with @part above it; got 8\."),
    ],
)
def test_a_bad_average_gets_one_clear_sentence(average: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        run(ORACLE, averaged(sgd(0.1), average), steps=1)
