"""Every problem the search can propose is inside its class, the search finds a hidden one, and files run again."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evidence.page import log_slope_weights
from evidence.tightness.measuring import SETTINGS, slope_of
from gladstorm import theory
from gladstorm import worst as study
from gladstorm.jobs.files import save_json
from gladstorm.theory import REGIMES, Problem, Statement, theorem
from gladstorm.worst import family, search
from gladstorm.worst.family import SIZE, Node, ProblemClass, Shape, gap, instance
from gladstorm.worst.line import Line, LineNoise, audit, samples
from gladstorm.worst.proposals import propose
from gladstorm.worst.search import Evolution, measure

NOISE = {"bg0": (0.7, 0.3), "bounded": (0.0, 0.5), "deterministic": (0.0, 0.0)}
ALPHA = {"smooth": 0.0, "sublinear": 0.5, "linear": 1.0}
INSIDE = 1 + 1e-6  # differences of nearby gradients are rounded


def statement(method: str, smoothness: str, noise: str) -> Statement:
    """One of every regime, with an L1 that matters and an L close to B."""
    B, G = NOISE[noise]
    problem = Problem(alpha=ALPHA[smoothness], L0=0.8, L1=2.0, L=0.8, B=B, G=G, gap=0.05)
    found = theorem(method, problem, gamma0=1.0)
    return replace(found, gamma0=min(1.0, found.largest_gamma0()))


# The law of the family: any numbers make a problem of the class.


@pytest.mark.parametrize("setting", REGIMES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.3, 3.0]), horizon=st.sampled_from([30, 3000]))
def test_any_vector_is_a_problem_inside_the_class(
    setting: tuple[str, str, str], seed: int, spread: float, horizon: int
) -> None:
    of = ProblemClass(statement(*setting), horizon)
    rng = np.random.default_rng(seed)
    vector = propose(rng, of, with_gap=True) if seed % 2 else rng.normal(size=SIZE) * spread
    oracle = instance(vector, of)
    used = audit(oracle, of.statement, of.reach, seed)
    assert max(used.values()) <= INSIDE, used
    assert used["gap"] * of.statement.problem.gap == pytest.approx(gap(oracle), abs=1e-4 * of.statement.problem.gap)
    assert ("same sample" in used) == (setting[0] == "nstorm")


@pytest.mark.parametrize("setting", REGIMES)
@pytest.mark.parametrize("horizon", [30, 3000])
def test_every_piece_of_every_vector_is_admitted_and_the_last_one_is_no_longer_than_it_must_be(
    setting: tuple[str, str, str], horizon: int
) -> None:
    of = ProblemClass(statement(*setting), horizon)
    rng, met = np.random.default_rng(0), 0
    for _ in range(40):
        shape = Shape.from_vector(rng.normal(size=SIZE) * 3)
        first = Node(0.0, float(shape.start[0]) * of.level, family._share(shape.start[1:], of))
        for side, outwards in ((0, -1.0), (1, 1.0)):
            nodes = [first, *family._laid_out(shape, side, first, of)]
            for t in (1.0, 0.1, 0.0):  # f may be made flatter
                flatter = [replace(node, u=t * node.u) for node in nodes]
                assert all(of.admits(one, other) for one, other in pairwise(flatter))
            before, last = nodes[-2:]
            assert outwards * last.u >= 0  # f is bounded below
            width = abs(last.x - before.x)
            if width > of.gamma * (1 + 1e-12):
                met += 1
                noise = of.statement.problem.B * math.hypot(*last.c) if of.takes_differences else 0.0
                steep = math.hypot((last.u - before.u) / width, noise)
                assert steep == pytest.approx(of.differing(0.0) if of.takes_differences else of.steepest(0.0), rel=1e-6)
    assert met > 0 or setting[1:] == ("smooth", "deterministic")  # there are no slopes to take back


def test_noise_that_would_grow_faster_than_samples_may_differ_has_a_smaller_share() -> None:
    of = ProblemClass(theorem("nstorm", Problem(alpha=0.0, L=0.8, B=2.0, G=0.3, gap=0.05), gamma0=1.0), 30)
    assert of.largest_share == pytest.approx(0.8 / 2.0)
    shape = Shape.from_vector(np.random.default_rng(0).normal(size=SIZE) * 3)
    first = Node(0.0, 0.0, family._share(shape.start[1:], of))
    for side in (0, 1):
        nodes = [first, *family._laid_out(shape, side, first, of)]
        assert all(of.admits(one, other) for one, other in pairwise(nodes[:-1]))


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7, 1.0])
def test_how_fast_samples_may_differ_is_what_every_distribution_of_their_gradients_allows(alpha: float) -> None:
    problem = Problem(alpha=alpha, L0=0.8, L1=2.0, B=0.7, G=0.3, gap=0.05)
    of = ProblemClass(theorem("nstorm", problem, gamma0=1e-3), 100)
    q = np.geomspace(1e-14, 1, 200)  # a sample's gradient is u/q with probability q, and 0 otherwise
    for u in (0.1, 1.0, 10.0):
        allowed = (1 - q) * 0.8**2 + q * (0.8 + 2 * (u / q) ** alpha) ** 2
        assert of.differing(u) ** 2 <= allowed.min() * (1 + 1e-12)
        if alpha in (0.5, 1.0):  # then rare samples, or equal ones, leave no more
            assert of.differing(u) ** 2 == pytest.approx(allowed.min(), rel=1e-5)
        assert of.differing(u) >= of.differing(0.0) == 0.8


@pytest.mark.parametrize(("B", "G"), [(0.7, 0.3), (0.0, 0.5), (0.7, 0.0)])
def test_what_is_admitted_is_smooth_in_mean_square_and_the_steepest_of_it_attains_the_limit(B: float, G: float) -> None:
    problem = Problem(alpha=0.0, L=0.8, B=B, G=G, gap=0.05)
    of = ProblemClass(theorem("nstorm", problem, gamma0=1.0), 100)

    def steepest(one: Node, other: Node) -> float:
        """√(f''² + ‖(σ c)'‖²) at its largest on the piece."""
        t = np.linspace(0, 1, 2001)
        x = one.x + t * (other.x - one.x)
        sigma = np.hypot(B * x, G)
        loud = sigma[:, None] * (np.array(one.c) + t[:, None] * (np.array(other.c) - np.array(one.c)))
        rate = np.linalg.norm(np.diff(loud, axis=0), axis=1) / np.abs(np.diff(x))
        return float(np.hypot((other.u - one.u) / (other.x - one.x), rate).max())

    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = rng.normal(size=2) * 2
        one = Node(a, rng.normal(), family._share(rng.normal(size=2), of))
        found = family._closest(one, Node(b, 5 * rng.normal(), family._share(rng.normal(size=2), of)), of)
        if of.admits(one, found):
            assert steepest(one, found) <= 0.8 * (1 + 1e-6)
    # Noise that grows with its share: both parts of its slope are largest at the far end, of which G is none there.
    for outwards in (-1.0, 1.0):
        ends = Node(0.0, 0.0, (0.0, 0.0)), Node(outwards * (4.0 if B else 0.5), 0.0, (1.0, 0.0))
        assert steepest(ends[0], family._closest(*ends, of)) == pytest.approx(0.8, rel=0.05 if G and B else 1e-3)


@pytest.mark.parametrize(
    ("change", "constant"),
    [
        ({"objective.slope": 1.01}, "smoothness"),
        ({"share": 1.01, "turns": 1.01}, "variance"),
        ({"turns": 3.0}, "same sample"),
        ({"objective.first": 10.0}, "gap"),
    ],
)
def test_the_audit_sees_a_problem_that_is_just_outside(change: dict[str, float], constant: str) -> None:
    found = statement("nstorm" if constant == "same sample" else "nsgdm", "smooth", "bounded")
    left, width = np.array([-1.0, 0.0]), np.array([1.0, 1.0])
    turns = np.array([[-0.5, 0.0], [1.0, 0.0]])
    slope = np.array([0.8, 0.8]) if constant != "same sample" else np.array([0.1, 0.1])
    line = Line(np.zeros(1), left, width, slope, -slope[0], -slope[0] / 2)
    oracle = LineNoise(line, 0.0, 0.5, np.array([0.2, 0.5]), np.array([0.5, 0.0]), turns)
    assert max(audit(oracle, found, 2.0).values()) <= INSIDE
    for name, factor in change.items():
        if name.startswith("objective."):
            field = name.partition(".")[2]
            oracle = replace(oracle, objective=replace(oracle.objective, **{field: factor * getattr(line, field)}))
        else:
            oracle = replace(oracle, **{name: factor * getattr(oracle, name)})
    assert audit(oracle, found, 2.0)[constant] > 1.005


def test_the_oracle_is_unbiased_of_the_variance_it_states_and_its_gradient_is_the_value_s() -> None:
    oracle = instance(
        np.random.default_rng(5).normal(size=SIZE), ProblemClass(statement("nsgdm", "smooth", "bg0"), 100)
    )
    x = np.linspace(-2, 2, 41)
    p, gradients = samples(oracle, x)
    with jax.enable_x64(True):
        points = jax.vmap(oracle.at)(jnp.asarray(x[:, None]))
        slopes = jax.vmap(jax.grad(lambda y: oracle.objective.value(y[None])))(jnp.asarray(x))
        np.testing.assert_allclose(p @ gradients, points.grad[:, 0], atol=1e-12)
        np.testing.assert_allclose(slopes, points.grad[:, 0], atol=1e-12)
        np.testing.assert_allclose(p @ (gradients - p @ gradients) ** 2, jax.vmap(oracle.variance)(points), rtol=1e-9)


def test_a_shape_is_its_vector() -> None:
    vector = np.random.default_rng(0).normal(size=SIZE)
    np.testing.assert_allclose(Shape.from_vector(vector).to_vector(), vector, rtol=1e-12)


def test_f_is_made_flatter_until_the_gap_is_that_of_the_class() -> None:
    of = ProblemClass(statement("nsgdm", "smooth", "bounded"), 1000)
    vector = propose(np.random.default_rng(1), of, with_gap=True)
    vector[-5] = -3.0  # f' at x⁰
    assert gap(instance(vector, of)) == pytest.approx(of.statement.problem.gap, rel=1e-6)


# The search.


def test_evolution_finds_the_largest_value_of_a_narrow_ridge_under_noise() -> None:
    rng = np.random.default_rng(0)
    peak = np.array([1.0, -2.0, 0.5, 3.0])
    scales = np.array([1.0, 10.0, 1.0, 0.1])
    evolution = Evolution(np.zeros(4), 0.5, 16, rng)
    for _ in range(120):
        asked = evolution.ask()
        evolution.tell(-np.sum(scales * (asked - peak) ** 2, axis=1) + 1e-4 * rng.normal(size=16))
    np.testing.assert_allclose(evolution.mean, peak, atol=0.3)
    assert np.sum(scales * (evolution.mean - peak) ** 2) < 0.02


def bad_problem(horizon: int = 1000) -> tuple[ProblemClass, np.ndarray]:
    """NSTORM that remembers its first sample for the whole run, and a bowl where x follows the error of that."""
    problem = Problem(alpha=0, L=0.4, B=0.0, G=1.0, gap=1e-3)
    of = ProblemClass(theorem("nstorm", problem, gamma0=1.0, eta0=0.1), horizon)
    rng = np.random.default_rng(0)
    shape = Shape.from_vector(propose(rng, of, with_gap=False))
    shape.widths[:], shape.u[:], shape.start[0] = 1.0, np.array([[-1e3], [1e3]]), 0.0
    shape.c[..., 0], shape.c[..., 1], shape.start[1:] = 1.0, 0.0, [1.0, 0.0]
    shape.q[:] = 1e12
    return of, shape.to_vector()


def test_the_search_finds_a_planted_problem_among_harmless_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    of, vector = bad_problem()
    harmless = np.zeros(SIZE)  # no noise, no slope

    def one_is_bad(rng: np.random.Generator, _: ProblemClass, *, with_gap: bool) -> np.ndarray:
        assert not with_gap
        return vector if rng.integers(100) == np.random.default_rng([0, 5]).integers(100) else harmless

    monkeypatch.setattr(search, "propose", one_is_bad)
    effort = study.SearchSettings(proposals=2, generations=0, population=4, seeds=2, reported=4)
    found = study.worst(of.statement, of.horizon, "noise", effort, progress=False)
    np.testing.assert_array_equal(found.oracle.objective.slope, instance(vector, of).objective.slope)
    assert found.proposals[0] == 5
    assert found.gap_share <= 0.1
    # |f'| follows |e| = G, which is forgotten at the rate η: no less than a third of the sharper bound.
    assert found.as_dict()["ratio_to_sharper"] > 1 / 3
    # Reported on seeds the search has not seen, and shown it again it begins with it.
    assert found.measured == measure(of, "noise", instance(vector, of), 4).measured
    once_more = study.worst(of.statement, of.horizon, "noise", replace(effort, proposals=1), progress=False, begin=[5])
    assert once_more.measured == found.measured


def test_a_problem_read_from_its_file_is_measured_to_the_same_bytes(tmp_path: Path) -> None:
    of, vector = bad_problem()
    found = measure(of, "noise", instance(vector, of), 4).as_dict()
    save_json(tmp_path / "one.json", study.FORMAT, found)
    kept = json.loads((tmp_path / "one.json").read_text())
    save_json(tmp_path / "two.json", study.FORMAT, study.again(kept).as_dict())
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    # The file is what is measured, not what this process knows.
    assert study.again(kept | {"seeds": 3}).norms.tolist() == study.again(kept).norms[:3].tolist()
    flatter = kept["instance"] | {"slope": [slope / 2 for slope in kept["instance"]["slope"]]}
    assert study.again(kept | {"instance": flatter}).measured != found["measured"]
    norms = study.again(kept).norms
    half = stats.t.ppf(0.975, 3) * norms.std(ddof=1) / 2
    np.testing.assert_allclose(found["interval"], [norms.mean() - half, norms.mean() + half], rtol=1e-9)
    planned = theory.plan("nstorm", alpha=0, L=0.4, B=0.0, G=1.0, gap=1e-3, gamma0=1.0, eta0=0.1, horizon=of.horizon)
    assert found["ratio"] == pytest.approx(norms.mean() / planned.as_dict()["bound"], rel=1e-12)


@pytest.mark.parametrize("smoothness", ALPHA)
@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
def test_without_noise_one_of_the_first_proposals_attains_the_sharpest_bound(method: str, smoothness: str) -> None:
    problem = Problem(alpha=ALPHA[smoothness], L0=0.8, L1=0.1, L=0.8, B=0.0, G=0.0, gap=0.05)
    effort = study.SearchSettings(proposals=2, generations=0, population=4, seeds=2, reported=4)
    found = study.worst(theorem(method, problem, gamma0=0.05), 300, "any", effort, progress=False).as_dict()
    assert 0.98 < max(found["ratio"], found["ratio_to_sharper"] or 0) <= 1


@pytest.mark.parametrize(
    ("kind", "noise", "changes", "sentence"),
    [
        ("all", "bounded", {}, "worst: kind must be one of noise, any; got 'all'"),
        ("noise", "deterministic", {}, "worst: kind must be any where there is no noise"),
        ("any", "bounded", {"population": 0}, "worst: population must be a whole number ≥ 1; got population=0"),
        ("any", "bounded", {"reported": 1}, "worst: reported must be from 2 to 1,000,000 seeds; got 1"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_runs(
    kind: str, noise: str, changes: dict[str, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        study.worst(statement("nsgdm", "smooth", noise), 100, kind, study.SearchSettings(**changes))


def test_a_schedule_the_theorem_does_not_admit_is_refused() -> None:
    steep = Problem(alpha=1, L0=1, L1=1, B=0, G=1, gap=1)
    with pytest.raises(ValueError, match=r"the largest admissible gamma0 is 0\.125"):
        study.stated("nsgdm", steep, 100, gamma0=1.0)
    with pytest.raises(ValueError, match="must be > 0, f' changes by it"):
        study.stated("nsgdm", replace(steep, L0=0.0), 100)
    assert study.stated("nsgdm", steep, 100).gamma0 <= 0.125


# The table.


def test_the_settings_cover_all_regimes_and_each_noisy_one_with_and_without_a_gap() -> None:
    covered = {(each.statement().regime, each.kind) for each in SETTINGS}
    assert {regime for regime, _ in covered} == {"/".join(setting) for setting in REGIMES}
    for regime in (each for each in REGIMES if each[2] != "deterministic"):
        assert {("/".join(regime), "noise"), ("/".join(regime), "any")} <= covered


def test_the_slope_along_a_ladder_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    horizons = [100, 400, 1600]
    luck = rng.normal(size=400)  # of a seed, at all horizons
    norms = np.array([[T**-0.25] for T in horizons]) * (1 + 0.1 * luck + 0.2 * rng.normal(size=(3, 400)))
    slope = slope_of(norms, log_slope_weights(horizons))
    assert slope.value == pytest.approx(-0.25, abs=0.02)
    # Luck that is shared does not move a slope: what remains is 0.2/√400 at each end, log 16 apart.
    half = slope.interval()[1] - slope.value
    assert half == pytest.approx(1.97 * 0.01 * math.sqrt(2) / math.log(16), rel=0.15)
