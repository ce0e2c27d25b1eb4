"""From tables of probes whose truth is known to what is said about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gladstorm.diagnosis import Probe, Probes, Report, diagnose, spread
from gladstorm.diagnosis.curvature import Cells, _fits, _means, _ratio, _roots, _slopes
from gladstorm.diagnosis.design import places
from gladstorm.diagnosis.finding import Finding
from gladstorm.diagnosis.probes import FORM
from gladstorm.diagnosis.report import MEANINGS
from gladstorm.diagnosis.resampling import Fits, Strata, fit_noise, mean_of_strata
from gladstorm.jobs.files import save_table
from gladstorm.theory import plan

ROOT = Path(__file__).parents[2]
QUANTITIES = ["G", "B", "power", "anchor", "ell", "L", "rho", "alpha", "L0", "L1", "critical_batch"]
M, N, D = 4, 8, 10  # groups, samples in each, dimension


def table(
    *,
    B: float = 0.5,
    G: float = 0.5,
    power: float = 2.0,
    radius: float = 3.0,
    budget: int = 192,
    minimiser: float = 0.0,
    least: float = 0.0,
    curvature: float = 1.0,
    seed: int = 0,
) -> Probes:
    """Probes of f(x) = ½‖x − minimiser e₁‖² times curvature, with gradient B ρ‖x − a‖^(p/2) u + G v beside its own.

    u and v are Gaussian with E‖u‖² = E‖v‖² = 1, and a = least e₁, so V = G² + B²‖x − a‖^p exactly. The path is e₁.
    """
    generator = np.random.default_rng(seed)
    path = np.eye(D)[0]
    rows = []
    for i, place in enumerate(places(budget, True, generator)):
        random = np.random.default_rng((seed, place.draw + 1)).normal(size=D)
        u = place.sign * (path if place.draw < 0 else random / np.linalg.norm(random))
        x = place.radius * radius * u
        near, far = generator.normal(size=(2, M, D)) / np.sqrt(D * N)

        def gradients(y: np.ndarray, near: np.ndarray = near, far: np.ndarray = far) -> np.ndarray:
            grown = np.linalg.norm(y - least * path) ** (power / 2)
            return np.asarray(curvature * (y - minimiser * path) + G * near + B * grown * far)

        here, there = gradients(x), gradients(x + 0.1 * u)
        rows.append(probe(i, place.pair, place.direction, place.radius * radius, here, there, 0.1))
    return Probes.of(rows)


def probe(
    step: int, pair: int, direction: str, distance: float, here: np.ndarray, there: np.ndarray, moved: float
) -> Probe:
    """From the groups' gradients at the two points."""
    noise, gradient2 = spread(np.sum(here**2, axis=1).tolist(), float(np.sum(here.sum(axis=0) ** 2)), N)
    change = (there - here) / moved
    own, mean2 = spread(np.sum(change**2, axis=1).tolist(), float(np.sum(change.sum(axis=0) ** 2)), N)
    return Probe(step, pair, direction, distance, len(here), N, noise, gradient2, moved, own + mean2, mean2)


def test_the_spread_of_groups_is_that_of_their_samples_without_bias() -> None:
    gradients = np.random.default_rng(1).normal(loc=2.0, size=(20_000, 3, 5))  # of 20,000 times three groups
    found = [spread(np.sum(g**2, axis=1).tolist(), float(np.sum(g.sum(axis=0) ** 2)), 7) for g in gradients]
    noise, mean2 = np.mean(found, axis=0)
    assert noise == pytest.approx(7 * 5, rel=0.01)  # a group's mean has a seventh of a sample's variance
    assert mean2 == pytest.approx(4 * 5, rel=0.02)
    by_definition = 7 * np.sum((gradients[0] - gradients[0].mean(axis=0)) ** 2) / 2
    assert found[0][0] == pytest.approx(by_definition)


