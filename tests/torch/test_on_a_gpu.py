"""The script that readers run on their GPU: on a CPU it checks what a CPU can, and a check that fails is seen."""

import pytest
import torch

from examples import on_a_gpu


def test_it_prints_a_row_for_each_check_of_each_optimizer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_a_gpu, "STEPS", 2)
    assert on_a_gpu.main(["--quick", "--device", "cpu"]) == 0
    first, _, header, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("gladstorm ")
    assert header.startswith("| check | optimizer | holds |")
    checks, names = len(on_a_gpu.CHECKS), len(on_a_gpu.OPTIMIZERS)
    assert len(rows) == checks * names + names + 1  # times: AdamW, Muon, and all but NSTORM
    holds = [row.split(" | ")[2].strip() for row in rows[: checks * names]]
    assert (holds.count("yes"), holds.count("")) == (checks * names // 2, checks * names // 2)  # the rest needs CUDA
    assert sum("| not run |" in row for row in rows) == checks * names // 2


def test_a_check_that_fails_is_in_the_table_and_in_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(name: str, device: torch.device) -> str:
        return on_a_gpu.at_most(float("nan") if name == "Untuned" else 1e-3, 1e-2)

    monkeypatch.setattr(on_a_gpu, "CHECKS", {"wrong": wrong})
    monkeypatch.setattr(on_a_gpu, "speeds", lambda *_: [])
    assert on_a_gpu.main(["--device", "cpu"]) == 1
    out, err = capsys.readouterr()
    assert out.count("**no**") == 1
    assert "| wrong | Untuned | **no** | AssertionError: nan, more than 1e-02 |" in out
    assert "Traceback" in err
