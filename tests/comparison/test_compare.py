"""Methods as text, and comparisons at equal budgets."""

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from gladstorm import BlumGladyshev, Method, nsgdm, nstorm, sgd, sweep, theory
from gladstorm.comparison import compare as comparison
from gladstorm.comparison.compare import ComparisonInterrupted, compare, methods_from
from gladstorm.comparison.compared import Compared, against_first
from gladstorm.comparison.scores import reported_scores
from gladstorm.core import rules
from gladstorm.methods import METHODS, from_plan
from gladstorm.methods.estimators import Fresh, Saga
from gladstorm.methods.steps import Plain
from gladstorm.methods.text import parse_method
from gladstorm.plotting import figures
from gladstorm.problems import objectives
from gladstorm.problems.oracles import FiniteSum

Said = Callable[..., tuple[int, str, str]]


def test_every_named_method_declares_parts_price_and_source() -> None:
    for declaration in METHODS.values():
        row = declaration.as_dict()
        assert all(row[key] for key in ("method", "estimator", "step", "batch", "sfo", "source"))
        assert bool(row["complexity"]) == bool(row["assumptions"])


@pytest.fixture(scope="module")
def found() -> dict[str, Compared]:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    texts = ["nsgdm(eta=0.1)", "nstorm(eta=0.1)", "pasta(sigma2=0.1)", "nstorm(gamma=0.01,eta=0.5)"]
    methods = methods_from(texts, [1e-3, 1e-2, 1e-1], {"B": 0.5, "G": 0.5})
    return compare(oracle, methods, budget=1000, seeds=4, tuning_seeds=4)


def test_every_method_spends_the_same_and_is_tuned_on_other_seeds(found: dict[str, Compared]) -> None:
    assert list(found)[:2] == ["nsgdm(eta=0.1)", "nstorm(eta=0.1)"]
    for name, each in found.items():
        spent = each.record.sfo[0, np.arange(4), each.ends]
        assert np.all(spent <= 1000)
        assert np.all(spent >= 900), name
        assert len(each.tuning.labels) == (1 if name == "nstorm(gamma=0.01,eta=0.5)" else 3)
        assert set(each.record.seeds.tolist()).isdisjoint(each.tuning.seeds.tolist())
        tried = reported_scores(each.tuning, 1000)
        assert each.record.labels == (each.tuning.labels[int(np.argmin(tried))],)
        assert bool(each.at_edge) == (tried.argmin() != 1 and tried.size > 1)
        assert each.curves()["sfo"][-1] <= 1000


def test_the_first_method_is_what_others_are_measured_by(found: dict[str, Compared]) -> None:
    against = against_first(found)
    assert list(against) == list(found)[1:]
    a, b = found["pasta(sigma2=0.1)"].grad_norm, found["nsgdm(eta=0.1)"].grad_norm
    logs = np.log(a / b)
    half = stats.t.ppf(1 - 0.05 / 6, 3) * logs.std(ddof=1) / 2  # three comparisons, four seeds
    expected = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
    measured = against["pasta(sigma2=0.1)"].grad_norm
    np.testing.assert_allclose([measured.value or 0, measured.low or 0, measured.high or 0], expected, rtol=1e-12)


def test_what_diverged_is_not_chosen_and_a_choice_in_doubt_is_marked_wherever_it_is_shown(
    gladstorm: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "save", lambda figure, _: drawn.append(figure))
    command = "compare --objective cauchy --dim 2 --start 2 --budget 300 --seeds 2 --tuning-seeds 2 --grid 1e-3,1e3,4"
    words = [*command.split(), "--method", "sgd", "--method", "nsgdm(eta=0.1)", "--plot", str(tmp_path / "all.png")]
    code, out, err = gladstorm(*words, "--json")
    assert code == 0, err
    plain, normalized = json.loads(out)["methods"].values()
    # SGD with γ = 10 diverges to where ∇f = 0; normalized steps of length 1000 end where ∇f is nearly that.
    assert plain["settings"]["sgd (gamma=10)"] is plain["settings"]["sgd (gamma=1000)"] is None
    assert (plain["label"], plain["diverged"], plain["above_start"], plain["warnings"]) == ("sgd (gamma=0.1)", 0, 0, [])
    assert (normalized["at_edge"], normalized["above_start"]) == (["gamma"], 2)
    edge, above = normalized["warnings"]
    assert edge == "gamma=1e+03 is the largest value tried; a wider grid may do better."
    assert "f ended above f(x⁰)" in above
    shown = gladstorm(*words)[1]
    assert shown.count("Warning: ") == 2
    assert "nsgdm(eta=0.1) (gamma=1000) * ↑ " in shown
    assert "sgd (gamma=0.1) *" not in shown
    assert "* a tuned number is at the edge of its grid; ↑ f ended above f(x⁰)" in shown
    for figure in drawn:
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        assert [text.endswith("* ↑") for text in legend] == [False, True]
        assert "↑ f ended above f(x⁰)" in figure.get_suptitle()
    assert len(drawn) == 2


