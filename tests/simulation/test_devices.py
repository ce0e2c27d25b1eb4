"""What the environment asks of JAX: done, or refused in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from gladstorm import devices

SIMULATE = "simulate --objective cauchy --dim 2 --method sgd --gamma 0.1 --steps 5 --seeds 1 --json".split()


def simulated(**environment: str) -> "subprocess.CompletedProcess[str]":
    own = {name: value for name, value in os.environ.items() if name not in ("HOME", "XLA_FLAGS")}
    command = [sys.executable, "-m", "gladstorm", *SIMULATE]
    return subprocess.run(command, env=own | environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("XLA_FLAGS", "nowhere.txt", "XLA_FLAGS must be flags or a readable file of them; got 'nowhere.txt'."),
        ("JAX_PLATFORMS", "abacus,cpu", "JAX_PLATFORMS must name a platform JAX finds on this machine, such as cpu"),
    ],
)
def test_what_cannot_work_here_is_one_sentence_and_exit_code_2(name: str, value: str, sentence: str) -> None:
    done = simulated(**{name: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Error: devices: {sentence}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_of_flags_is_read_and_no_home_is_needed() -> None:
    Path("flags.txt").write_text("--xla_backend_optimization_level=0\n--xla_cpu_use_fusion_emitters=false\n")
    done = simulated(XLA_FLAGS="flags.txt")
    assert (done.returncode, done.stderr) == (0, "")
    Path("flags.txt").write_text("--xla_no_such_flag=1")  # seen to be read: XLA knows it not, and says so in a line
    done = simulated(XLA_FLAGS="flags.txt")
    assert done.returncode != 0
    assert "Unknown flag in XLA_FLAGS: --xla_no_such_flag=1" in done.stderr
    assert "Traceback" not in done.stderr


def test_tuning_too_late_says_so() -> None:
    with pytest.raises(RuntimeError, match="devices: tune must be called before JAX computes anything"):
        devices.tune(jax.device_count() + 1)
