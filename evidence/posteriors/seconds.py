"""Seconds of a fit, of SVI and of NUTS, each in a process of its own, as a user has them: `python -m` this module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

OUTCOMES = (
    "y",
    "switched",
    "days",
    "right",
)  # their names in the data; shuffled, they are other data of the same shape
STEPS = 10_000
WARM_UP, SAMPLES = 1000, 1000
FEW = 200  # steps of warm-up where only a step size is to be found
FIT, SVI, CHAIN, DENSE, FROM_FIT, FULL, FLOW = "fit", "SVI", "NUTS", "NUTS, dense", "NUTS from the fit", "full", "flow"


def costs(name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """A fit cold, again with other data, and in a new process; SVI and NUTS, cold."""
    with tempfile.TemporaryDirectory() as cache:
        cold, new = (_process(FIT, name, database, seed, cache) for _ in range(2))
        others = {what: _process(what, name, database, seed, cache) for what in (SVI, CHAIN)}
    return {FIT: cold, "fit, new process": new, **others}


def leapfrogs(name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """NUTS as it is, with a dense mass matrix of its own, and with that of a fit, whose seconds count."""
    with tempfile.TemporaryDirectory() as cache:
        return {what: _process(what, name, database, seed, cache) for what in (CHAIN, DENSE, FROM_FIT)}


def flow(name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """Full rank and a flow, both cold."""
    measured = {}
    for what in (FULL, FLOW):
        with tempfile.TemporaryDirectory() as cache:
            measured[what] = _process(what, name, database, seed, cache)
    return measured


def _process(what: str, name: str, database: Path | None, seed: int, cache: str) -> dict[str, Any]:
    ours = {key: value for key, value in os.environ.items() if key not in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")}
    command = [sys.executable, "-m", "evidence.posteriors.seconds", what, name, str(database or ""), str(seed)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=ours | {"XDG_CACHE_HOME": cache})
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def _measure(what: str, name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """CPU and wall-clock seconds of one way to a posterior, without imports, and what it found."""
    import jax
    import numpy as np

    from evidence.posteriors.confessed import moments
    from evidence.posteriors.problems import source_of

    jax.config.update("jax_enable_x64", True)
    model, data, _ = source_of(name, database)
    runs = [(data, seed)]
    if what == FIT:
        outcome = next(key for key in OUTCOMES if key in data)
        runs.append((data | {outcome: np.random.default_rng(seed).permutation(data[outcome])}, seed + 1))
    seconds, first = [], {}
    for number, each in enumerate(runs):
        begun = time.process_time(), time.perf_counter()
        draws, about = _way(what, model, *each)
        seconds.append([time.process_time() - begun[0], time.perf_counter() - begun[1]])
        if number == 0:
            first = about | {"moments": moments(draws)}
    return first | {"CPU": [each[0] for each in seconds], "wall": [each[1] for each in seconds]}


def _way(what: str, model: Any, data: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro.infer import SVI as Inference
    from numpyro.infer import Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    from gladstorm.numpyro import fit
    from gladstorm.variational import Flow, FullRank

    key = jax.random.key(seed)
    if what == SVI:
        svi = Inference(model, AutoNormal(model), numpyro.optim.Adam(0.01), Trace_ELBO())
        params = svi.run(key, STEPS, data, progress_bar=False).params
        return jax.block_until_ready(svi.guide.sample_posterior(key, params, sample_shape=(10_000,))), {}
    if what in (FIT, FULL, FLOW):
        guide = {FIT: None, FULL: FullRank(), FLOW: Flow()}[what]
        done = fit(model, data, steps=STEPS, seed=seed, guide=guide, progress=False)
        numbers = {"elbo": done.elbo, "khat": done.khat, "efficiency": done.efficiency, "family": done.family}
        return done.sample(10_000), numbers
    if what != FROM_FIT:
        return _chain(model, data, key, None, WARM_UP, dense_mass=what == DENSE)
    done = fit(model, data, steps=STEPS, seed=seed, guide=FullRank(), progress=False)
    begin = {name: jnp.asarray(value) for name, value in done.unravel(done.location).items()}
    matrix = jnp.asarray(done.mass_matrix())
    return _chain(model, data, key, begin, FEW, dense_mass=True, inverse_mass_matrix=matrix, adapt_mass_matrix=False)


def _chain(model: Any, data: Any, key: Any, begin: Any, warm_up: int, **kernel: Any) -> tuple[Any, dict[str, Any]]:
    import numpy as np
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC, NUTS

    chain = MCMC(NUTS(model, **kernel), num_warmup=warm_up, num_samples=SAMPLES, progress_bar=False)
    chain.warmup(key, data, extra_fields=("num_steps",), collect_warmup=True, init_params=begin)
    steps = int(chain.get_extra_fields()["num_steps"].sum())
    chain.run(key, data, extra_fields=("num_steps",))
    draws = {site: np.asarray(each) for site, each in chain.get_samples().items()}
    least = min(float(np.min(effective_sample_size(each[None]))) for each in draws.values())
    return draws, {"leapfrogs": steps + int(chain.get_extra_fields()["num_steps"].sum()), "ess": least}


if __name__ == "__main__":
    what, name, database, seed = sys.argv[1:]
    sys.stdout.write(json.dumps(_measure(what, name, Path(database) if database else None, int(seed))))
