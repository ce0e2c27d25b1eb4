"""`gladstorm verify`: what a check asks for, that right methods pass every one, and that broken ones do not."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from gladstorm import theory
from gladstorm.estimators import Momentum, Storm
from gladstorm.methods import Method, nstorm
from gladstorm.oracles import BlumGladyshev, Point
from gladstorm.parts import part
from gladstorm.steps import Normalized
from gladstorm.verification import QUICK, Report, Settings, noise_exponents, verify
from gladstorm.verification.checks import (
    AtMost,
    Check,
    Equals,
    Exceeds,
    Mean,
    NotAbove,
    Within,
    decided,
    mean_of,
    rounded,
)
from gladstorm.verification.error_identity import conditional_variance
from gladstorm.verification.estimator_error import error_bound
from gladstorm.verification.instances import INSTANCES, NOISE
from gladstorm.verification.one_of import ON_A_LINE, ON_A_PLANE, OneOf
from gladstorm.verification.runs import cases, planned

Said = Callable[..., tuple[int, str, str]]


# What a check is.


def test_every_interval_of_a_report_shares_one_error_probability() -> None:
    alone = Check("regime", "instance", "bound", 1, Mean(0.0, 1.0, 31), AtMost(3.0))
    assert decided([alone])[0].holds  # ±2.75 at 99 %
    among_many = decided([alone] * 100)
    assert not any(verdict.holds for verdict in among_many)  # ±4.48 at 99.99 %
    assert among_many[0].high == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(
    ("claim", "holds", "fails"),
    [
        (AtMost(1.0), (0.2, 1.0), (0.2, 1.1)),
        (NotAbove(1.0), (0.9, 2.0), (1.1, 2.0)),
        (Exceeds(1.0), (1.1, 2.0), (0.9, 2.0)),
        (Equals(1.0), (0.9, 1.1), (1.1, 1.2)),
        (Within(-0.5, 0.1), (-0.6, -0.45), (-0.61, -0.45)),
    ],
)
def test_a_claim_is_about_the_whole_interval(
    claim: Any, holds: tuple[float, float], fails: tuple[float, float]
) -> None:
    assert claim.holds(*holds)
    assert not claim.holds(*fails)


def test_what_is_not_finite_does_not_hold() -> None:
    check = Check("regime", "instance", "bound", 1, mean_of(np.array([1.0, np.nan])), AtMost(3.0))
    verdict = decided([check])[0]
    assert not verdict.holds
    assert verdict.as_dict()["measured"] is None
    assert rounded(1.23456789) == 1.234568


# What is run.


def test_every_regime_has_a_convex_and_a_nonconvex_instance_in_one_and_more_dimensions() -> None:
    by_regime: dict[str, list[Any]] = {}
    for case in cases():
        by_regime.setdefault(case.regime, []).append(case.instance)
    assert len(by_regime) == len(theory.REGIMES) == 18
    for instances in by_regime.values():
        assert {instance.convex for instance in instances} == {True, False}
    assert {instance.dim for instance in INSTANCES} == {1, 2}


def test_every_case_satisfies_the_conditions_of_its_theorem() -> None:
    for case in cases():
        assert not case.statement.violations(), case.regime


def test_every_noise_problem_satisfies_its_theorem_and_its_gradient_at_full_reach_falls_like_the_term() -> None:
    for problem in noise_exponents.PROBLEMS:
        shares = []
        for T in (1000, 1_000_000):
            statement = problem.statement(T)
            assert not statement.violations(), problem.name
            term = next(term for term in statement.terms(T) if term.name == problem.term)
            assert term.exponent == statement.rate, problem.name
            shares.append(problem.L0(T) * statement.schedule(T).gamma * T / term.value)
        assert shares[0] == pytest.approx(shares[1], rel=1e-12), problem.name


def test_the_error_bound_is_what_the_bound_on_the_gradient_charges_twice() -> None:
    statement = INSTANCES[0].statement("nsgdm", "bg0")
    T, (eta, gamma, *_) = 1000, statement.schedule(1000)
    B, G = NOISE["bg0"]
    initial = G * (1 - (1 - eta) ** T) / (eta * T)
    noise = np.sqrt(eta / (2 - eta)) * (G + B * gamma * (T - 1) / 2)
    expected = initial + statement.L0 * gamma * (1 - eta) / eta + noise
    assert error_bound(statement, T).level == pytest.approx(expected)
    with pytest.raises(ValueError, match="stochastic regime"):
        error_bound(INSTANCES[0].statement("nstorm", "deterministic"), T)


@pytest.mark.parametrize("storm", [False, True])
def test_the_conditional_variance_is_that_of_the_recursion_by_hand(storm: bool) -> None:
    rng = np.random.default_rng(0)
    eta, gamma, B, G = 0.3, 0.1, 0.7, 0.4
    steps = rng.normal(size=(5, 2))
    x = np.vstack([np.zeros(2), np.cumsum(gamma * steps / np.linalg.norm(steps, axis=1)[:, None], axis=0)])
    by_hand = [G**2 / 4]
    for before, after in itertools.pairwise(x):
        along = eta * after + (1 - eta) * (after - before if storm else 0)  # what ρ is multiplied by, x⁰ = 0
        by_hand.append((1 - eta) ** 2 * by_hand[-1] + B**2 * along @ along + eta**2 * G**2)
    schedule = theory.Schedule(eta, gamma, 4, None)
    computed = conditional_variance(np.sum(x**2, axis=1)[None], schedule, B, G, storm=storm)
    np.testing.assert_allclose(computed[0], by_hand, rtol=1e-12)


@pytest.mark.parametrize(("families", "dim"), [(ON_A_LINE, 1), (ON_A_PLANE, 2)])
def test_one_of_several_functions_is_that_function(families: Any, dim: int) -> None:
    x = np.linspace(0.3, 0.7, dim)
    with jax.enable_x64(True):
        for family in families:
            one, alone = OneOf.chosen(family, families, np.ones(dim)), family(np.ones(dim))
            assert float(one.value(x)) == float(alone.value(x))
            np.testing.assert_array_equal(one.grad(x), alone.grad(x))
            assert (one.f_inf, one.constants) == (alone.f_inf, alone.constants)


# Right methods pass. This is where CI runs `gladstorm verify --quick`.


def verified(*options: str) -> str:
    """`gladstorm verify` in a process of its own, with programs optimized as users have them: it simulates a lot."""
    command = [sys.executable, "-m", "gladstorm", "verify", "--quick", "--out", "one", *options]
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_regime_passes_every_check_of_quick_and_a_second_call_reads_what_the_first_kept(tmp_path: Path) -> None:
    verified()
    first = (tmp_path / "one/verify.json").read_bytes()
    answer = json.loads(first)
    assert len({case["regime"] for case in answer["cases"]}) == 18
    assert answer["confidence"]["checks"] == len(answer["checks"])
    assert all(check["holds"] for check in answer["checks"])
    assert {check["check"] for check in answer["checks"]} >= {"bound", "slope", "noise exponent", "trajectory"}
    for case in answer["cases"]:
        assert case["slope"], case["slope_remark"]
        assert all(0 < ratio <= 1 + 1e-6 for ratios in case["tightness"].values() for ratio in ratios)
    kept = next((tmp_path / "one/parts").glob("*.json"))
    kept.unlink()  # as if it had been killed before that part
    assert json.loads(verified("--json")) == answer
    assert (tmp_path / "one/verify.json").read_bytes() == first
    assert kept.exists()


# Broken methods do not.


@part
class MomentumWithoutForgetting(Momentum):
    """v⁺ = v + η g: the factor (1 − η) is missing."""

    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return state + self.eta * grad(point)


class Stale(Point):
    """A point at which an oracle that has two samples shows the other one."""


@part
class StormOfTwoSamples(Storm):
    """v⁺ = g(x⁺; ξ) + (1 − η)(v − g(x; ξ')): the second sample is a fresh one."""

    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return grad(point) + (1 - self.eta) * (state - grad(Stale(*previous)))


@part
class TwoSamples(BlumGladyshev):
    """The wrapper with a second, independent sample for stale points."""

    def draw(self, key: Any) -> Any:
        return jax.vmap(super().draw)(jax.random.split(key))

    def batch(self, noise: Any, size: Any) -> Any:
        return tuple(BlumGladyshev.batch(self, each, size) for each in noise)

    def grad(self, point: Any, sample: Any) -> Any:
        return BlumGladyshev.grad(self, point, sample[isinstance(point, Stale)])


def kinds(report: Report) -> set[str]:
    return {verdict.check.kind.split(",")[0] for verdict in report.failures}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """One problem in the plane at two horizons, and nothing with skewed noise: few programs to compile."""
    monkeypatch.setattr(noise_exponents, "PROBLEMS", ())
    return replace(QUICK, horizons=(201, 10_000), fit_from=201, instances=INSTANCES[1:2])


def test_momentum_that_does_not_forget_is_found(small: Settings) -> None:
    def broken(statement: theory.Statement, T: int) -> Method:
        eta, gamma, *_ = statement.schedule(T)
        return Method(MomentumWithoutForgetting(eta), Normalized(gamma))

    report = verify(replace(small, method=broken), ("nsgdm/smooth/bg0",))
    assert "error identity" in kinds(report)


def test_storm_with_a_fresh_second_sample_is_found(small: Settings) -> None:
    def broken(statement: theory.Statement, T: int) -> Method:
        method = planned(statement, T)
        return Method(StormOfTwoSamples(method.estimator.eta), method.step, method.batch)  # type: ignore[attr-defined]  # STORM has

    report = verify(replace(small, method=broken, wrapper=TwoSamples), ("nstorm/smooth/bg0",))
    assert "error identity" in kinds(report)


def test_an_initial_batch_of_half_the_size_is_found(small: Settings) -> None:
    def broken(statement: theory.Statement, T: int) -> Method:
        eta, gamma, n_init, _ = statement.schedule(T)
        return nstorm(gamma, eta, n_init=-(-n_init // 2))

    report = verify(replace(small, method=broken), ("nstorm/smooth/bg0",))
    assert kinds(report) == {"initial error identity"}


# The command.


def test_a_check_that_fails_is_named_and_the_exit_code_is_1(gladstorm: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(QUICK, horizons=(201, 300), fit_from=201, instances=INSTANCES[:1])
    monkeypatch.setattr("gladstorm.verification.bounds.MARGIN", 1e-9)  # no slope is as close as that
    monkeypatch.setattr("gladstorm.verification.QUICK", short)
    code, out, err = gladstorm("verify", "--regime", "nsgdm/smooth/det")
    assert code == 1
    assert "✗" in out
    assert "FAILS nsgdm/smooth/deterministic" in err
    code, out, _ = gladstorm("verify", "--regime", "nsgdm/smooth/det", "--json")
    assert code == 1
    assert gladstorm("verify", "--regime", "nsgdm/smooth/det", "--json")[1] == out  # the same bytes from the same seed


def test_a_regime_that_does_not_exist_and_an_output_that_is_a_file_are_refused(gladstorm: Said, tmp_path: Path) -> None:
    code, _, err = gladstorm("verify", "--regime", "adam")
    assert code == 2
    assert "--regime must be part of one of" in err
    (tmp_path / "file").touch()
    code, _, err = gladstorm("verify", "--out", "file")
    assert code == 2
    assert "--out must be a folder" in err
