"""`gladstorm verify`: what a check asks for, that right methods pass every one, and that broken ones do not."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm import objectives, theory
from gladstorm.foundation.parts import part
from gladstorm.foundation.statistics import Mean, mean_of
from gladstorm.methods import Method, nstorm
from gladstorm.methods.estimators import Momentum, Storm
from gladstorm.methods.steps import Normalized
from gladstorm.oracles import BlumGladyshev, Point, StreamingLeastSquares
from gladstorm.studies.verification import (
    QUICK,
    Report,
    VerificationSettings,
    bounds,
    hardness,
    noise_exponents,
    oracle_variance,
    verify,
)
from gladstorm.studies.verification.cases import cases
from gladstorm.studies.verification.checks import (
    AtMost,
    Check,
    Equals,
    Exceeds,
    NotAbove,
    Within,
    decide,
    log_slope,
    rounded,
)
from gladstorm.studies.verification.error_identity import conditional_variance
from gladstorm.studies.verification.estimator_error import error_bound
from gladstorm.studies.verification.instances import INSTANCES, NOISE, OwnInstance
from gladstorm.studies.verification.one_of import ON_A_LINE, ON_A_PLANE, OneOf
from gladstorm.studies.verification.settings import planned

Said = Callable[..., tuple[int, str, str]]


# What a check is.


def test_every_interval_of_a_report_shares_one_error_probability() -> None:
    alone = Check("regime", "instance", "bound", 1, Mean(0.0, 31**0.5, 31), AtMost(3.0))
    assert decide([alone])[0].holds  # ±2.75 at 99 %
    among_many = decide([alone] * 100)
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
    verdict = decide([check])[0]
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
    assert error_bound(statement, T).error_level == pytest.approx(expected)
    with pytest.raises(ValueError, match="StormMeanSquare: the bound must state how often it charges the error of v"):
        _ = error_bound(INSTANCES[0].statement("nstorm", "deterministic"), T).error_level


def test_the_error_of_a_slope_is_how_far_slopes_scatter() -> None:
    # Seeds shared by all horizons; standard errors of 400 slopes agree with their own scatter to 10 % (2.8 deviations).
    rng = np.random.default_rng(0)
    horizons, n = [10, 100, 1000], 50
    noise = rng.normal(size=(400, 3, n)) + rng.normal(size=(400, 1, n))
    slopes = [log_slope(horizons, np.array([4.0, 2.0, 1.0])[:, None] * (1 + 0.1 * each)) for each in noise]
    stated = np.mean([slope.deviation / np.sqrt(slope.n) for slope in slopes])
    assert stated == pytest.approx(np.std([slope.value for slope in slopes]), rel=0.1)


def test_a_hard_instance_reports_the_step_size_that_arrives_first(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([[30.0, 50.0, 40.0], [10.0, 90.0, 20.0], [np.inf, 60.0, 70.0]])
    monkeypatch.setattr(hardness, "run", lambda *_, **__: None)
    monkeypatch.setattr(hardness, "sfo_until", lambda *_: counts)
    for row in hardness.rows(hardness.chain(0.0057), 0):
        assert (row["sfo"], row["tried"], row["per_seed"]) == (20.0, [40.0, 20.0, 70.0], [10.0, 90.0, 20.0])


def test_the_way_down_that_a_run_must_have_met_is_counted_with_its_sign() -> None:
    """Σ‖∇f‖ ≥ descent/γ − K L0 γ/2: a run that met its least has ratio 1; uphill it need not have met anything."""
    case = next(each for each in cases() if each.smoothness == "smooth" and each.noise == "deterministic")
    T = 11
    statement, objective = case.statement, SimpleNamespace(constants=SimpleNamespace(L0=2.0))
    gamma = statement.schedule(T).gamma
    for descent, most in ((3.0, 1.0), (-3.0, 0.0)):
        least = descent / gamma - (T - 1) * 2.0 * gamma / 2
        met = max(least, 1.0)
        record = SimpleNamespace(
            mean_grad_norm=np.full((1, 2, 1), (met + 0.25) / T),
            grad_norm=np.full((1, 2, 1), 0.25),
            value=np.array([[[descent, 0.0]] * 2]),
        )
        ladder: Any = SimpleNamespace(
            statement=statement, oracle=SimpleNamespace(objective=objective), records={T: record}
        )
        found = bounds._travel(ladder, T)
        assert np.all(found <= most + 1e-9)
        assert descent < 0 or found == pytest.approx(1.0)


def test_a_third_method_is_not_taken_for_one_of_the_two() -> None:
    known = INSTANCES[0].statement("nstorm", "bg0")

    class Third(type(known)):  # type: ignore[misc]  # a regime without a source is not listed
        method = "third"

    third = Third(known.problem, known.gamma0)
    assert theory.on_wrapper(known, known.problem, 100) is not None
    assert theory.on_wrapper(third, known.problem, 100) is None
    assert theory.sharper(third, 100) is None
    with pytest.raises(ValueError, match=r"master: the statement must have a master bound; got .* third/smooth/bg0"):
        error_bound(third, 100)


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
    schedule = theory.Prescription(eta, gamma, 4, None)
    computed = conditional_variance(np.sum(x**2, axis=1)[None], schedule, B, G, corrects_drift=storm)
    np.testing.assert_allclose(computed[0], by_hand, rtol=1e-12)


@pytest.mark.parametrize(("families", "dim"), [(ON_A_LINE, 1), (ON_A_PLANE, 2)])
def test_one_of_several_functions_is_that_function(families: Any, dim: int) -> None:
    with jax.enable_x64(True):
        x = jax.numpy.linspace(0.3, 0.7, dim)
        for family in families:
            one, alone = OneOf.chosen(family, families, np.ones(dim)), family(np.ones(dim))
            assert float(one.value(x)) == float(alone.value(x))
            np.testing.assert_array_equal(one.grad(x), alone.grad(x))
            assert (one.f_inf, one.constants) == (alone.f_inf, alone.constants)


# Right methods pass. This is where CI runs `gladstorm verify --quick`.


def verified(*options: str) -> str:
    """`gladstorm verify` in a process of its own, with programs optimized a little: it simulates a lot."""
    command = [sys.executable, "-m", "gladstorm", "verify", "--quick", "--out", "one", *options]
    a_little = "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true"
    environment = os.environ | {"XLA_FLAGS": f"{a_little} --xla_cpu_parallel_codegen_split_count=1"}
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
    kept = next((tmp_path / "one/parts").glob("*/*/*.json"))
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
def small(monkeypatch: pytest.MonkeyPatch) -> VerificationSettings:
    """One problem in the plane at two horizons, and nothing with skewed noise: few programs to compile."""
    monkeypatch.setattr(noise_exponents, "PROBLEMS", ())
    return replace(QUICK, horizons=(201, 10_000), fit_from=201, instances=INSTANCES[1:2])


def test_momentum_that_does_not_forget_is_found(small: VerificationSettings) -> None:
    def broken(statement: theory.Statement, T: int) -> Method:
        eta, gamma, *_ = statement.schedule(T)
        return Method(MomentumWithoutForgetting(eta), Normalized(gamma))

    report = verify(replace(small, method=broken), ("nsgdm/smooth/bg0",))
    assert "error identity" in kinds(report)


def test_storm_with_a_fresh_second_sample_is_found(small: VerificationSettings) -> None:
    def broken(statement: theory.Statement, T: int) -> Method:
        method = planned(statement, T)
        return Method(StormOfTwoSamples(method.estimator.eta), method.step, method.batch)  # type: ignore[attr-defined]  # STORM has

    report = verify(replace(small, method=broken, wrapper=TwoSamples), ("nstorm/smooth/bg0",))
    assert "error identity" in kinds(report)


def test_an_initial_batch_of_half_the_size_is_found(small: VerificationSettings) -> None:
    def broken(statement: theory.Statement, T: int) -> Method:
        eta, gamma, n_init, _ = statement.schedule(T)
        return nstorm(gamma, eta, n_init=-(-n_init // 2))

    report = verify(replace(small, method=broken), ("nstorm/smooth/bg0",))
    assert kinds(report) == {"initial error identity"}


# Noise that problems have by themselves.


@part
class Louder(StreamingLeastSquares):
    """Samples whose noise is a tenth larger than its closed form says."""

    def grad(self, point: Any, sample: Any) -> Any:
        return point.grad + 1.1 * (StreamingLeastSquares.grad(self, point, sample) - point.grad)


class LouderInstance(OwnInstance):
    """Its noise is declared as that of the quiet one."""

    def _noisy(self, distance: float, noise: str, wrapper: Any = None) -> Any:
        return Louder(self.at_distance(distance))


def test_noise_that_is_larger_than_its_closed_form_is_found() -> None:
    case = next(case for case in cases(("nsgdm",), INSTANCES) if case.instance.name.startswith("streaming"))
    assert all(verdict.holds for verdict in decide(list(oracle_variance.checks(case, QUICK))))
    louder = replace(case, instance=LouderInstance(**vars(case.instance)))
    found = decide(list(oracle_variance.checks(louder, QUICK)))
    assert {each.check.kind for each in found if not each.holds} >= {f"oracle variance, r = {r}" for r in (0, 1, 30)}


@part
class Biased(StreamingLeastSquares):
    """A tenth of the noise's size off, at right angles to the way along which the distances are."""

    def grad(self, point: Any, sample: Any) -> Any:
        sideways = jnp.where(jnp.arange(point.grad.size) % 2, -1.0, 1.0) / point.grad.size**0.5
        return StreamingLeastSquares.grad(self, point, sample) + 0.1 * jnp.sqrt(self.variance(point)) * sideways


