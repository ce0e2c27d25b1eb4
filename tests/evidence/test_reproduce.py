"""The paper's experiments: what they declare, how they resume, what they refuse."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import chromium, opened
from evidence.reproduction import report
from evidence.reproduction.experiments import EXPERIMENTS, TUNING_SEEDS, ReproductionSettings
from evidence.reproduction.results import (
    BUDGET,
    COMPARED,
    DYNAMIC,
    EQUAL_STEP,
    MAIN,
    NSGDM,
    NSTORM,
    SENSITIVITY,
    TUNED,
    TUNING,
    Results,
    last_tenth,
)
from evidence.reproduction.run import reproduce
from evidence.reproduction.summary import ClaimVerdict, ExperimentSummary
from evidence.results import load
from gladstorm import theory

Said = Callable[..., tuple[int, str, str]]
PICTURES = [f"{name}.{kind}" for name in ("figure", "budget", "sensitivity") for kind in ("png", "pdf")]
FILES = ["results.parquet", "summary.json", *PICTURES]
TIMEOUT = 1200.0  # generous: no test is about time


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python -m evidence reproduction --quick` leaves, run by a process of its own."""
    folder = tmp_path_factory.mktemp("out")
    _started(folder).wait(TIMEOUT)
    return folder


@pytest.fixture(scope="module")
def cubic(out: Path) -> Results:
    """The cubic at 400 steps."""
    return Results.load(out / "cubic" / "results.parquet")


