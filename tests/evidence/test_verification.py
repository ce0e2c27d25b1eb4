"""The verification: what a check asks for, that right methods pass every one, and that broken ones do not."""

import inspect
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidence.verification import (
    FULL,
    QUICK,
    Verdict,
    VerificationReport,
    bounds,
    broken,
    growing_steps,
    hardness,
    identities,
    lower_bound,
    noise_exponents,
    oracle_variance,
    printed_bounds,
    wider,
)
from evidence.verification.cases import Ladder, cases
from evidence.verification.checks import (
    AtMost,
    Between,
    Check,
    Equals,
    NotAbove,
    Within,
    decide,
    level_of_each,
    log_slope,
    rounded,
)
from evidence.verification.estimator_error import error_bound, error_feedback, error_level
from evidence.verification.identities import conditional_variance
from evidence.verification.instances import INSTANCES, NOISE, ON_A_LINE, ON_A_PLANE, OneOf, OwnInstance
from evidence.verification.page import load
from evidence.verification.run import OF_REGIMES, STUDIES
from evidence.verification.settings import Builder, noisy_runway, planned
from gladstorm import theory
from gladstorm.core.statistics import Mean, mean_of
from gladstorm.methods import Method, nstorm
from gladstorm.problems import objectives
from gladstorm.problems.oracles import BlumGladyshev, NormNoise
from gladstorm.theory.every_setting import kind_of
from gladstorm.theory.master_bounds import MASTERS, Bound
from gladstorm.theory.sharper_bounds import SECOND_OPINIONS
from gladstorm.theory.statement import Statement

Said = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


# What a check is.


def test_every_interval_of_a_report_shares_one_error_probability() -> None:
    alone = Check("regime", "instance", "bound", 1, Mean(0.0, 31**0.5, 31), AtMost(3.0))
    assert decide([alone])[0].holds  # ±2.75 at 99 %
    others = [replace(alone, measured=Mean(-float(n), 31**0.5, 31)) for n in range(1, 100)]
    among_many = decide([alone, *others])
    assert not among_many[0].holds  # ±4.48 at 99.99 %
    assert among_many[0].high == pytest.approx(4.48, abs=0.01)


def test_claims_about_one_number_and_numbers_without_randomness_make_no_interval_wider() -> None:
    alone = Check("regime", "instance", "bound", 1, Mean(0.0, 31**0.5, 31), AtMost(3.0))
    again = replace(alone, regime="another", claim=NotAbove(5.0))
    exact = [replace(alone, measured=Mean(float(n), 0.0, 31), claim=Equals(float(n))) for n in range(100)]
    assert [verdict.holds for verdict in decide([alone, again, *exact])] == [True] * 102
    report = VerificationReport(QUICK, decide([alone, again, *exact]), {}).as_dict()["confidence"]
    assert (report["checks"], report["numbers"], report["random_numbers"], report["level"]) == (102, 101, 1, 0.99)


