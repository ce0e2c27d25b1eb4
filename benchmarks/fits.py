"""Seconds of a fit of eight schools: cold, again with other data, in a new process, beside numpyro's SVI and NUTS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.measuring import Row, as_installed

ROUNDS = 3
STEPS = 10_000
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def rows() -> list[Row]:
    """CPU seconds without imports: they hardly depend on what else the machine does."""
    cold, again, warm, svi, nuts = [], [], [], [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as cache:
            first, second = _process("fit", cache)
            cold.append(first)
            again.append(second)
            warm.append(_process("fit", cache)[0])
            svi.append(_process("svi", cache)[0])
            nuts.append(_process("nuts", cache)[0])
    theirs = f"SVI with {STEPS:,} Adam steps ({np.median(svi):.1f} s; NUTS {np.median(nuts):.1f} s)"
    return [
        _row(f"fit of eight schools, cold, vs {theirs}", cold, svi, 1.5),
        _row("the same, other data in the same process", again, svi, 0.1),
        _row("the same, in a new process", warm, svi, 0.5),
    ]


def _row(what: str, took: list[float], theirs: list[float], goal: float) -> Row:
    ratio = float(np.median(np.array(took) / theirs))
    return Row(what, f"{ratio:.2f} × ({np.median(took):.1f} s of CPU)", f"≤ {goal:g} ×", ratio <= goal)


def _process(what: str, cache: str) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.fits", what]
    done = subprocess.run(command, check=True, capture_output=True, env=as_installed() | {"XDG_CACHE_HOME": cache})
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def _measure(what: str) -> list[float]:
    """CPU seconds of two fits, the second of other data."""
    import jax
    import numpyro
    from numpyro.distributions import HalfCauchy, Normal
    from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    from gladstorm.numpyro import fit

    def schools(errors: Any, effects: Any) -> None:
        mu = numpyro.sample("mu", Normal(0.0, 5.0))
        tau = numpyro.sample("tau", HalfCauchy(5.0))
        with numpyro.plate("school", 8):
            shift = numpyro.sample("shift", Normal(0.0, 1.0))
            numpyro.sample("effect", Normal(mu + tau * shift, errors), obs=effects)

    def run(number: int) -> None:
        data = ERRORS + number, EFFECTS
        key = jax.random.key(number)
        if what == "fit":
            fit(schools, *data, steps=STEPS, seed=number, progress=False).summary()
        elif what == "svi":
            svi = SVI(schools, AutoNormal(schools), numpyro.optim.Adam(0.01), Trace_ELBO())
            params = svi.run(key, STEPS, *data, progress_bar=False).params
            jax.block_until_ready(svi.guide.sample_posterior(key, params, sample_shape=(4000,)))
        else:
            chain = MCMC(NUTS(schools), num_warmup=1000, num_samples=1000, progress_bar=False)
            chain.run(key, *data)
            jax.block_until_ready(chain.get_samples())

    taken = []
    for number in range(2):
        begun = time.process_time()
        run(number)
        taken.append(time.process_time() - begun)
    return taken


if __name__ == "__main__":
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    print(json.dumps(_measure(sys.argv[1])))
