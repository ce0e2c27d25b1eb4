"""The command line: the contract's JSON, human tables, one sentence and exit code 2 for bad usage."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import first_result
from gladstorm import Record, cli
from gladstorm.jobs import interrupts
from gladstorm.simulation import simulate

Said = Callable[..., tuple[int, str, str]]

CLOSED_FORM = (
    "simulate --objective power:3 --start 5 --B 0 --G 0 --eta 1 --gamma 0.001 --steps 1000 --seeds 1 --json --method"
).split()


def test_the_command_whose_first_result_the_bench_times_is_the_readmes_and_works(gladstorm: Said) -> None:
    python, option, *command = first_result.command()
    assert (python, option, command[:2]) == (sys.executable, "-m", ["gladstorm", "simulate"])
    code, out, _ = gladstorm(*command[1:], "--steps", "5", "--seeds", "2")
    assert code == 0
    assert "nsgdm" in out


@pytest.mark.parametrize(("method", "sfo"), [(["nsgdm"], 1001), (["nstorm", "--n-init", "4"], 2004)])
def test_the_cubic_without_noise_reports_the_closed_form(gladstorm: Said, method: list[str], sfo: int) -> None:
    code, out, err = gladstorm(*CLOSED_FORM, *method)
    assert (code, err) == (0, "")
    report = json.loads(out)
    row = report["methods"][method[0]]
    assert row["mean_grad_norm"]["mean"] == pytest.approx(np.mean(3 * (5 - 0.001 * np.arange(1001)) ** 2), rel=1e-12)
    assert row["final_grad_norm"]["mean"] == pytest.approx(48, rel=1e-12)
    assert row["drift2"]["per_seed"] == pytest.approx([1.0], rel=1e-11)
    assert row["sfo"] == sfo
    assert isinstance(row["sfo"], int)
    assert row["max_batch"] == (4 if "4" in method else 1)
    assert row["diverged"] == 0
    assert report["config"]["steps"] == 1000


def test_the_same_through_python_m_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "gladstorm", *CLOSED_FORM, "nsgdm"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["methods"]["nsgdm"]["sfo"] == 1001


def test_methods_with_their_own_numbers_sweeps_and_dynamic_batches(gladstorm: Said, tmp_path: Path) -> None:
    saved = tmp_path / "runs.parquet"
    batch = "grow_with_distance(sigma2=0.01,cap=150)"  # with B and G of the oracle
    sgd, storm = f"sgd(batch={batch})", f"storm(gamma=0.1,eta=0.5,batch={batch})"
    arguments = "--gamma 0.01 --gamma 0.02 --steps 50 --seeds 3 --json --save".split()
    code, out, _ = gladstorm(
        *("simulate", "--objective", "cauchy", "--dim", "2", "--method", sgd, "--method", storm),
        *(*arguments, str(saved)),
    )
    assert code == 0
    methods = json.loads(out)["methods"]
    assert list(methods) == [f"{sgd} (gamma=0.01)", f"{sgd} (gamma=0.02)", storm]
    assert methods[storm]["max_batch"] <= 150
    assert methods[f"{sgd} (gamma=0.02)"]["sfo"] > 51
    record = Record.load(saved)
    assert record.labels == tuple(methods)
    assert methods[f"{sgd} (gamma=0.01)"]["mean_grad_norm"]["per_seed"] == record.mean_grad_norm[0, :, -1].tolist()


def test_a_diverged_run_is_null_in_json_and_said_in_the_table(gladstorm: Said) -> None:
    arguments = "simulate --objective power:3 --start 5 --B 5 --method sgd --gamma 10 --steps 40 --seeds 2".split()
    code, out, _ = gladstorm(*arguments, "--json")
    row = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["methods"]["sgd"]
    assert code == 0
    assert row["diverged"] == 2
    assert all(step > 0 for step in row["diverged_at"])
    assert row["final_grad_norm"]["mean"] is None
    code, out, _ = gladstorm(*arguments)
    assert "not finite" in out
    assert "2/2" in out


def test_the_table_names_methods_and_columns(gladstorm: Said) -> None:
    code, out, err = gladstorm(
        *"simulate --objective power:3 --method nsgdm --gamma 0.1 --eta 0.5 --steps 20 --seeds 3".split()
    )
    assert (code, err) == (0, "")
    for word in ("nsgdm", "mean ‖∇f‖", "SFO", "d = 1", "3 seeds"):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--objective cubic --method sgd --gamma 1", "objective: must be one of"),
        ("--objective cauchy --method adamw --gamma 1", "method: must be one of adam, adaptive_storm, "),
        ("--objective cauchy --method sgd", "sgd needs gamma, as in sgd(gamma=0.1); got none"),
        ("--objective cauchy --method nsgdm --gamma 1", "nsgdm needs eta"),
        ("--objective cauchy --method sgd(beta=1) --gamma 1", "sgd takes gamma, batch; got 'beta'"),
        ("--objective cauchy --method sgd(gamma=x)", "gamma of sgd must be a number, a list or one of"),
        ("--objective cauchy --method sgd --method sgd --gamma 1", "given once; got 'sgd' twice"),
        ("--objective cauchy --method sgd --gamma -1", "Plain: gamma must be finite and > 0; got gamma=-1.0."),
        ("--objective cauchy --method sgd --gamma nan", "Plain: gamma must be finite and > 0; got gamma=nan."),
        ("--objective cauchy --method nsgdm --gamma 1 --eta 2", "Momentum: eta must be in (0, 1]; got eta=2.0."),
        ("--objective cauchy --method nstorm --gamma 1 --eta 1 --n-init 0", "n_init must be a whole number"),
        ("--objective cauchy --method sgd(batch=0) --gamma 1", "Fixed: size must be a whole number"),
        (
            "--objective cauchy --method sgd(batch=many) --gamma 1",
            "batch of sgd must be a number, a list or one of fixed",
        ),
        ("--objective cauchy --method sgd(batch=grow_with_distance) --gamma 1", "grow_with_distance needs sigma2"),
        (
            "--objective cauchy --method sgd(batch=grow_with_distance(sigma2=0)) --gamma 1",
            "sigma2 must be finite and > 0",
        ),
        ("--objective cauchy --method sgd --gamma 1 --B -1", "BlumGladyshev: B must be finite and ≥ 0; got B=-1.0."),
        ("--objective cauchy --method sgd --gamma 1 --G inf", "BlumGladyshev: G must be finite"),
        ("--objective cauchy --method sgd --gamma 1 --steps -1", "steps must be a whole number"),
        ("--objective cauchy --method sgd --gamma 1 --seeds 0", "seeds must be a whole number"),
        ("--objective cauchy --method sgd --gamma 1 --dim 0", "dim must be a whole number"),
        ("--objective cauchy --method sgd --gamma 1 --start inf", "start must be a vector of finite numbers"),
        ("--objective cauchy --method sgd --gamma one", "'--gamma'"),
        (
            "--objective cauchy --method sgd --gamma 1 --save nowhere/x.parquet",
            "must be a file in a folder that exists",
        ),
        ("--method sgd --gamma 1", "--objective"),
        ("--objective cauchy --method sgd --gamma 1 --speed 3", "--speed"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(
    gladstorm: Said, arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = gladstorm("simulate", "--save", "runs.parquet", *arguments.split())
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_ctrl_c_saves_and_shows_what_had_finished(
    gladstorm: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks = iter([False, False, False, True])  # at the start, before a method, at its only step, before the second

    def check() -> None:
        if next(looks, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(interrupts, "check", check)
    saved = tmp_path / "runs.parquet"
    command = (
        "simulate --objective power:3 --start 1 --method sgd --method nsgdm --gamma 0.1 --eta 0.1 "
        "--steps 5 --seeds 2 --save"
    ).split()
    code, out, err = gladstorm(*command, str(saved))
    assert code == 130
    assert "1 configurations had finished and are shown; all 1 that had begun are in" in err
    assert "sgd" in out
    assert Record.load(saved).labels == ("sgd",)
    saved.unlink()
    looks = iter([False, True])
    code, out, _ = gladstorm(*command, str(saved))
    assert (code, out) == (130, "")
    assert not saved.exists()


def test_help_has_examples_and_unexpected_errors_are_not_hidden(
    gladstorm: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("simulate", "suite", "worst"):
        code, out, _ = gladstorm(command, "--help")
        assert code == 0
        assert re.search(rf"Examples?: gladstorm {command}", out)
    assert "[default: 10]" in " ".join(gladstorm("simulate", "--help")[1].split())  # seeds

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(simulate, "sweep", broken)
    monkeypatch.setattr(sys, "argv", ["gladstorm", *"simulate --objective power:3 --method sgd --gamma 1".split()])
    with pytest.raises(RuntimeError, match="a defect"):
        cli.main()
