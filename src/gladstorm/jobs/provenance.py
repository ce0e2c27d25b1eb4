"""What a result depends on besides its inputs: the versions, and the source of this package."""

from __future__ import annotations

import ast
import hashlib
import platform
from functools import cache
from pathlib import Path

import jax
import numpy as np

import gladstorm

# The folders of this package, in the order data goes through them. A room imports from those before it only: the test
# of layers, the picture in CONTRIBUTING.md and the hashes below are made from this list.
ROOMS = {
    "core": "what everything stands on: parts, rules, constants, statistics, references",
    "jobs": "how long work is done: files, store, tasks, progress, provenance",
    "problems": "objectives (value, gradient, start, constants) and oracles (stochastic gradients); one file each",
    "theory": "the theorems: plain Python, no JAX; one family per file",
    "plotting": "colours, lines and figures; nothing above it draws",
    "methods": "estimators, steps, batches, averages, schedules; named compositions; methods by theorem and as text",
    "simulation": "one run, the compiled program, how runs lie on devices, run and sweep, the record",
    "diagnosis": "from probes of a loss to estimates, verdicts and advice: NumPy and theory only, no JAX",
    "torch": "the methods as PyTorch optimizers: torch and theory only, no JAX",
    "optax": "the methods as Optax transformations",
    "integrations": "the methods inside Lightning, the Hugging Face Trainer and numpyro",
    "comparison": "methods at equal cost: budgets, tuning, scores, intervals",
    "suite": "common methods on twelve problems: run, tables, figures",
    "worst": "the worst problem that a theorem covers: search, audit, figures",
    "cli": "the command line: thin, one file per family of commands",
}
_DIGITS = 16


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    return {
        "gladstorm": gladstorm.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@cache
def code_version(room: str) -> str:
    """A hash of what the source of a room and of all rooms before it says, comments and layout aside.

    Results of other code are not these results; what stands after a room cannot change what is computed in it.
    """
    return digest(
        b"".join(f"{name}{ast.dump(ast.parse(text.decode()))}".encode() for name, text in _sources(room).items())
    )


@cache
def source_digest(room: str) -> str:
    """A hash of every byte of the same source: taken in a hundredth of the time, for what may be made again."""
    return digest(b"".join(name.encode() + text for name, text in _sources(room).items()))


def _sources(room: str) -> dict[str, bytes]:
    root = Path(gladstorm.__file__).parent
    rooms = list(ROOMS)[: list(ROOMS).index(room) + 1]
    files = [path for each in rooms for path in (sorted((root / each).rglob("*.py")) or [root / f"{each}.py"])]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def digest(data: bytes) -> str:
    """The first digits of the SHA-256 of some bytes: enough to tell files apart."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
