"""What other machines would see: fewer vector instructions, one core, other numbers of JAX devices."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILES = ("torch/test_torch_sizes", "torch/test_torch_equations")
LAWS = "(part_in_a_million and not 10000000) or length_lr_whatever or memory_format"

# What this machine's libraries are told not to use, and how many cores and devices there are. The libraries obey only
# in a process of their own. MKL, which computes torch's dot products, does not listen to ATen's variable.
MACHINES: dict[str, tuple[int, int, str, str]] = {  # cores, devices, and instructions for ATen, and for MKL and XLA
    "one core without AVX": (1, 1, "default", "SSE4_2"),
    "four devices with AVX2": (2, 4, "avx2", "AVX2"),
}
SWEEP = """
import jax
from gladstorm import BlumGladyshev, nstorm, objectives, sweep
oracle = BlumGladyshev(objectives.PhaseRetrieval.from_seed(0, dim=5), 0.5, 1.0)
record = sweep(oracle, [nstorm([1e-2, 2e-2, 3e-2], 0.1)], steps=40, seeds=3, records=4, progress=False)
curves = {name: getattr(record, name).tolist() for name in ("grad_norm", "drift2", "mean_error", "sfo", "last")}
found = {"devices": jax.device_count(), **curves}
"""
THERE = """
import json, sys
import pytest
assert pytest.main(["-n0", *sys.argv[1:]]) == 0
exec(sys.stdin.read())
print("\\n" + json.dumps(found))
"""


@contextmanager
def only(cores: int) -> Iterator[None]:
    """Leave this thread, and the processes it starts, so many cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_cores)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_laws_hold_and_a_sweep_has_the_same_numbers_on(machine: str) -> None:
    here: dict[str, Any] = {}
    exec(SWEEP, here)
    expected = here["found"]
    cores, devices, aten, others = MACHINES[machine]
    told = {"ATEN_CPU_CAPABILITY": aten, "MKL_ENABLE_INSTRUCTIONS": others, "JAX_NUM_CPU_DEVICES": str(devices)}
    told["XLA_FLAGS"] = f"--xla_cpu_max_isa={others}"
    files = [str(ROOT / "tests" / f"{name}.py") for name in FILES]
    command = [sys.executable, "-c", THERE, "-k", LAWS, *files]
    with only(cores):
        ended = subprocess.run(command, input=SWEEP, cwd=ROOT, env=os.environ | told, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " passed" in ended.stdout
    assert "skipped" not in ended.stdout
    other = json.loads(ended.stdout.splitlines()[-1])
    assert (other.pop("devices"), other["sfo"]) == (devices, expected["sfo"])
    for name, curve in other.items():  # how sums are ordered, and so rounded, is up to each program
        np.testing.assert_allclose(curve, expected[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("pins", sorted(ROOT.glob("requirements*.txt")), ids=lambda path: path.name)
def test_every_pin_but_pytorch_s_is_locked_with_hashes_and_no_address(pins: Path) -> None:
    pinned = runpy.run_path(str(ROOT / ".ci" / "dependencies.py"))["pinned"](pins.name)
    blocks = re.split(r"\n(?=\w)", (ROOT / "locks" / pins.name).read_text().strip())
    locked = [Requirement(block.partition(" \\\n")[0]) for block in blocks]
    assert {canonicalize_name(each.name): each.specifier for each in locked} == {
        name: each.specifier for name, each in pinned.items() if name != "torch"
    }, "run make lock"
    assert all(re.fullmatch(r"\S+( ; [^\n\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+", block) for block in blocks)


def test_the_pinned_versions_are_among_those_declared_and_the_lower_bounds_go_together() -> None:
    dependencies = runpy.run_path(str(ROOT / ".ci" / "dependencies.py"))
    declared, pinned = dependencies["declared"](), dependencies["pinned"]()
    oldest = {}
    for wanted in declared:
        if wanted.name == "pymc":  # no environment here has it: its tests run where it is installed
            continue
        (pin,) = pinned[wanted.name].specifier
        assert pin.version in wanted.specifier, wanted
        oldest[wanted.name] = dependencies["at_lower_bound"](wanted).partition("==")[2]
    for line in requires("jax") or []:  # what a dependency asks of another is no less than what is declared here
        asked = Requirement(line)
        if asked.marker is None and asked.name in oldest:
            assert oldest[asked.name] in asked.specifier, line