def _started(folder: Path, *experiments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "evidence", "reproduction", *experiments, "--quick", "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_quick_writes_every_output_of_both_experiments(out: Path) -> None:
    for name in EXPERIMENTS:
        assert sorted(path.name for path in (out / name).iterdir()) == sorted(FILES)
        assert (out / name / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert (out / name / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert "<html" in (out / "report.html").read_text()


def test_the_summary_has_the_fields_people_rely_on(out: Path) -> None:
    for name in EXPERIMENTS:
        said = json.loads((out / name / "summary.json").read_text())
        assert set(said["methods"]) == set(COMPARED)
        for numbers in said["methods"].values():
            for field in ("final_grad_norm", "last10_grad_norm", "mean_grad_norm", "drift2_final"):
                assert set(numbers[field]) == {"mean", "std", "per_seed"}
            assert {"step_size", "sfo_total", "max_batch"} <= set(numbers)
        for method in (NSGDM, NSTORM):
            assert {"gamma", "eta", "n_init", "conditions", "violations"} <= set(said["schedule"][method])
        for claim in said["claims"]:
            assert {"id", "statement", "verdict", "estimate", "ci", "seeds"} <= set(claim)
        assert {"B", "G", "sigma2", "steps", "seeds", "versions", "code"} <= set(said["config"])


def test_a_report_is_about_the_instance_that_was_run(out: Path) -> None:
    said = json.loads((out / "phase-retrieval" / "summary.json").read_text(encoding="utf-8"))
    assert "with m = 300 measurements in d = 10 dimensions" in said["about"]
    assert "with m = 300 measurements in d = 10 dimensions" in (out / "report.html").read_text(encoding="utf-8")
    experiment = EXPERIMENTS["phase-retrieval"]
    assert "with m = 3000 measurements in d = 100 dimensions" in experiment.about(experiment.instance(0))


def test_the_report_has_every_verdict_and_number_of_the_summaries_in_its_tables(out: Path) -> None:
    for name, experiment in EXPERIMENTS.items():
        findings = load(ExperimentSummary, out / name / "summary.json")
        tables = dict(report.tables_of(findings))
        assert all(title.startswith(f"{experiment.title}: ") for title in tables)
        by_title = {title.partition(": ")[2]: rows for title, rows in tables.items()}
        assert all(len({len(row) for row in rows}) == 1 for rows in tables.values())
        verdicts = by_title["verdicts on the paper’s sentences"][1:]
        assert sorted((row[0], row[2], row[3]) for row in verdicts) == sorted(
            (claim.statement, str(claim.seeds), claim.verdict) for claim in findings.claims
        )
        sizes = by_title["step sizes tried"][1:]
        assert len(sizes) == sum(len(tuning.grid) for tuning in findings.tuning.values())
        picked = {row[0]: float(row[1]) for row in sizes if row[5].startswith("picked")}
        for method, tuning in findings.tuning.items():
            assert picked[method] in (
                pytest.approx(tuning.best, rel=1e-2),
                pytest.approx(tuning.best_at_budget, rel=1e-2),
            )
        assert [row[0] for row in by_title["methods at equal iterations"][1:]] == list(COMPARED)


def test_the_tally_counts_each_sentence_once_on_the_most_seeds() -> None:
    def claim(statement: str, verdict: str, seeds: int) -> ClaimVerdict:
        return ClaimVerdict(statement, statement, "", verdict, None, None, seeds, "")

    claims = [claim("a", "holds", 100), claim("a", "cannot tell", 3), claim("b", "does not hold", 100)]
    claims.append(claim("c", "depends on the reading (1 of 2 hold)", 100))
    assert report.tally(claims) == ("3 sentences tested, 1 held up, 1 did not, 1 undecided or a matter of reading")


def test_the_report_draws_the_runs_and_asks_nobody_for_anything(out: Path, tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as browser:
        shown = opened(browser, out / "report.html")
        assert shown.requests() == [(out / "report.html").as_uri()]
        assert shown.log("browser") == []
        assert shown.run("return content.methods.map(({name}) => name)") == list(COMPARED)
        rows = """const {view} = charts.find(({id}) => id === "grad_norm");
            return view.data("rows").filter(({s}) => s === 0).at(-1).y"""
        for name, experiment in EXPERIMENTS.items():
            state = {"experiment": experiment.title, "compared at": "equal iterations, as in the paper"}
            last = shown.run(f"set({json.dumps(state)}); {rows}")
            record = Results.load(out / name / "results.parquet").runs(MAIN, NSGDM).on_seeds(3)
            assert last == float(f"{record.grad_norm[0, :, -1].mean():.4g}")
        assert shown.run("return document.querySelectorAll('#words details').length") == 10
        assert shown.run("return document.documentElement.scrollWidth") <= 1280


def test_nsgdm_pays_one_call_a_step_and_nstorm_two_after_its_first_estimate(out: Path) -> None:
    for name in EXPERIMENTS:
        said = json.loads((out / name / "summary.json").read_text())
        steps = said["config"]["steps"]
        assert said["methods"]["NSGDM"]["sfo_total"] == steps + 1
        assert said["methods"]["NSTORM"]["sfo_total"] == said["schedule"]["NSTORM"]["n_init"] + 2 * steps
        for numbers in said["budget"]["methods"].values():
            assert numbers["sfo_total"] <= said["budget"]["sfo"] == steps + 1


@pytest.mark.parametrize(
    ("name", "method", "gamma", "eta", "n_init", "calls"),
    [
        ("phase-retrieval", "nsgdm", "4.641e-03", "2.154e-03", 1, 10_001),
        ("phase-retrieval", "nstorm", "5.397e-03", "3.727e-04", 4, 20_004),
        ("cubic", "nsgdm", "4.641e-04", "2.154e-03", 1, 10_001),
        ("cubic", "nstorm", "7.742e-04", "2.782e-04", 2, 20_002),
    ],
)
def test_the_theorems_give_the_papers_digits(
    name: str, method: str, gamma: str, eta: str, n_init: int, calls: int
) -> None:
    experiment = EXPERIMENTS[name]
    problem = theory.Problem(
        alpha={"cubic": 1 / 2}.get(name, 2 / 3), L0=1, L1=1, B=ReproductionSettings().B, G=experiment.G, gap=1
    )
    statement = theory.theorem(method, problem, gamma0=experiment.gamma0[method.upper()], eta0=experiment.eta0)
    schedule = statement.schedule(ReproductionSettings().steps + 1)
    assert (f"{schedule.gamma:.3e}", f"{schedule.eta:.3e}", schedule.n_init) == (gamma, eta, n_init)
    assert statement.sfo(ReproductionSettings().steps + 1) == calls


def test_step_sizes_are_searched_on_other_seeds_than_those_reported(cubic: Results) -> None:
    for method in TUNED:
        assert set(cubic.runs(TUNING, method).seeds) == set(TUNING_SEEDS)
        assert not set(TUNING_SEEDS) & set(cubic.runs(MAIN, method).seeds)


def test_the_step_size_picked_is_the_best_of_its_grid_and_not_at_its_edge(cubic: Results) -> None:
    for method in TUNED:
        record = cubic.runs(TUNING, method)
        scores = np.where(np.isfinite(last_tenth(record)), last_tenth(record), np.inf).mean(axis=-1)
        grid = cubic.step_sizes(TUNING, method)
        best = cubic.config["step_sizes"][method]
        assert grid[int(np.argmin(scores))] == best
        assert min(grid) < best < max(grid)


def test_a_grid_that_misses_the_best_step_size_is_extended_and_says_so(tmp_path: Path) -> None:
    settings = ReproductionSettings(seeds=3, steps=400, grid=(1e-5, 3e-5), quick=True)
    results = reproduce(EXPERIMENTS["cubic"], settings, tmp_path)
    assert all(results.config["grids_extended"][method] for method in TUNED)
    assert all(results.config["step_sizes"][method] > 3e-5 for method in TUNED)


def test_methods_of_a_seed_share_their_instance_and_seeds_do_not(cubic: Results) -> None:
    starts = {method: cubic.runs(MAIN, method).value[0, :, 0] for method in COMPARED}
    for values in starts.values():
        np.testing.assert_array_equal(values, starts[NSGDM])
    assert len(set(starts[NSGDM])) == starts[NSGDM].size


def test_a_schedule_for_the_budget_spends_at_most_that(cubic: Results) -> None:
    assert cubic.runs(BUDGET, NSTORM).sfo[0, 0, -1] in (cubic.config["budget"] - 1, cubic.config["budget"])
    for method in DYNAMIC:
        record = cubic.runs(BUDGET, method)
        assert (record.sfo[0, :, -1] >= 0.9 * cubic.config["budget"]).all()


def test_results_hold_every_stage_and_survive_their_file(cubic: Results, tmp_path: Path) -> None:
    stages = {(MAIN, method) for method in COMPARED} | {(TUNING, method) for method in TUNED}
    stages |= {(SENSITIVITY, NSGDM), (SENSITIVITY, NSTORM), (EQUAL_STEP, NSGDM), (BUDGET, NSTORM)}
    assert stages <= set(cubic.records)
    cubic.save(tmp_path / "again.parquet")
    again = Results.load(tmp_path / "again.parquet")
    assert again.config == cubic.config
    for key, record in cubic.records.items():
        np.testing.assert_array_equal(again.records[key].grad_norm, record.grad_norm)
        assert again.records[key].labels == record.labels


def test_page_only_draws_again_without_computing(out: Path, evidence: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: (out / name / "figure.png").read_bytes() for name in EXPERIMENTS}
    for name in EXPERIMENTS:
        (out / name / "figure.png").unlink()
    (out / "report.html").unlink()

    def computed(*_: Any, **__: Any) -> None:
        raise AssertionError("--page-only simulated")

    monkeypatch.setattr("evidence.reproduction.run.sweep", computed)
    code, printed, _ = evidence("reproduction", "--page-only", "--out", str(out))
    assert code == 0
    assert printed == f"Results, figures and the page index.md are in {out}.\n"
    assert {name: (out / name / "figure.png").read_bytes() for name in EXPERIMENTS} == before
    assert (out / "report.html").exists()


def test_json_is_all_there_is_on_standard_output(out: Path, evidence: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.reproduction.page.draw", lambda _: None)  # as the test above does
    code, printed, _ = evidence("reproduction", "--page-only", "--out", str(out), "--json")
    assert code == 0
    assert set(json.loads(printed)) == set(EXPERIMENTS)


def test_the_help_and_the_page_name_every_experiment(evidence: Said) -> None:
    assert f"{', '.join(EXPERIMENTS)};" in evidence("reproduction", "-h")[1]
    page = (Path(__file__).parents[2] / "docs/evidence/reproduction/index.md").read_text("utf-8")
    assert all(f"## {each.title}\n" in page for each in EXPERIMENTS.values())