def test_a_curve_ends_where_the_first_seed_has_spent_the_budget(found: dict[str, Compared]) -> None:
    record = found["nsgdm(eta=0.1)"].record
    sfo = np.stack([record.steps * price for price in (1, 2, 3, 4)])[None]  # seeds of different prices
    each = dataclasses.replace(found["nsgdm(eta=0.1)"], record=dataclasses.replace(record, sfo=sfo))
    curves = each.curves()
    count = curves["sfo"].size
    assert sfo[0, :, count - 1].max() <= each.budget < sfo[0, :, count].max()
    np.testing.assert_allclose(curves["sfo"], 2.5 * record.steps[:count])
    np.testing.assert_allclose(curves["grad_norm"]["mean"], record.grad_norm[0].mean(0)[:count])
    np.testing.assert_allclose(curves["grad_norm"]["std"], record.grad_norm[0].std(0)[:count])


def test_marks_by_hand(found: dict[str, Compared]) -> None:
    first, *_, fixed = found.values()

    def ending(values: Sequence[float], diverged: int = -1) -> Compared:
        record = first.record
        value = np.repeat(np.reshape(values, (1, 4, 1)), record.steps.size, axis=-1)
        value[..., 0] = 1.0
        lost = np.full((1, 4), -1)
        lost[0, 0] = diverged
        return dataclasses.replace(
            first, record=dataclasses.replace(record, value=value, reported_value=value, diverged=lost)
        )

    assert [ending(values).above_start for values in ([1, 1, 1, 1], [2, 1, 0, 0], [2, 3, np.nan, 1])] == [0, 1, 3]
    assert [ending(values).ascends for values in ([2, 2, 1, 1], [2, 2, 2, 1], [2, np.inf, np.nan, 1])] == [
        False,
        True,
        True,
    ]
    # Within the budget is what counts: these runs go on after it.
    last = int(first.record.steps[first.ends].max())
    assert [ending([0] * 4, step).diverged for step in (-1, 0, last, last + 1)] == [0, 1, 1, 0]
    assert (fixed.at_edge, fixed.tuned, fixed.marks) == ([], "", "")
    nothing_survived = dataclasses.replace(first.tuning, reported_grad_norm=first.tuning.reported_grad_norm * np.nan)
    assert "every setting diverged" in dataclasses.replace(first, tuning=nothing_survived).warnings[0]


def test_methods_are_tuned_over_equally_many_settings_or_not_at_all() -> None:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    with pytest.raises(
        ValueError, match=r"equally many settings, or just one; got 2 for one, 3 for other, 1 for fixed\."
    ):
        compare(oracle, {"one": sgd([1, 2]), "other": sgd([1, 2, 3]), "fixed": sgd(1)}, budget=10)


@pytest.mark.parametrize("budget", [5, 6, 7, 20, 41])
def test_any_budget_that_pays_for_a_first_step_is_spent(budget: int) -> None:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    methods = {"NSGDM": nsgdm([1e-3, 1e-2], 0.1), "NSTORM": nstorm([1e-3, 1e-2], 0.1, n_init=[2, 3])}
    for name, each in compare(oracle, methods, budget=budget, seeds=2, tuning_seeds=1, progress=False).items():
        steps = (budget - 1) if name == "NSGDM" else (budget - each.record.sfo[0, 0, 0]) // 2
        assert each.record.steps[each.ends].tolist() == [steps, steps]
        assert np.isfinite(each.grad_norm).all()


