"""`gladstorm simulate`: the closed form of the cubic, methods with numbers of their own, and what Ctrl-C leaves."""

import json
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


def test_unexpected_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(simulate, "sweep", broken)
    monkeypatch.setattr(sys, "argv", ["gladstorm", *"simulate --objective power:3 --method sgd --gamma 1".split()])
    with pytest.raises(RuntimeError, match="a defect"):
        cli.main()