class BiasedInstance(OwnInstance):
    """Its noise is declared as if it had mean 0."""

    def _noisy(self, distance: float, noise: str, wrapper: Any = None) -> Any:
        return Biased(self.at_distance(distance))


def test_a_bias_is_found_whichever_way_it_points() -> None:
    case = next(case for case in cases(("nsgdm",), INSTANCES) if case.instance.name.startswith("streaming"))
    biased = replace(case, instance=BiasedInstance(**vars(case.instance)))
    found = decide(list(oracle_variance.checks(biased, QUICK)))
    assert {each.check.kind for each in found if not each.holds} >= {f"oracle mean, r = {r}" for r in (0, 1, 30)}


def test_a_problem_outside_the_model_is_refused() -> None:
    outside = OwnInstance("Poisson", "smooth", True, lambda _: objectives.named("poisson-regression"), 5, 1.0)
    with pytest.raises(ValueError, match="the theorems say nothing about PoissonRegression: its noise grows faster"):
        outside.statement("nsgdm", "bg0")


# The command.


def test_a_check_that_fails_is_named_and_the_exit_code_is_1(gladstorm: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(QUICK, horizons=(201, 300), fit_from=201, instances=INSTANCES[:1])
    monkeypatch.setattr("gladstorm.studies.verification.bounds.MARGIN", 1e-9)  # no slope is as close as that
    monkeypatch.setattr("gladstorm.studies.verification.QUICK", short)
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