def test_a_budget_that_pays_for_no_first_step_is_refused_with_the_one_that_does() -> None:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    methods = {"SGD": sgd(0.1), "NSTORM": nstorm(0.1, 0.1, n_init=[2, 3])}
    with pytest.raises(
        ValueError, match=r"first step of every method, 5 stochastic gradients for NSTORM; got budget=4"
    ):
        compare(oracle, methods, budget=4)
    spider = methods_from(["normalized_spider(q=2,large=7)"], [0.1], {})
    with pytest.raises(ValueError, match=r"9 stochastic gradients for normalized_spider\(q=2,large=7\); got budget=1"):
        compare(oracle, spider, budget=1)
    few = FiniteSum(objectives.named("dro:5", dim=2))  # all five examples once is as much as there is to pay for
    with pytest.raises(ValueError, match="7 stochastic gradients"):
        compare(few, spider, budget=1)


@pytest.mark.parametrize("methods", [{}, {"SGD": Plain(0.1)}, {"SGD": "sgd"}])
def test_a_comparison_is_of_methods(methods: Any) -> None:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    with pytest.raises(ValueError, match="compare: methods must be Method objects"):
        compare(oracle, methods, budget=10)


def test_what_does_not_fit_is_known_before_anything_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "sweep", lambda *_, **__: pytest.fail("begun"))
    monkeypatch.setattr(rules, "free_memory", lambda: 10**9)
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    with pytest.raises(ValueError, match="Saga: the oracle must be a FiniteSum"):
        compare(oracle, {"SGD": sgd([0.1, 0.2]), "SAGA": Method(Saga(), Plain([0.1, 0.2]))}, budget=10)
    with pytest.raises(ValueError, match="oracle must be of a class that inherits Oracle"):
        compare(oracle.objective, {"SGD": sgd(0.1)}, budget=10)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ValueError, match=r"recorded at 201 steps, must fit in memory"):
        compare(oracle, {"SGD": sgd(0.1)}, budget=10**6, seeds=10**12)
    with pytest.raises(ValueError, match=r"compare: seeds must be a whole number ≥ 1; got seeds=\[1, 2\]"):
        compare(oracle, {"SGD": sgd(0.1)}, budget=10, seeds=[1, 2])  # type: ignore[arg-type]  # likewise
    with pytest.raises(ValueError, match=r"must pay for the first step of every method, 6 stochastic gradients"):
        compare(oracle, {"SGD": Method(Fresh(), Plain(0.1), 3)}, budget=5)  # type: ignore[arg-type]  # 3 is a rule


def test_a_whole_number_may_be_a_float() -> None:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    counts: tuple[dict[str, Any], ...] = tuple(dict.fromkeys(("budget", "seeds", "tuning_seeds"), n) for n in (2, 2.0))
    whole, floats = (compare(oracle, {"SGD": sgd(0.1)}, progress=False, **each)["SGD"].grad_norm for each in counts)
    assert floats.tolist() == whole.tolist()


def test_one_seed_cannot_tell(gladstorm: Said) -> None:
    arguments = "compare --objective cauchy --dim 2 --start 1 --B 0.5 --G 0.5 --budget 1000 --seeds 1 --tuning-seeds 4"
    arguments += " --grid 1e-3,1e-1,3 --method nsgdm(eta=0.1) --method nstorm(eta=0.1)"
    report = json.loads(gladstorm(*arguments.split(), "--json")[1])
    row, relative = report["methods"]["nsgdm(eta=0.1)"], report["against_first"]["nstorm(eta=0.1)"]["gap"]
    for found in (row["grad_norm"], row["drift2"], relative):
        assert found["mean"] is not None
        assert (found["low"], found["high"]) == (None, None)
    out = " ".join(gladstorm(*arguments.split())[1].split())
    assert "one seed cannot tell which method is better" in out
    assert "%" not in out
    assert f" {relative['mean']:.4g} │" in out


