"""What the environment asks of JAX stays, and is added to before JAX computes anything."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from gladstorm import devices

TUNED = """
import os
from gladstorm import devices
devices.tune(3)
import jax
print(len(jax.devices()), os.environ["XLA_FLAGS"])
"""


@pytest.mark.parametrize(
    "flags", ["", "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=true", "flags.txt"]
)
def test_flags_of_the_user_stay_and_each_is_given_once(flags: str) -> None:
    Path("flags.txt").write_text("--xla_backend_optimization_level=0")
    own = {name: value for name, value in os.environ.items() if name not in ("HOME", "XLA_FLAGS")}
    done = subprocess.run([sys.executable, "-c", TUNED], env=own | {"XLA_FLAGS": flags}, capture_output=True, text=True)
    count, *told = done.stdout.split()
    assert (done.returncode, count) == (0, "3"), done.stderr
    assert told[: len(flags.split())] == flags.split()
    names = [flag.partition("=")[0] for flag in told]
    assert sorted(set(names)) == sorted(names)
    assert ("--xla_backend_extra_options" in names) == (flags != "flags.txt")


def test_tuning_too_late_says_so() -> None:
    with pytest.raises(RuntimeError, match="devices: tune must be called before JAX computes anything"):
        devices.tune(jax.device_count() + 1)