@pytest.mark.parametrize(
    ("claim", "holds", "fails"),
    [
        (AtMost(1.0), (0.2, 1.0), (0.2, 1.1)),
        (NotAbove(1.0), (0.9, 2.0), (1.1, 2.0)),
        (Between(1.0, 2.0), (1.1, 2.0), (0.9, 2.0)),
        (Between(1.0, 2.0), (1.1, 1.9), (1.1, 2.1)),
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
            eta, gamma, *_ = statement.schedule(T)
            pushed = np.sqrt(noise_exponents.RARE * eta) * max(
                problem.B * (gamma * T) ** (problem.growth / 2), problem.G
            )
            f = problem.oracle(T).objective
            with jax.enable_x64(True):
                at = jnp.array([gamma * T])
                pulled, bent = float(f.grad(at)[0]), float(jax.jacfwd(f.grad)(at)[0, 0])
            assert pulled == pytest.approx(pushed / 2, rel=1e-12), problem.name
            assert 0 <= bent <= problem.L0(T) * (1 + 1e-12), problem.name
            shares.append(pulled / term.value)
        exact = 1e-12 if problem.growth == 2 else 0.02  # our bounds have √(η/(2 − η)) where the paper's have √η
        assert shares[0] == pytest.approx(shares[1], rel=exact), problem.name


def test_the_error_bound_is_what_the_bound_on_the_gradient_charges_twice() -> None:
    statement = INSTANCES[0].statement("nsgdm", "bg0")
    T, (eta, gamma, *_) = 1000, statement.schedule(1000)
    B, G = NOISE["bg0"]
    initial = G * (1 - (1 - eta) ** T) / (eta * T)
    noise = np.sqrt(eta / (2 - eta)) * (G + B * gamma * (T - 1) / 2)
    expected = initial + statement.L0 * gamma * (1 - eta) / eta + noise
    assert error_level(error_bound(statement, T)) == pytest.approx(expected)


def test_the_error_of_a_slope_is_how_far_slopes_scatter() -> None:
    # Seeds shared by all horizons; standard errors of 400 slopes agree with their own scatter to 10 % (2.8 deviations).
    rng = np.random.default_rng(0)
    horizons, n = [10, 100, 1000], 50
    noise = rng.normal(size=(400, 3, n)) + rng.normal(size=(400, 1, n))
    slopes = [log_slope(horizons, np.array([4.0, 2.0, 1.0])[:, None] * (1 + 0.1 * each)) for each in noise]
    stated = np.mean([slope.deviation / np.sqrt(slope.n) for slope in slopes])
    assert stated == pytest.approx(np.std([slope.value for slope in slopes]), rel=0.1)


def test_a_hard_instance_is_tuned_on_seeds_that_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine configurations each; the third of them arrives first on the tuning seeds, whatever happens on the others."""
    tried = np.array([[30.0] * 4, [np.inf] * 4, [10.0] * 4, *([[50.0] * 4] * 6)])
    asked = []

    def ran(_hard: Any, tuned: Any, gamma: np.ndarray, second: np.ndarray, seeds: range) -> np.ndarray:
        asked.append((gamma, second, set(seeds)))
        return tried if gamma.size == 9 else np.arange(1.0, 17.0)[None] * (2 if tuned.made is nstorm else 1)

    monkeypatch.setattr(hardness, "_counts", ran)
    for row in hardness.rows(hardness.chain(0.0057), 0):
        (grid, seconds, tuning), (gamma, second, reported), *_ = asked
        asked = asked[2:]
        assert not tuning & reported
        assert (gamma, second) == (grid[2], seconds[2])
        assert row["tried"][0] == [30.0, None, 10.0]
        relative = 2.0 if row["method"] == "NSTORM" else 1.0
        assert row["relative"] == pytest.approx([relative] * 3)
        assert row["sfo"] == 8.5 * relative


def ladder_of(regime: str, norms: dict[int, float], error: float = 0.0, left: float = 0.0) -> Ladder:
    """A case as if it had been run: E‖∇f(x̂)‖ by horizon, the mean error of v, and how much of the gap is left."""
    case = next(iter(cases((regime,))))
    records: dict[int, Any] = {
        T: SimpleNamespace(
            mean_grad_norm=np.full((1, 4, 1), norm),
            mean_error=np.full((1, 4, 1), error),
            gap=np.full((1, 4, 1), left * case.statement.problem.gap),
        )
        for T, norm in norms.items()
    }
    return Ladder(case, case.statement, case.instance.oracle(case.method, case.noise), records)


@pytest.mark.parametrize("regime", ["nsgdm/sublinear/bg0", "nstorm/linear/bounded", "nstorm/linear/deterministic"])
def test_a_measurement_is_held_against_the_smallest_bound_and_not_only_against_the_paper_s(regime: str) -> None:
    smallest = min(bounds.bounds_at(ladder_of(regime, {}), 1000).values())
    assert smallest < 0.6 * ladder_of(regime, {}).statement.bound(1000)
    for norm, found in ((0.99 * smallest, set()), (1.01 * smallest, {"bound"})):
        assert failures(bounds.checks(ladder_of(regime, {1000: norm}, left=1.0), 1000)) == found


def test_a_bound_whose_conditions_fail_counts_for_nothing() -> None:
    ladder = ladder_of("nsgdm/linear/deterministic", {})
    assert bounds.bounds_at(ladder, 100).keys() == {"bound", "sharper bound"}
    too_long = replace(ladder.statement, gamma0=100 * ladder.statement.largest_gamma0())
    assert bounds.bounds_at(replace(ladder, statement=too_long), 100).keys() == {"bound"}


def test_a_slope_is_checked_on_both_sides_once_the_runs_have_descended() -> None:
    def checked(exponent: float, left: float) -> list[Check]:
        norms = {T: 1e-3 * T**exponent for T in (201, 1000, 10_000)}
        every = bounds.checks(ladder_of("nsgdm/smooth/bg0", norms, left=left), 1000)
        return [check for check in every if check.kind == "slope"]

    assert not checked(-1 / 6, left=0.26)
    for exponent, found in ((-1 / 6 - 0.04, set()), (-1 / 6 + 0.04, set()), (-0.22, {"slope"}), (-0.11, {"slope"})):
        assert failures(checked(exponent, left=0.24)) == found


@pytest.mark.parametrize("regime", ["nsgdm/linear/bg0", "nsgdm/sublinear/bounded", "nstorm/linear/bg0"])
def test_the_error_of_v_may_be_as_large_as_the_level_and_the_feedback_together(regime: str) -> None:
    T, norm = 1000, 50.0
    bound = error_bound(ladder_of(regime, {}).statement, T)
    assert error_feedback(bound) > 0
    allowed = error_level(bound) + error_feedback(bound) * norm
    for share, found in ((0.99, set()), (1.01, {"estimator error"})):
        ladder = ladder_of(regime, {T: norm}, error=share * allowed)
        assert failures(bounds.error_checks(ladder)) == found
        assert bounds.error_tightness(ladder) == pytest.approx([share])


def test_the_counterexample_must_exceed_the_largest_printed_bound_and_stay_below_every_corrected_one() -> None:
    run = SimpleNamespace(mean_grad_norm=np.ones((1, 4, 1)))
    settings: Any = SimpleNamespace(counterexample=10**6, method=planned, simulate=lambda *_: run)
    found = printed_bounds.measure(settings)
    rows = found.rows["printed bounds"]
    false, true = max(row["printed"] for row in rows), min(row["corrected"] for row in rows)
    assert vars(found.checks[0].claim) == pytest.approx({"false": false, "true": true}, rel=1e-6)


def test_a_hard_instance_needs_half_of_the_waits_of_its_chain() -> None:
    hard = hardness.chain(0.0057)
    assert hard.needed * 2 * float(hard.oracle.p) + np.log(2) == pytest.approx(np.size(hard.oracle.objective.start))


@pytest.mark.parametrize("growth", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("storm", [False, True])
def test_the_conditional_variance_is_that_of_the_recursion_by_hand(storm: bool, growth: float) -> None:
    rng = np.random.default_rng(0)
    eta, gamma, B, G = 0.3, 0.1, 0.7, 0.4
    steps = rng.normal(size=(5, 2))
    x = np.vstack([np.zeros(2), np.cumsum(gamma * steps / np.linalg.norm(steps, axis=1)[:, None], axis=0)])
    by_hand = [G**2 / 4]
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    stretched = x * np.where(lengths > 0, lengths, 1.0) ** (growth / 2 - 1)
    for before, after in itertools.pairwise(stretched):
        along = eta * after + (1 - eta) * (after - before if storm else 0)  # what ρ is multiplied by, x⁰ = 0
        by_hand.append((1 - eta) ** 2 * by_hand[-1] + B**2 * along @ along + eta**2 * G**2)
    schedule = theory.Prescription(eta, gamma, 4, None)
    drift2 = np.sum(x**2, axis=1)[None]
    computed = conditional_variance(drift2, schedule, B, G, corrects_drift=storm, growth=growth)
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


# Right methods pass. This is where CI runs `python -m evidence verification --quick`.


def verified(*options: str) -> str:
    """The command in a process of its own, with programs optimized a little: it simulates a lot."""
    command = [sys.executable, "-m", "evidence", "verification", "--quick", "--out", "one", *options]
    a_little = os.environ["XLA_FLAGS"].replace("optimization_level=0", "optimization_level=1")  # of conftest.py
    environment = os.environ | {"XLA_FLAGS": a_little}
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
    assert all(check["check"].startswith(tuple(answer["meaning"])) for check in answer["checks"])
    assert {check["check"] for check in answer["checks"]} >= {"bound", "slope", "noise exponent", "travel"}
    random = [check for check in answer["checks"] if check["low"] < check["high"]]
    equal = ("noise in", "batches of")  # at r = 0 and 1; where a rule's batch is 1, as it is without one
    measured = [check["measured"] for check in random if not any(words in check["instance"] for words in equal)]
    assert len(set(measured)) == len(measured) <= answer["confidence"]["random_numbers"]  # one number is one check
    for regime in ("nsgdm/smooth/bg0", "nstorm/smooth/bg0"):
        own = {case["instance"] for case in answer["cases"] if case["regime"] == regime}
        assert own >= {"streaming least squares, d = 2", "variational Gaussian, d = 1"}
    for case in answer["cases"]:
        assert case["slope"], case["slope_remark"]
        assert all(0 < ratio <= 1 + 1e-6 for ratios in case["tightness"].values() for ratio in ratios)
    kept = next((tmp_path / "one/parts").glob("*/*/*.json"))
    kept.unlink()  # as if it had been killed before that part
    assert json.loads(verified("--json")) == answer | {"broken": []}  # none was tried
    assert (tmp_path / "one/verify.json").read_bytes() == first
    assert kept.exists()


def test_every_part_can_be_sent_to_another_process() -> None:
    selected = list(cases((), FULL.instances))
    for module in (*OF_REGIMES, *STUDIES):
        for name, compute in module.parts(selected, FULL):
            assert pickle.dumps(compute), name


def test_the_mean_along_the_way_is_exact_where_every_iterate_is_recorded_and_larger_elsewhere() -> None:
    growing = theory.GrowingSteps(theory.Problem(alpha=0, L0=1, B=0, G=0, gap=1), growing_steps.FIRST, 1e4, 100)
    norms = np.random.default_rng(0).uniform(1, 2, (3, 101))
    means = np.cumsum(norms, axis=1) / np.arange(1, 102)

    def mean(stride: int) -> tuple[int, np.ndarray]:
        every = np.arange(0, 101, stride)
        record: Any = SimpleNamespace(steps=every, mean_stationarity=means[None, :, every])
        return growing_steps.along_the_way(record, growing)

    k, exact = mean(1)
    assert k == growing.best()
    np.testing.assert_allclose(exact, norms[:, :k] @ 1e-5 ** (1 - np.arange(k) / 125) / growing.length(k))
    assert np.all(mean(5)[1] > mean(1)[1])


# Broken methods do not.


FEW = replace(QUICK, horizons=(201, 1000), blocks=2)
LEVEL = level_of_each(300)  # as if these checks were among those of a report


def failures(checks: Iterable[Check]) -> set[str]:
    verdicts = [Verdict(check, *check.measured.interval(LEVEL)) for check in checks]
    return {verdict.check.kind.split(",")[0] for verdict in verdicts if not verdict.holds}


def on_the_plane(regime: str, method: Builder = planned, wrapper: Any = BlumGladyshev) -> set[str]:
    return failures(identities.checks(identities.statements()[regime], replace(FEW, method=method, wrapper=wrapper)))


@pytest.mark.parametrize("regime", [name for name in identities.statements() if "deterministic" not in name])
def test_a_step_a_tenth_short_and_an_eta_a_tenth_too_large_are_found_in_every_noisy_regime(regime: str) -> None:
    def both(statement: theory.Statement, T: int) -> Method:
        return broken.rescheduled(statement, T, gamma=0.9, eta=1.1)

    assert on_the_plane(regime, both) == {"travel", "error identity"}


def test_a_gamma_exponent_of_78_hundredths_is_found_wherever_it_should_be_75() -> None:
    steep = next(each for each in broken.BROKEN if each.method is broken.steep)
    assert steep.regimes == ["nstorm/smooth/bg0", *(f"nsgdm/{each}/bounded" for each in identities.ALPHAS)]
    settings = replace(FEW, method=steep.method)
    for regime in steep.regimes:
        assert failures([identities._travel(identities.statements()[regime], settings)]) == {"travel"}
    assert not failures([identities._travel(identities.statements()["nsgdm/smooth/bg0"], settings)])


@pytest.mark.parametrize(
    ("regime", "mistake", "found"),
    [
        ("nstorm/smooth/bg0", "N_init half as large", {"initial error identity", "error identity"}),
        ("nsgdm/smooth/bg0", "momentum without the factor 1 − η", {"error identity"}),
        ("nstorm/smooth/bg0", "STORM without the factor 1 − η on the old gradient", {"error identity"}),
        ("nstorm/smooth/bg0", "STORM with a fresh sample at the old point", {"error identity"}),
    ],
)
def test_a_broken_estimator_is_found(regime: str, mistake: str, found: set[str]) -> None:
    (wrong,) = (each for each in broken.BROKEN if each.name == mistake)
    assert regime in wrong.regimes
    assert on_the_plane(regime, wrong.method, wrong.wrapper) == found


@pytest.mark.parametrize("wrong", [each for each in broken.BROKEN if each.regimes == ["oracle"]], ids=lambda w: w.name)
def test_a_broken_oracle_is_found_whichever_way_it_leans(wrong: broken.Broken) -> None:
    settings = wrong.settings(QUICK)
    plane = next(case for case in cases(("nsgdm/linear/bg0",)) if case.instance.dim == 2)
    (law,) = oracle_variance.laws([plane], settings).values()
    assert failures(oracle_variance.checks(law, settings)) & {"oracle mean", "oracle variance"}


@pytest.mark.parametrize(
    ("hard_problem", "found"),
    [
        (noisy_runway, set()),
        (broken.one_coin, {"hard problem links"}),
        (broken.dense, {"hard problem class"}),
        (broken.silent, {"hard problem class"}),
    ],
)
def test_a_broken_problem_of_the_lower_bound_is_found(hard_problem: Any, found: set[str]) -> None:
    assert failures(lower_bound.checks(replace(FEW, hard_problem=hard_problem))) == found


@pytest.mark.parametrize("name", ["τ forgotten", "weight decay in the wrong norm", "R for r̄"])
def test_a_mistake_beyond_the_paper_s_regimes_is_found(name: str) -> None:
    (wrong,) = (each for each in broken.BEYOND if each.name == name)
    row = broken.found(wrong, LEVEL)
    assert row["found_in"] == row["affects"] > 0


def test_the_table_of_broken_methods_shows_that_each_is_found_wherever_it_matters() -> None:
    rows = json.loads((ROOT / "docs/evidence/verification/broken.json").read_text("utf-8"))
    assert [row["broken"] for row in rows] == [each.name for each in broken.BROKEN]
    assert [row["affects"] for row in rows] == [len(each.regimes) for each in broken.BROKEN]
    assert all(row["found_in"] == row["affects"] > 0 for row in rows)
    assert sum(row["affects"] for row in rows[-len(broken.BEYOND) :]) >= 40


# Rows beyond the paper's.


def test_every_wider_row_is_in_the_class_that_its_plan_is_about() -> None:
    """The gap, τ of the step's norm, and for NSTORM a sample's change of at most B‖y − x‖ beside that of ∇f."""
    assert {(row.method, row.norm, row.decays) for row in wider.ROWS} >= set(
        itertools.product(("nsgdm", "nstorm"), wider.NORMS, (False, True))
    )
    rng = np.random.default_rng(0)
    for row in (each for each in wider.ROWS if each.method == "nstorm"):
        oracle = row.oracle(0.5)
        x, y = oracle.objective.start + rng.normal(size=(2, oracle.objective.start.size)) * 3
        with jax.enable_x64(True):
            here, there = (oracle.at(jnp.asarray(each)) for each in (x, y))
            away = float(oracle.norm.length(_like(oracle.objective, jnp.asarray(y - x))))
            assert abs(float(oracle.grown(there) - oracle.grown(here))) <= away
        problem = row.plan(0.5, 100).problem
        f: Any = oracle.objective
        assert problem.gap == pytest.approx(float(f.value(jnp.asarray(f.start))) - f.f_inf, rel=1e-5)
        assert problem.norm.tau**2 == pytest.approx({"eu": 1, "si": 4, "sp": 3}[row.norm[:2]])


def _like(f: Any, x: Any) -> Any:
    return f.tree.unflatten(x) if hasattr(f, "tree") else x


def stated(kind: Any) -> set[Any]:
    """Every class of the package below one, but abstract ones."""
    below: set[Any] = set()
    for child in kind.__subclasses__():
        below |= {child, *stated(child)}
    return {each for each in below if each.__module__.startswith("gladstorm.") and not inspect.isabstract(each)}


def test_every_statement_of_the_theory_has_a_row_of_the_published_report() -> None:
    """The paper's corollaries, and by their labels S1 to S10, S, H, A9, B9, and G for both methods."""
    report = load(ROOT / "docs/evidence/verification")
    of_cases = {source for case in report["cases"] for source in case["sources"]}
    assert {row.source for row in theory.REGIMES.values()} <= of_cases
    beyond = report["studies"]["wider"]
    shown = {tuple(case["regime"].split("/")) for case in report["cases"]}
    labels = {source.split(":")[0] for source in of_cases} | {
        each for row in beyond for each in row["source"].split(", ")
    }
    labels |= {kind.source.split(":")[0] for regime, kind in SECOND_OPINIONS.items() if regime in shown}  # the smallest
    for bound in stated(Bound) - set(MASTERS.values()):  # a corollary is its master bound at powers of T
        assert bound.source.split(":")[0] in labels, bound
    assert {row["row"].split(",")[0] for row in beyond if row["source"] == "G"} == {"NSGDM", "NSTORM"}
    own = stated(Statement) - {each.kind for each in theory.REGIMES.values()}
    assert {each.__name__ for each in own} == {
        "FreeRun",
        "FreeMomentum",
        "FreeStorm",
        "PlainSgd",
    }  # S1, S2, S7 to S9; S, H
    assert labels >= {"S", "H", "S9", "A9", "B9", theory.GrowingSteps.source.split(":")[0]}


def test_every_bound_has_rows_in_every_norm_with_and_without_decay() -> None:
    rows = [row for row in wider.ROWS if type(row) is wider.Wider and row.method != "sgd"]
    every = itertools.product(("nsgdm", "nstorm"), wider.NORMS, wider.ALPHAS, (False, True))
    assert {(row.method, row.norm, row.alpha, row.decays) for row in rows} == set(every)
    for row in rows:
        for growth in (1.0, 2.0):
            planned = row.plan(growth, 1000)
            label = kind_of(row.method, planned.problem).source.split(":")[0]
            assert planned.statement.source.startswith((f"{label}:", "S9:", "Theorem")), row.name


def laws_of_noise() -> Iterable[Check]:
    return (check for law in wider.laws().values() for check in oracle_variance.checks(law, QUICK))


@pytest.mark.parametrize("wrong", ["growth", "norm"])
def test_noise_of_another_growth_or_in_another_norm_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not failures(laws_of_noise())
    right = NormNoise.at

    def at(self: Any, x: Any) -> Any:
        point = right(self, x)
        longer = 1.5 * point.distance if wrong == "norm" else point.distance ** (1 + 1 / (2 * self.growth))
        return point._replace(distance=longer)  # a + ½

    with monkeypatch.context() as changed:
        changed.setattr(NormNoise, "at", at)
        jax.clear_caches()
        assert "oracle variance" in failures(laws_of_noise())
    jax.clear_caches()


# What follows from the construction is no check of `verify`, but it is so.


def test_without_noise_v_is_the_gradient_and_no_run_gets_farther_than_its_steps() -> None:
    for case in cases(("smooth/deterministic", "linear/bounded"), INSTANCES[1::4]):
        statement, T = case.statement, 201
        oracle = case.instance.oracle(case.method, case.noise)
        record = QUICK.simulate(oracle, planned(statement, T), T)
        gamma = statement.schedule(T).gamma
        assert np.all(np.sqrt(record.drift2[0]) <= gamma * record.steps * (1 + 1e-12))
        assert np.sqrt(record.drift2[0, :, 1]) == pytest.approx(gamma, rel=1e-12)  # the first step is of that length
        if case.noise == "deterministic":
            assert np.all(record.error[0] <= 1e-12 * record.grad_norm[0])
        else:
            assert np.all(record.error[0].max(axis=1) > 0)
        if case.smoothness == "smooth":
            L0 = oracle.objective.constants.L0  # type: ignore[union-attr]  # instances declare their constants
            met = (T * record.mean_grad_norm[0, :, -1] - record.grad_norm[0, :, -1]) / (T - 1)
            for seed, descent in enumerate(record.value[0, :, 0] - record.value[0, :, -1]):
                assert theory.travel_lower_bound(L0, gamma, T - 1, descent) <= met[seed]


def test_a_problem_outside_the_model_is_refused() -> None:
    outside = OwnInstance("Poisson", "smooth", True, lambda _: objectives.named("poisson-regression"), 5, 1.0)
    with pytest.raises(ValueError, match="the theorems say nothing about PoissonRegressionOracle: its noise grows"):
        outside.statement("nsgdm", "bg0")


# The command.


def test_a_check_that_fails_is_named_and_the_exit_code_is_1(evidence: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(QUICK, horizons=(201, 300), fit_from=201, instances=INSTANCES[:1])
    monkeypatch.setattr("evidence.verification.bounds.MARGIN", 1e-9)  # no slope is as close as that
    monkeypatch.setattr("evidence.verification.QUICK", short)
    monkeypatch.setattr("evidence.verification.figures.draw", lambda *_: None)  # no law of figures is tested here
    code, _, err = evidence("verification", "--regime", "nsgdm/smooth/det")
    assert code == 1
    assert "FAILS nsgdm/smooth/deterministic" in err
    code, out, _ = evidence("verification", "--regime", "nsgdm/smooth/det", "--json")
    assert code == 1
    assert (
        evidence("verification", "--regime", "nsgdm/smooth/det", "--json")[1] == out
    )  # the same bytes from the same seed