def test_probes_come_back_from_their_file(tmp_path: Path) -> None:
    probes = table(budget=16)
    probes.save(tmp_path / "run.parquet")
    again = Probes.load(tmp_path / "run.parquet")
    for name in Probe._fields:
        np.testing.assert_array_equal(getattr(again, name), getattr(probes, name))
    assert again.remarks == probes.remarks
    columns = {name: getattr(probes, name) for name in Probe._fields if name not in Probe._field_defaults}
    save_table(tmp_path / "old.parquet", [pa.table(columns)], FORM, {"remarks": []})  # as they were before
    assert np.isnan(Probes.load(tmp_path / "old.parquet").first).all()
    data = bytearray((tmp_path / "run.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "run.parquet").write_bytes(data)
    with pytest.raises(ValueError, match="changed or damaged"):
        Probes.load(tmp_path / "run.parquet")
    for absurd in ({"groups": 0 * probes.groups}, {"samples": 0 * probes.samples}, {"distance": -1 - probes.distance}):
        Probes(**{**vars(probes), **absurd}).save(tmp_path / "absurd.parquet")
        with pytest.raises(ValueError, match=r"absurd\.parquet must hold probes of two groups or more"):
            Probes.load(tmp_path / "absurd.parquet")
    empty = {name: column[:0] for name, column in vars(probes).items()}
    Probes(**empty).save(tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="or none"):
        Probes.load(tmp_path / "empty.parquet")


def test_what_a_table_of_a_training_cannot_tell_for_one_reason_shares_a_row() -> None:
    nothing = np.full(len(table().noise), np.nan)
    rows = diagnose(Probes(**{**vars(table()), "moved": nothing, "ell2": nothing, "L2": nothing})).rows
    assert [row[0] for row in rows] == ["G", "B", "power", "anchor", "ell, L, rho, alpha, L0, L1", "critical_batch"]
    assert rows[4][4].count("; ") == 5


def test_a_pair_counts_once_with_the_mean_and_the_degrees_of_freedom_of_both() -> None:
    rows = [Probe(i, i // 2, "random", 1.0, 4, 8, V, 2 * V, 0.1, 3 * V, 4 * V) for i, V in enumerate((1.0, 3.0, 5.0))]
    pairs = Probes.of(rows).paired()
    assert pairs.noise.tolist() == [2.0, 5.0]
    assert pairs.gradient2.tolist() == [4.0, 10.0]
    assert pairs.ell2.tolist() == [6.0, 15.0]
    assert pairs.L2.tolist() == [8.0, 20.0]
    assert (pairs.groups - 1).tolist() == [6, 3]


def test_noise_that_is_odd_along_the_path_leaves_b_and_its_interval_alone() -> None:
    probes = table()
    sign = np.select([probes.direction == "along", probes.direction == "against"], [1.0, -1.0])
    tilted = Probes(**{**vars(probes), "noise": probes.noise + sign * 0.3 * probes.distance})
    before, after = (diagnose(each).findings["B"] for each in (probes, tilted))
    assert (after.estimate, after.low, after.high) == pytest.approx(
        (before.estimate, before.low, before.high), rel=1e-9
    )


def test_a_fit_is_exact_where_there_is_no_error_however_large_the_numbers_differ() -> None:
    distance = np.repeat([0.0, 1.0, 2.0, 1e4], 6)
    strata, noise = Strata(distance), 0.25 + 9 * distance**2
    columns = np.stack([np.ones_like(distance), distance**2], axis=1)
    theta = fit_noise(columns, noise, np.ones_like(distance), np.ones((1, 24)), strata).values[0]
    assert theta == pytest.approx([0.25, 9.0], rel=1e-6)


def test_the_error_of_a_mean_is_what_varies_inside_the_strata() -> None:
    generator = np.random.default_rng(0)
    distance = np.repeat([0.0, 1.0], [10, 30])
    values = np.where(distance == 0, 100.0, 0.0)[:, None] + generator.normal(size=(40, 60))
    means, covariances = mean_of_strata(values, np.ones((1, 40)), Strata(distance))
    assert means[0] == pytest.approx(values.mean(axis=0))
    inside = [size * values[distance == at].var(axis=0, ddof=1) for at, size in ((0, 10), (1, 30))]
    assert np.diagonal(covariances[0]) == pytest.approx(sum(inside) / 40**2)
    assert abs(covariances[0, 0, 1]) < 4 / 40**1.5


def test_resampled_means_vary_as_much_as_means_do_however_few_there_are() -> None:
    generator = np.random.default_rng(0)
    distance, values = np.repeat([0.0, 1.0], [4, 8]), generator.normal(size=12)
    counts = Strata(distance).resample(generator, 20_000)
    assert (counts[0] == 1).all()
    assert counts[:, :4].sum(axis=1) == pytest.approx(4.0)
    for chosen in (distance == 0, distance == 1):
        means = counts[1:, chosen] @ values[chosen] / chosen.sum()
        assert means.var() == pytest.approx(values[chosen].var(ddof=1) / chosen.sum(), rel=0.05)


def test_constants_of_growing_noise_are_found() -> None:
    report = diagnose(table())
    for name, truth in {"G": 0.5, "B": 0.5, "power": 2.0, "ell": np.hypot(1, 0.5), "L": 1.0}.items():
        finding = report.findings[name]
        assert finding.is_estimated, name
        assert finding.estimate == pytest.approx(truth, rel=0.1), name


def test_a_power_that_is_not_two_is_found() -> None:
    power = diagnose(table(power=4.0, B=0.3)).findings["power"]
    assert power.is_estimated
    assert power.estimate == pytest.approx(4.0, rel=0.1)
    assert 3 < (power.low or 0) < (power.high or 0) < 5


def test_where_the_noise_is_smallest_is_found_on_the_path() -> None:
    anchor = diagnose(table(least=1.5)).findings["anchor"]
    assert anchor.is_estimated
    assert anchor.estimate == pytest.approx(1.5, abs=0.3)
    assert diagnose(table(least=-1.5)).findings["anchor"].estimate == pytest.approx(-1.5, abs=0.3)


def test_noise_along_the_path_that_is_no_parabola_has_no_anchor() -> None:
    probes = table()
    bumpy = np.where(np.isin(probes.direction, ("along", "path")) & (probes.distance < 1), 5.0, 1.0)
    anchor = diagnose(Probes(**{**vars(probes), "noise": probes.noise * bumpy})).findings["anchor"]
    assert anchor.verdict == "not identifiable"
    assert "no parabola" in (anchor.needs or "")


def test_noise_that_does_not_grow_is_said_not_to_grow() -> None:
    report = diagnose(table(B=0.0, budget=480))
    assert report.findings["B"].verdict == "no growth"
    assert report.recommend().method == "adam"
    assert "cost you twice" in report.recommend().why


def test_too_small_a_radius_is_said_with_the_one_it_needs() -> None:
    B = diagnose(table(radius=0.3, budget=48)).findings["B"]
    assert B.verdict == "not identifiable"
    assert (B.needs or "").startswith("radius 0.3 reached, needs ")
    recommended = diagnose(table(radius=0.3, budget=48)).recommend(1000, gap=1.0, alpha=0)
    assert recommended.method == "adam"
    assert "radius 0.3" in recommended.why


@pytest.mark.parametrize(
    ("probes", "said"),
    [
        (table(budget=16, radius=0.0), "all probes lie at one distance"),
        (
            Probes.of(Probe(i, i, "path", float(i), 2, 4, 1.0, 1.0, np.nan, np.nan, np.nan) for i in range(5)),
            "5 probes",
        ),
    ],
)
def test_what_cannot_be_told_says_what_it_needs(probes: Probes, said: str) -> None:
    report = diagnose(probes)
    for name in ("G", "B"):
        assert report.findings[name].verdict == "not identifiable"
        assert said in (report.findings[name].needs or "")


def test_no_noise_at_all_does_not_grow() -> None:
    report = diagnose(table(B=0.0, G=0.0))
    assert report.findings["G"].estimate == 0
    assert report.findings["B"].verdict == "no growth"


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="must be finite"):
        diagnose(Probes.of([Probe(0, 0, "start", 0.0, 2, 4, np.nan, 1.0, np.nan, np.nan, np.nan)]))


def test_same_sample_and_mean_smoothness_of_least_squares_are_those_of_its_formula() -> None:
    generator, rows = np.random.default_rng(0), []
    for i in range(192):
        u = generator.normal(size=D)
        u /= np.linalg.norm(u)
        a = generator.normal(size=(M, N, D))
        here, there = (np.einsum("mn,mnd->md", a @ x, a) / N for x in (u, 1.1 * u))
        rows.append(probe(i, i, "random", 1.0 + (i % 2), here, there, 0.1))
    findings = diagnose(Probes.of(rows)).findings
    for name, truth in {"ell": (D + 2) ** 0.5, "L": 1.0, "rho": D + 1.0}.items():
        finding = findings[name]
        assert finding.is_estimated
        assert (finding.low or 0) < truth < (finding.high or 0), name
        assert finding.estimate == pytest.approx(truth, rel=0.15)
    rho = findings[
        "rho"
    ]  # both smoothnesses rise and fall with the same samples: their ratio is known better than either
    assert (rho.high or 0) - (rho.low or 0) < 0.5 * truth


def test_smoothness_is_the_mean_over_probes_and_its_interval_no_wider_for_what_the_design_varies() -> None:
    """L² differs by distance, without error: the interval has no width, and the start no more than its share."""
    probes = table(budget=48)
    exact = Probes(**{**vars(probes), "L2": 1 + probes.distance, "ell2": 2 + 3 * probes.distance})
    found = diagnose(exact).findings
    for name, squares in (("ell", exact.ell2), ("L", exact.L2)):
        finding = found[name]
        assert finding.estimate == pytest.approx(squares.mean() ** 0.5, rel=1e-12)
        assert (finding.low, finding.high) == pytest.approx((finding.estimate, finding.estimate), rel=1e-6)
    assert found["rho"].estimate == pytest.approx(exact.ell2.mean() / exact.L2.mean() - 1)


def test_deviations_within_finer_strata_are_as_large_as_those_of_strata_that_were_not_joined() -> None:
    generator = np.random.default_rng(0)
    distance = np.repeat([0.0, 1.0, 2.0], 4)
    values = 10 * distance[:, None] + generator.normal(size=(12, 20_000))
    joined = Strata(distance, 12)
    found = joined.deviations(values, Strata(distance))
    assert np.mean(found.var(axis=0, ddof=1)) == pytest.approx(1.0, rel=0.02)


def steps_along_a_path(alpha: float, L0: float, L1: float, decades: float, count: int = 90) -> Probes:
    """Curvature L0 + L1 h^α at gradients of norm h, with errors of 5 %."""
    generator, rows = np.random.default_rng(3), []
    for i, h in enumerate(np.geomspace(1, 10**decades, count)):
        L = (L0 + L1 * h**alpha) * (1 + 0.05 * generator.normal())
        rows.append(
            Probe(i, i, "path", float(i), 2, 4, 1.0, (h * (1 + 0.05 * generator.normal())) ** 2, 0.1, L * L, L * L)
        )
    return Probes.of(rows)


def test_curvature_that_follows_the_gradient_is_found_where_a_decade_was_seen() -> None:
    findings = diagnose(steps_along_a_path(0.5, 0.0, 3.0, 2)).findings
    assert findings["alpha"].is_estimated
    assert findings["alpha"].estimate == pytest.approx(0.5, abs=0.11)
    assert findings["L1"].estimate == pytest.approx(3.0, rel=0.3)
    for name, truth in {"alpha": 0.5, "L0": 0.0, "L1": 3.0}.items():
        low, high = findings[name].low, findings[name].high
        assert low is not None
        assert high is not None
        assert low <= truth <= high
        assert high > low  # an interval without width would be one of a grid
    flat = diagnose(steps_along_a_path(0.5, 2.0, 0.0, 2)).findings
    assert (flat["alpha"].estimate, flat["alpha"].verdict) == (0.0, "estimated")
    assert flat["L0"].estimate == pytest.approx(2.0, rel=0.05)
    narrow = diagnose(steps_along_a_path(0.5, 0.0, 3.0, 0.6)).findings["alpha"]
    assert narrow.verdict == "not identifiable"
    assert (narrow.needs or "").endswith("needs 10")
    for count, clear in {9: 0, 20: 3}.items():
        few = diagnose(steps_along_a_path(0.5, 0.0, 3.0, 2, count)).findings["alpha"]
        assert (few.needs or "").startswith(f"curvature is clear at {clear} distances")


def test_the_means_of_a_cell_and_their_roots_have_the_errors_of_means_and_of_roots() -> None:
    generator = np.random.default_rng(0)
    values = 5 + generator.normal(size=(4, 2)) @ np.array([[0.2, 0.1], [0.0, 0.3]])
    means, covariances = _means(values, [np.arange(4)], generator)
    own = np.cov(values.T) / 4
    assert covariances[0, 0] == pytest.approx(own)
    assert np.cov(means[1:, 0].T) == pytest.approx(own, rel=0.2)
    norms, L = np.sqrt(means[0, 0])
    _, _, of_norms, of_L, both, _ = _roots(means, covariances, np.array([4.0]))
    linearized = [own[0, 0] / (4 * norms**2), own[1, 1] / (4 * L**2), own[0, 1] / (4 * norms * L)]
    assert [of_norms[0, 0], of_L[0, 0], both[0, 0]] == pytest.approx(linearized)


@pytest.mark.parametrize(("error", "together", "known"), [(5.0, 0.0, True), (6.0, 0.0, False), (6.0, 1.0, True)])
def test_the_error_of_a_ratio_is_none_where_both_err_together(error: float, together: float, known: bool) -> None:
    """Resamples lie a tenth of their error away from 1 + ρ = 2; the sample's error is `error`, or none."""
    own = np.diag([4.0, 0.0])
    first = error**2 * (np.array([[4.0, 2.0], [2.0, 1.0]]) if together else own)
    means = Fits(np.array([[2.0, 1.0], [2 * np.exp(0.1), 1.0]]), np.stack([first, np.exp(0.2) * own]))
    rho = _ratio(means, Finding(1.0, 0.9, 1.1, "estimated"))
    reach = 0.0 if together else 0.1 * error
    assert (rho.low, rho.high) == pytest.approx((2 * np.exp(-reach) - 1, 2 * np.exp(reach) - 1), abs=1e-6)
    assert rho.is_estimated == known


def test_the_errors_of_a_curvature_law_are_as_large_as_its_estimates_vary() -> None:
    """500 repetitions with errors of known size in ‖∇f‖ and L, which rise and fall together."""
    generator = np.random.default_rng(0)
    norms, sizes = np.geomspace(1, 100, 6), np.full(6, 10.0)
    L = 2 + 3 * norms**0.5
    common, own = 0.01 * generator.normal(size=(2, 500, 6))
    variance = 1e-4 * np.ones((500, 1))
    cells = Cells(
        norms * (1 + common),
        L * (1 + common + own),
        variance * norms**2,
        2 * variance * L**2,
        variance * norms * L,
        sizes,
    )
    for found in (_fits(cells).estimates, _slopes(cells)):
        assert found.errors.mean(axis=0) == pytest.approx(found.values.std(axis=0), rel=0.1)
    assert _fits(cells).values.mean(axis=0) == pytest.approx([0.5, 2.0, np.log(3.0)], rel=0.02)


def test_advice_follows_the_evidence() -> None:
    grows, falls, fast = diagnose(table()), diagnose(table(least=2.0)), diagnose(table(power=5.0))
    undecided = diagnose(table(least=1.5, budget=96)).recommend(10_000, gap=3.0, alpha=0)  # as far at the end as before
    assert (undecided.method, "more probes along the path" in undecided.why) == ("adam", True)
    lowers: dict[str, Any] = {"horizon": 1000, "trial": lambda _: (2.0, 1.0)}
    assert (grows.recommend().method, grows.recommend(**lowers).method) == ("adam", "nsgdm")
    assert "give horizon and trial" in grows.recommend().why
    assert "give alpha" in grows.recommend(1000, gap=3.0).why
    by_theorem = grows.recommend(10_000, gap=3.0, alpha=0)
    assert (by_theorem.method, by_theorem.source) == ("sgd", grows.plan("sgd", alpha=0, gap=3.0, horizon=1).source)
    assert "the smallest of 3 guarantees on E‖∇f(x̂)‖ for" in by_theorem.why
    off_the_path = falls.recommend(10_000, gap=3.0, alpha=0)
    assert (off_the_path.method, "meets no growth" in off_the_path.why) == ("adam", True)
    too_fast = fast.recommend(1000, gap=3.0, alpha=0)
    assert too_fast.method in ("nsgdm", "nstorm")
    assert "the smallest of 2 guarantees" in too_fast.why
    assert "For SGD, growth must be at most 2: beyond, one rare sample may send plain SGD" in too_fast.why
    assert f"grow like r^{fast.findings['power'].high:.2g}" in too_fast.why


@pytest.mark.parametrize(("power", "best"), [(1.0, "sgd"), (2.0, "sgd"), (5.0, "nstorm")])
def test_numbers_are_those_of_the_best_theorem_for_the_mini_batch_and_the_upper_ends(power: float, best: str) -> None:
    """The three methods have the same number of stochastic gradients: NSTORM takes two a step."""
    report = diagnose(table(power=power))
    advice = report.recommend(10_000, gap=3.0, alpha=0, batch=100)
    L, ell = (report.findings[name].high or 0.0 for name in ("L", "ell"))
    noise: dict[str, Any] = {"alpha": 0, "gap": 3.0, "growth": report.growth}
    if power == 2.0:
        noise |= {name: (report.findings[name].high or 0.0) / 10 for name in ("B", "G")}
    else:  # fitted again, for the upper end of the power
        noise |= {name: report.constants()[name] / 10 for name in ("B", "G")}
    plans = [plan("nsgdm", horizon=10_000, L0=L, **noise)]
    plans += [plan("nstorm", horizon=5000, L=(L**2 + (ell**2 - L**2) / 100) ** 0.5, **noise)]
    plans += [plan("sgd", horizon=10_000, L0=L, **noise)] if report.growth <= 2 else []
    least = min(plans, key=lambda each: each.statement.bound(each.horizon))
    assert (advice.method, advice.batch) == (least.statement.method, 100) == (best, 100)
    assert (advice.eta, advice.gamma, advice.n_init) == pytest.approx(least.schedule[:3])
    assert advice.source == least.statement.source
    for each in plans:
        assert f"{each.statement.bound(each.horizon):.3g} for {each.statement.method.upper()}" in advice.why
    assert (
        ("torch.optim.SGD(" in advice.actions["torch"]) == (best == "sgd") == ("optax.sgd(" in advice.actions["optax"])
    )


@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("method", ["sgd", "nsgdm", "nstorm"])
def test_a_plan_of_a_report_is_the_plan_of_its_constants_with_their_growth(method: str, power: float) -> None:
    report = diagnose(table(power=power))
    given: dict[str, Any] = {"alpha": 0, "gap": 3.0, "horizon": 2000}
    if method == "sgd" and power > 2:
        with pytest.raises(ValueError, match="growth must be at most 2"):
            report.plan(method, **given)
        return
    ready = report.plan(method, samples=7, **given)
    assert ready.as_dict() == plan(method, **given, **report.constants(7)).as_dict()
    assert ready.problem.growth == report.growth
    assert (report.growth == 2.0) == (power == 2.0)
    assert report.plan(method, **given, B=0.0).problem.B == 0  # a constant of one's own counts


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"horizon": 0}, "horizon must be a whole number ≥ 1"),
        ({"gap": -1.0}, "gap must be finite and > 0"),
        ({"alpha": 2.0}, r"alpha must be in \[0, 1\]"),
        ({"batch": 0}, "batch must be a whole number ≥ 1"),
    ],
)
def test_a_number_that_breaks_its_rule_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        diagnose(table(budget=16)).recommend(**asked)


