"""The suite: problems as declared, scores and profiles by hand, misses counted, traps told, and that it resumes."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from evidence.suite.page import in_short, load
from gladstorm import BlumGladyshev, Method, run, sgd, sweep
from gladstorm import suite as study
from gladstorm.comparison.compare import FIRST_TUNING_SEED, compare
from gladstorm.comparison.compared import Compared, Relative
from gladstorm.comparison.scores import ratio
from gladstorm.core.estimate import Estimate
from gladstorm.core.results import to_json
from gladstorm.methods.averages import PolynomialAverage
from gladstorm.methods.estimators import Fresh
from gladstorm.methods.steps import Normalized
from gladstorm.problems import objectives
from gladstorm.suite import PROBLEMS, running
from gladstorm.suite import figures as suite_figures
from gladstorm.suite import tables as suite_tables
from gladstorm.suite.answers import answers, share_of_seeds, verdict
from gladstorm.suite.result import MethodRow, RowScores, SeedShare, SuiteCase, SuiteConfig, SuiteResult, SuiteSettings
from gladstorm.suite.running import (
    case,
    entries,
    flags,
    geometric_mean,
    gradient_size,
    made,
    profile,
    reached,
    reaching,
    to_best,
)

CHEAP = ("cubic", "sampled-phases", "ill-conditioned", "double-well", "network-regression")


def test_both_roles_have_six_problems_or_more_in_one_to_a_hundred_dimensions() -> None:
    facts = [each.facts for each in PROBLEMS.values()]
    assert all(sum(each.role == role for each in facts) >= 6 for role in ("development", "held-out"))
    assert min(each.dim for each in facts) == 1
    assert max(each.dim for each in facts) >= 100
    for fact in ("natural", "far", "even", "outside"):
        assert len({bool(getattr(each, fact)) for each in facts}) == 2
    held_out = [each for each in facts if each.role == "held-out"]
    assert sum(each.natural for each in held_out) >= 5  # two of them networks


@pytest.mark.parametrize("name", CHEAP)
def test_seeds_of_a_problem_differ_in_their_start_and_in_nothing_else(name: str) -> None:
    one, other = (PROBLEMS[name].oracle(seed) for seed in (3, 4))
    assert not np.any(one.objective.start == other.objective.start)
    np.testing.assert_array_equal(one.objective.start, PROBLEMS[name].oracle(3).objective.start)
    moved = dataclasses.replace(one.objective, start=other.objective.start)  # type: ignore[type-var]  # it is one
    for mine, theirs in zip(jax.tree.leaves(moved), jax.tree.leaves(other.objective), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_an_even_problem_is_even_about_a_minimum() -> None:
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for problem in PROBLEMS.values():
            if problem.even_about is None:
                continue
            f: Any = problem.oracle(0).objective
            about = np.zeros(f.start.size) if problem.even_about == "0" else np.asarray(getattr(f, problem.even_about))
            e = rng.normal(size=about.size)
            assert float(f.value(about + e)) == pytest.approx(float(f.value(about - e)), rel=1e-12)
            assert float(f.value(about)) == pytest.approx(f.f_inf, abs=1e-12)


def test_baselines_and_what_is_tuned_have_two_rows_of_equally_many_settings_and_a_given_one_as_it_is() -> None:
    baselines = {"SGD": "sgd", "clip": "clipped_sgd(c=gradient_size(0.1))", "DoG": "dog(gamma=1)"}
    fixed, tuned = "sgd(gamma=0.3)", "clipped_sgd(c=gradient_size)"
    rows = entries(baselines, [fixed, tuned])
    assert [(row.method, row.decay) for row in rows.values()] == [
        *((name, power) for name in baselines for power in (0, 1)), (fixed, None), (tuned, 0), (tuned, 1)
    ]  # fmt: skip
    steps: list[Any] = [each.step for each in made(rows.values(), [0.1, 0.2], 7.0)]
    constant, linear, _, tenth, _, dog, as_given, _, whole = steps
    assert [np.unique(each.gamma.power).tolist() for each in (constant, linear, dog)] == [[0], [1], [1]]
    assert [np.size(each.gamma.initial) for each in (constant, linear, tenth, dog)] == [2, 2, 2, 1]
    assert (tenth.c, whole.c) == (0.7, 7.0)
    assert as_given.gamma == 0.3
    with pytest.raises(ValueError, match="every method must be given once; got 'sgd' twice"):
        entries({}, ["sgd", "sgd"])


def test_the_size_of_a_gradient_is_the_median_of_its_norm_at_the_start() -> None:
    oracle = BlumGladyshev(objectives.Power(np.array([2.0])), B=0.5, G=3.0)  # 12 + 3u, u normal
    assert gradient_size(oracle, 0) == pytest.approx(12, abs=4 * 1.25 * 3 / 101**0.5)  # four standard errors


@pytest.fixture(scope="module")
def compared() -> Compared:
    """Three settings of SGD on |x|³, five steps, two seeds; the first setting reported."""
    oracle = BlumGladyshev(objectives.named("power:3", start=1.0), B=0.1, G=0.1)
    record = sweep(oracle, {"SGD": sgd([0.01, 0.02, 0.03])}, steps=5, seeds=2, progress=False)
    return Compared(record, record.select([0]), budget=5)


def made_up(compared: Compared, grad: list[float], value: list[float]) -> Compared:
    """The same runs with other numbers at their ends, one per seed; what is not finite has diverged."""
    record = compared.record
    curves = {"reported_grad_norm": grad, "reported_value": value}
    arrays: dict[str, Any] = {
        name: np.concatenate([np.full((1, 2, 4), 9.0), np.reshape(ends, (1, 2, 1)), np.zeros((1, 2, 1))], -1)
        for name, ends in curves.items()
    }  # the sixth is past the budget
    arrays["diverged"] = np.where(np.isfinite(grad), -1, 4)[None]
    return dataclasses.replace(compared, record=dataclasses.replace(record, **arrays))


def test_a_case_by_hand(compared: Compared) -> None:
    scored = {
        "SGD": made_up(compared, [4.0, 1.0], [2.0, 2.0]),
        "SGD, linear": made_up(compared, [1.0, 1.0], [1.0, 1.0]),
        "lost": made_up(compared, [0.1, np.nan], [0.1, np.nan]),
    }
    report = case(PROBLEMS["cubic"], 5, scored, comparisons=2, size=1.0)
    rows = report.rows
    assert [row.score for row in rows.values()] == [2, 1, None]
    assert [row.to_best for row in rows.values()] == [2, 1, None]
    assert [row.diverged for row in rows.values()] == [0, 0, 1]
    assert report.target == 2
    assert [row.reached for row in rows.values()] == [[None, 5], [5, 5], [5, None]]
    assert rows["SGD"].relative.grad_norm.value == 2  # √(4 · 1), against the reference with its decay
    assert rows["SGD"].relative.gap is not None
    assert rows["SGD"].relative.gap.value == 2
    assert rows["lost"].relative.grad_norm.value is None
    assert rows["lost"].gap == [0.1, None]


def test_profiles_by_hand_count_what_failed_among_all_cases() -> None:
    scores = {"a": [1.0, 8.0, np.inf], "b": [3.0, 2.0, np.inf]}
    ratios = to_best(scores)
    assert ratios["a"].tolist() == [1, 4, np.inf]
    assert ratios["b"].tolist() == [3, 1, np.inf]
    factors = np.array([1.0, 3.0, 4.0, 1e9])
    np.testing.assert_allclose(profile(ratios["a"], factors), [1 / 3, 1 / 3, 2 / 3, 2 / 3])
    np.testing.assert_allclose(profile(ratios["b"], factors), [1 / 3, 2 / 3, 2 / 3, 2 / 3])
    assert geometric_mean(np.array([2.0, 8.0])) == pytest.approx(4.0)
    assert geometric_mean(np.array([2.0, np.inf])) == np.inf


def test_a_target_is_reached_for_good_within_the_budget_or_missed() -> None:
    sfo = np.array([[1, 3, 5, 7], [1, 3, 5, 7], [1, 3, 5, 7]])
    norms = np.array([[9.0, 0.5, 9.0, 0.5], [0.5, 0.5, 0.5, np.nan], [9.0, 9.0, 0.5, 9.0]])
    assert reached(norms, sfo, budget=7, target=1.0).tolist() == [7, np.inf, np.inf]
    assert reached(norms, sfo, budget=6, target=1.0).tolist() == [np.inf, 1, 5]  # what comes after does not count
    times = np.array([1.0, 5.0, np.inf, np.inf])
    np.testing.assert_allclose(reaching(times, np.array([0.1, 0.5, 1.0]), 10), [0.25, 0.5, 0.5])


def test_an_average_of_jumps_over_the_minimum_of_an_even_function_is_near_it_and_flagged() -> None:
    oracles = [BlumGladyshev(objectives.named("power:3", seed=seed), B=0.5, G=0.5) for seed in range(4)]
    method = Method(Fresh(), Normalized(0.1), average=PolynomialAverage(8.0))
    record = run(oracles, method, steps=20_000, seeds=4, progress=False)
    late = record.grad_norm[0, :, record.steps > 10_000].mean()  # where the iterates jump about
    assert record.reported_grad_norm[0, :, -1].mean() < 0.1 * late
    nothing = Relative(Estimate(1.0, 1.0, 1.0), None)
    assert flags(nothing, even=True, averaged=True, ascends=False) == ["symmetry"]
    for even, averaged in ((True, False), (False, True)):
        assert flags(nothing, even=even, averaged=averaged, ascends=False) == []


@pytest.mark.parametrize(
    ("norm", "gap", "flagged"),
    [
        ((0.2, 0.9), (1.1, 3.0), ["elsewhere"]),
        ((0.2, 1.1), (1.1, 3.0), []),
        ((0.2, 0.9), (0.9, 3.0), []),
        ((None, None), (1.1, 3.0), []),
    ],
)
def test_a_small_gradient_with_a_larger_f_is_another_stationary_point(norm: Any, gap: Any, flagged: list[str]) -> None:
    relative = Relative(Estimate(1.0, *norm), Estimate(1.0, *gap))
    assert flags(relative, even=False, averaged=False, ascends=False) == flagged


def test_a_verdict_needs_an_interval_on_one_side() -> None:
    estimates = [Estimate(1.0, *ends) for ends in ((0.5, 0.9), (1.1, 2.0), (0.9, 1.1), (None, None))]
    even = SeedShare(1, 2, 0.2, 0.8)
    assert [verdict(each, even, 0, 0) for each in estimates] == ["better", "worse", "cannot tell", "cannot tell"]


def test_where_seeds_diverged_a_verdict_needs_the_share_of_paired_seeds() -> None:
    def judged(one: list[float], other: list[float]) -> str:
        numbers = np.array(one), np.array(other)
        lost = (int(np.isnan(each).sum()) for each in numbers)
        return verdict(ratio(*numbers, 10), share_of_seeds(*numbers, 10), *lost)

    ones, lost = [1.0] * 20, [np.nan] * 20
    assert judged(ones, [2.0] * 17 + lost[:3]) == "better"  # on every seed
    assert judged([2.0] * 17 + lost[:3], ones) == "worse"
    assert judged(ones, [0.5] * 17 + lost[:3]) == "cannot tell"  # behind on 17 seeds, and loses none
    assert judged([0.5] * 17 + lost[:3], ones) == "cannot tell"  # ahead on 17 seeds, and loses three
    assert judged([*ones[:18], *lost[:2]], [2.0] * 18 + lost[:2]) == "better"  # what both lose says nothing
    assert judged(lost, lost) == "cannot tell"
    assert share_of_seeds(np.ones(6), np.full(6, 2.0), 1).low == pytest.approx(0.025 ** (1 / 6))  # P(six of six)
    assert share_of_seeds(np.ones(6), np.full(6, 2.0), 10).low == pytest.approx(0.0025 ** (1 / 6))


def row_of(norms: list[float | None]) -> RowScores:
    """A row with these ‖∇f‖ per seed, as reported and as tuned."""
    nothing = Relative(Estimate(None), None)
    tuned = None if None in norms else float(np.mean(np.array(norms, float)))
    return RowScores(None, None, {}, [], tuned, 1, norms.count(None), norms, norms, None, nothing, [], [])


def result_of(norms: dict[tuple[str, int], dict[str, Any]], methods: dict[str, MethodRow] | None = None) -> SuiteResult:
    """A result with these ‖∇f‖ per seed, by problem and budget and by row."""
    methods = methods or {
        "SGD": MethodRow("SGD", "", 0.0),
        "SGD, linear": MethodRow("SGD", "", 1.0),
        "NSGDM": MethodRow("NSGDM", "", None),
    }
    cases = [
        SuiteCase(problem, budget, None, None, {name: row_of(values) for name, values in by_row.items()})
        for (problem, budget), by_row in norms.items()
    ]
    names = tuple({problem for problem, _ in norms})
    config = SuiteConfig((100,), 4, 2, 2, names, 2.0, "SGD", {})
    return SuiteResult(config, methods, {name: PROBLEMS[name].facts for name in names}, cases)


def test_the_answer_takes_each_method_as_tuning_prefers_it() -> None:
    even = [1.0, 1.01, 0.99, 1.0]
    better = {"SGD": [9.0] * 4, "SGD, linear": even, "NSGDM": [0.5, 0.51, 0.49, 0.5]}
    worse = {"SGD": even, "SGD, linear": [9.0] * 4, "NSGDM": [2.0, 2.01, 1.99, 2.0]}
    lost = {"SGD": [None] * 4, "SGD, linear": [None] * 4, "NSGDM": [9.0] * 4}
    result = result_of({("counts", 100): better, ("cubic", 100): worse, ("sampled-phases", 100): lost})
    (answer,) = answers(result)
    assert (answer.deed, answer.does, answer.does_not) == ("normalize", "NSGDM", "SGD")
    assert [each.verdict for each in answer.cases] == ["better", "worse", "cannot tell"]  # four seeds are few
    assert [each.rows[1] for each in answer.cases] == ["SGD, linear", "SGD", "SGD"]
    assert answer.cases[0].relative.value == pytest.approx(0.5, rel=1e-3)
    assert answer.cases[2].seeds == SeedShare(4, 4, 0.3021, 1)
    trial = "If you tune the step size, normalize only where a trial of your own shows that it helps."
    assert in_short([answer]) == trial
    told = suite_tables.sentence(answer)
    assert told.startswith("NSGDM is better than SGD in 1 of 3 cases and worse in 1; in 1 the intervals cannot tell. ")
    assert "Runs that diverged: 0 with NSGDM, 4 with SGD." in told
    assert 'case for it: on counts with 100 gradients, ‖∇f‖ of "NSGDM" is 0.5 (' in told
    assert ') times that of "SGD, linear". ' in told
    assert 'case against it: on cubic with 100 gradients, ‖∇f‖ of "NSGDM" is 2 (' in told
    in_seeds = "on 4 of 4 seeds (share 0.3 to 1), and 0 against 4 runs diverge"
    lost_row = f'on sampled-phases with 100 gradients, "NSGDM" does better than "SGD" {in_seeds}'
    assert suite_tables.row_of(answer.cases[2]) == lost_row


def test_a_row_that_diverged_while_it_was_tuned_is_not_preferred() -> None:
    even = [1.0, 1.01, 0.99, 1.0]
    lost = {"SGD": [None] * 4, "SGD, linear": even, "NSGDM": even}
    found = {("counts", 100): lost, ("cubic", 100): lost | {"SGD": even, "SGD, linear": [None] * 4}}
    (answer,) = answers(result_of(found))
    assert [each.rows[1] for each in answer.cases] == ["SGD, linear", "SGD"]


def test_the_intervals_of_all_questions_and_cases_are_valid_at_the_same_time() -> None:
    rng = np.random.default_rng(0)
    rows = {name: (1 + 0.1 * rng.random(5)).tolist() for name in ("SGD", "NSGDM", "NSTORM", "clipped SGD")}
    for names, questions in ((list(rows), 3), (["SGD", "NSGDM"], 1)):
        methods = {name: MethodRow(name, "", None) for name in names}
        given = answers(result_of({("cubic", budget): rows for budget in (10, 20)}, methods))
        assert len(given) == questions
        for answer in given:
            one, other = (np.array(rows[name]) for name in (answer.does, answer.does_not))
            for each in answer.cases:
                assert each.relative.high == pytest.approx(ratio(one, other, 2 * questions).high, rel=1e-3)
                assert each.seeds.high == pytest.approx(share_of_seeds(one, other, 2 * questions).high, rel=1e-3)


def test_a_run_of_the_suite_allows_for_all_its_comparisons_and_sizes_the_clip_on_a_tuning_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sized: list[tuple[Any, int]] = []
    allowed: list[int] = []

    def size(oracle: Any, seed: int) -> float:
        sized.append((oracle.objective.start.tolist(), seed))
        return 1.0

    def of_case(problem: Any, budget: int, _results: Any, comparisons: int, size: float) -> SuiteCase:
        allowed.append(comparisons)
        return SuiteCase(problem.name, budget, None, size, {})

    monkeypatch.setattr(running, "gradient_size", size)
    monkeypatch.setattr(running, "compare", lambda *_, **__: {})
    monkeypatch.setattr(running, "case", of_case)
    monkeypatch.setattr(running, "answers", lambda _: [])
    rows = entries({"SGD": "sgd", "NSGDM": "nsgdm(eta=0.1)"}, ["nsgdm(gamma=0.1,eta=0.1)"])
    settings = dataclasses.replace(TINY, problems=("cubic", "counts"), budgets=(5, 6, 7))
    study.run(rows, settings, progress=False)
    assert allowed == [2 * 3 * (5 - 1)] * 6  # every row but the reference, in every case
    reported = [PROBLEMS[name].oracle(seed).objective.start.tolist() for name in settings.problems for seed in range(2)]
    for start, seed in sized:
        assert seed >= FIRST_TUNING_SEED
        assert start not in reported


def test_the_answer_in_short_is_to_try_not_to_or_what_a_trial_shows() -> None:
    even = [1.0, 1.01, 0.99, 1.0]
    worse = {"SGD": even, "SGD, linear": even, "NSGDM": [2.0, 2.01, 1.99, 2.0]}
    alike = {"SGD": even, "SGD, linear": even, "NSGDM": even}
    (never,) = answers(result_of({("counts", 100): worse, ("cubic", 100): alike}))
    (open_,) = answers(result_of({("counts", 100): alike, ("cubic", 100): alike}))
    assert in_short([never, open_]) == (
        "If you tune the step size, do not normalize, and try for yourself whether to normalize."
    )
    assert "case for it" not in suite_tables.sentence(never)


TINY = SuiteSettings((6, 20), seeds=2, tuning_seeds=2, step_sizes=2, problems=("cubic",))


def test_a_suite_that_was_killed_and_resumed_gives_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = entries({"SGD": "sgd"}, ["nsgdm(gamma=0.1,eta=0.1)"])
    whole = study.run(rows, TINY, progress=False)
    calls: list[int] = []

    def killed(*arguments: Any, **options: Any) -> Any:
        calls.append(options["budget"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return compare(*arguments, **options)

    monkeypatch.setattr(running, "compare", killed)
    with pytest.raises(KeyboardInterrupt):
        study.run(rows, TINY, progress=False, store=tmp_path)
    monkeypatch.undo()
    kept = len(list(tmp_path.rglob("*.parquet")))
    assert kept > 0
    resumed = study.run(rows, TINY, progress=False, store=tmp_path)
    assert to_json(resumed) == to_json(whole)
    assert len(list(tmp_path.rglob("*.parquet"))) > kept
    assert calls == [6, 20]
    for text in ([*suite_tables.of_case(whole, each)[0]] for each in whole.cases):
        assert text[2:5] == ["‖∇f‖", "relative", "f − inf f"]
    assert [len(row) for row in suite_tables.over_cases(whole)[1]] == [7, 7, 7]
    assert suite_figures.profiles(whole).axes


def test_the_command_writes_prints_and_refuses(gladstorm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(study, "QUICK", dataclasses.replace(TINY, budgets=(20,)))
    monkeypatch.setattr(study, "BASELINES", {"SGD": "sgd"})
    out = tmp_path / "out"
    own = "nsgdm(gamma=0.1,eta=0.1)"
    code, printed, err = gladstorm("suite", "--quick", "--out", str(out), "--method", own)
    assert code == 0, err
    assert "cubic (development)" in printed
    assert {path.name for path in out.iterdir()} == {"suite.json", "profiles.png", "store"}
    code, printed, _ = gladstorm("suite", "--quick", "--out", str(out), "--method", own, "--json")
    assert code == 0
    kept = load(out)
    assert json.loads(printed)["cases"] == to_json(kept.cases)
    for wrong in (["--problem", "no"], ["--role", "both"], ["--method", "no"], ["--budget", "0"], ["--seeds", "0"]):
        code, _, err = gladstorm("suite", "--quick", "--out", str(out), *wrong)
        assert (code, err.count("\n")) == (2, 1), err


def test_a_method_that_is_tuned_over_more_settings_than_others_is_refused(tmp_path: Path) -> None:
    rows = entries({"SGD": "sgd"}, ["nsgdm(eta=[0.1,0.2])"])
    with pytest.raises(ValueError, match="must have equally many settings"):
        study.run(rows, TINY, progress=False)