def test_the_table_says_which_mean_each_number_is_and_names_a_tuned_batch_by_its_argument(
    gladstorm: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "save", lambda figure, _: drawn.append(figure))
    command = "compare --objective power:3 --dim 2 --budget 200 --seeds 3 --tuning-seeds 2 --quiet --method"
    methods = ["nsgdm(gamma=0.01,eta=0.1,batch=[1,4])", "--method", "nsgdm(gamma=[0.01,0.1],eta=0.1,batch=2)"]
    code, out, err = gladstorm(*command.split(), *methods, "--plot", str(tmp_path / "all.png"))
    assert code == 0, err
    words = " ".join(out.split())
    assert "mean over seeds [95 % interval]; relative: geometric mean of the seeds' ratios to the first" in words
    assert re.search(r"nsgdm\(gamma=0.01,eta=0.1,batch=[14]\) ", words)
    assert "size" not in words
    legend = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert re.fullmatch(r"nsgdm\(gamma=0.01,eta=0.1,batch=[14]\).*", legend[0]), legend


def test_a_notebook_shows_control_characters_of_a_name_and_does_not_obey_them(found: dict[str, Compared]) -> None:
    each = found["nsgdm(eta=0.1)"]
    configuration = dataclasses.replace(each.record.configurations[0], name="\x1b[31mred<b>")
    record = dataclasses.replace(each.record, configurations=(configuration,))
    page = record._repr_html_()
    assert "\x1b" not in page
    assert r"\x1b[31mred&lt;b&gt;" in page


def test_the_command_prints_json_draws_and_saves(gladstorm: Said, tmp_path: Path, found: dict[str, Compared]) -> None:
    saved, drawn = tmp_path / "all.parquet", tmp_path / "all.png"
    arguments = "compare --objective cauchy --dim 2 --start 1 --B 0.5 --G 0.5 --budget 1000 --seeds 4 --tuning-seeds 4"
    arguments += " --grid 1e-3,1e-1,3 --method nsgdm(eta=0.1) --method nstorm(eta=0.1)"
    code, out, err = gladstorm(*arguments.split(), "--json", "--save", str(saved), "--plot", str(drawn))
    assert code == 0
    assert "compare: 1 of 2 methods, nstorm(eta=0.1) …" in err
    report = json.loads(out)
    row = report["methods"]["nsgdm(eta=0.1)"]
    assert row["grad_norm"]["per_seed"] == found["nsgdm(eta=0.1)"].grad_norm.tolist()
    assert len(row["settings"]) == 3
    assert list(report["against_first"]) == ["nstorm(eta=0.1)"]
    assert set(pq.read_table(saved).column("stage").to_pylist()) == {"tuning", "reported"}
    assert drawn.read_bytes().startswith(b"\x89PNG")
    code, out, _ = gladstorm(*arguments.split())
    assert code == 0
    for word in ("‖∇f‖", "f − inf f", "relative", "one start", "nstorm(eta=0.1)", "1,000 stochastic gradients"):
        assert word in out


def test_ctrl_c_keeps_the_methods_that_had_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    swept = []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        swept.append(arguments)
        if len(swept) > 4:  # pilot and run, tuned and reported, of the first group
            raise KeyboardInterrupt
        return sweep(*arguments, **options)

    monkeypatch.setattr("gladstorm.comparison.compare.sweep", interrupted)
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    methods = {"NSGDM": nsgdm([1e-3, 1e-2, 1e-1], 0.1), "NSTORM": nstorm([1e-3, 1e-2, 1e-1], 0.1)}
    with pytest.raises(ComparisonInterrupted) as interrupt:
        compare(oracle, methods, budget=1000, seeds=4, tuning_seeds=4)
    assert list(interrupt.value.finished) == ["NSGDM"]


def test_the_paper_s_schedules_are_methods_by_name() -> None:
    text = "nstorm_by_theory(gamma0=[2.5,7.5],horizon=10001,alpha=0.5)"
    found: Any = parse_method(text, {"B": 0.5, "G": 0.5})
    problem = theory.Problem(alpha=0.5, L0=1, L1=1, B=0.5, G=0.5, gap=1)
    for row, gamma0 in enumerate((2.5, 7.5)):
        prescribed = from_plan(theory.Plan(theory.theorem("nstorm", problem, gamma0=gamma0), 10_001))
        assert jax.tree.map(lambda number, row=row: np.broadcast_to(number, 2)[row], found) == prescribed
    momentum: Any = parse_method("nsgdm_by_theory(gamma0=10,horizon=10001,B=0.5,G=1)")
    assert momentum.step.gamma == pytest.approx(10 * 10_001 ** (-5 / 6))
    assert momentum.estimator.eta == pytest.approx(10_001 ** (-2 / 3))