def test_a_report_is_json_of_the_contract_text_and_html() -> None:
    report: Report = diagnose(table(budget=48))
    content = json.loads(json.dumps(report.as_dict(horizon=1000), allow_nan=False))
    assert [*report.findings] == [*MEANINGS] == QUANTITIES
    assert f"`{', '.join(QUANTITIES)}`" in (ROOT / "docs/formats.md").read_text("utf-8")
    assert all(set(content[name]) == {"estimate", "low", "high", "verdict", "needs"} for name in QUANTITIES)
    assert set(content["recommendation"]) == {"method", "gamma", "eta", "n_init", "batch", "why", "source"}
    assert "48 probes up to 3 from the start, mini-batches of 32" in str(report)
    assert report._repr_html_().startswith(f"<p>{str(report).splitlines()[0]}</p><table>")
    assert str(diagnose(table(budget=48))) == str(report)  # the same table, the same words


def test_a_design_is_balanced() -> None:
    for budget in (16, 48, 200):
        found = places(budget, True, np.random.default_rng(0))
        assert sum(place.sign for place in found) == 0
        assert sum(p.direction == "along" for p in found) == sum(p.direction == "against" for p in found) > 0
        assert len(found) == budget
        signs: dict[int, list[int]] = {}
        for place in found:
            signs.setdefault(place.pair, []).append(place.sign)
        assert all(len(signs[place.pair]) == (1 if place.radius == 0 else 2) for place in found)
        assert all(sum(pair) == 0 for pair in signs.values() if len(pair) == 2)
    assert not any(p.direction in ("along", "against") for p in places(48, False, np.random.default_rng(0)))
