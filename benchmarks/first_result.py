"""How long a new user waits for the first result: README's `gladstorm simulate` beside a first sum in JAX."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Row, as_installed, seconds

README = Path(__file__).parent.parent / "README.md"
FIRST_SUM = "import jax; jax.numpy.add(1, 2)"
ROUNDS = 3


def command() -> list[str]:
    """README's first `gladstorm simulate`, as its reader would copy it."""
    line = next(
        line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("gladstorm simulate")
    )
    return [sys.executable, "-m", *shlex.split(line)]


def rows() -> list[Row]:
    """Cold: an empty cache. Warm: the second time, with what the first one left there."""
    cold, warm, imported = [], [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**as_installed(), "XDG_CACHE_HOME": folder}
            run = partial(subprocess.run, check=True, capture_output=True, cwd=folder, env=environment)
            imported.append(seconds(partial(run, [sys.executable, "-c", FIRST_SUM])))
            cold.append(seconds(partial(run, command())))
            warm.append(seconds(partial(run, command())))
    return [row("cold", cold, imported, 3), row("warm", warm, imported, 1.5)]


def row(name: str, took: list[float], imported: list[float], goal: float) -> Row:
    ratio = float(np.median(np.array(took) / imported))
    figure = f"{ratio:.1f} × ({np.median(took):.1f} s)"
    return Row(f"README's simulate, {name}, vs a first sum in JAX", figure, f"≤ {goal:g} ×", ratio <= goal)
