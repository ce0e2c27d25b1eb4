"""What a result depends on besides its inputs: the versions, and the layers of this package's source (`sources`)."""

from __future__ import annotations

import hashlib
import platform

import gladstorm

# The packages of gladstorm, in the order data goes through them. A package imports from those before it only: the test
# of layers, the table in CONTRIBUTING.md and the hash of a job's source use this list.
LAYERS = {
    "core": "what everything stands on: parts, rules, constants, statistics, references",
    "jobs": "how long work is done: files, store, tasks, progress, provenance",
    "problems": "objectives, oracles (their stochastic gradients), problems with noise of their own, hard instances",
    "theory": "the theorems: plain Python, no JAX; one family per file",
    "methods": "estimators, steps, batches, averages, schedules; named compositions; methods by theorem and as text",
    "simulation": "one run, the compiled program, how runs lie on devices, run and sweep, the record",
    "plotting": "colours, lines and figures; nothing above it draws",
    "diagnosis": "from probes of a loss to estimates, verdicts and advice: NumPy and theory only, no JAX",
    "torch": "the methods as PyTorch optimizers: torch and theory only, no JAX",
    "optax": "the methods as Optax transformations",
    "variational": "Gaussian approximations of a density: families, stages of a fit, the fit and its verdict",
    "integrations": "the methods inside Lightning, the Hugging Face Trainer and numpyro",
    "comparison": "methods at equal cost: budgets, tuning, scores, intervals",
    "suite": "common methods on common problems: run, tables, figures",
    "worst": "the worst problem that a theorem covers: search, audit, figures",
    "cli": "the command line: thin, one file per family of commands",
}
_DIGITS = 16


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    import jax  # not before: the layers and the source of a job are known without it
    import numpy as np

    return {
        "gladstorm": gladstorm.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def digest(data: bytes) -> str:
    """The first digits of the SHA-256 of some bytes: enough to tell files apart."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
