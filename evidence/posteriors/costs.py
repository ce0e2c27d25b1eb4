"""Costs: a step beside numpyro's SVI, in seconds; NUTS, in gradients; minibatches and a tuned Adam."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.flatten_util import ravel_pytree
from numpyro.distributions import Bernoulli, HalfNormal, Normal, Poisson
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import initialize_model

import gladstorm.numpyro
from evidence.posteriors.families import FIRST_SCALE, antithetic, elbos
from evidence.posteriors.problems import made
from evidence.posteriors.rivals import GRID, GROUPS, TUNING_SEEDS
from gladstorm.core.statistics import finite_list
from gladstorm.variational import MeanField
from gladstorm.variational.gaussians import Diagonal, MeanFieldUpdate
from gladstorm.variational.programs import Traced, advance

TIMED_STEPS, REPEATS = 2000, 15
WARM_UP, DRAWS = 300, 300  # of NUTS
BATCH = 100
JUDGED_BY = 200


def timed(name: str, database: Path | None, seed: int) -> dict[str, float]:
    """Seconds a step of one start, by the clock and of CPU: our main stage, and SVI with Adam; medians in turn."""
    with jax.enable_x64(True):
        problem = made(name, database)
        svi = SVI(problem.model, AutoNormal(problem.model), numpyro.optim.Adam(0.01), Trace_ELBO())
        density = Traced(lambda z, _: problem.logdensity(z), np.zeros(problem.dim), np.zeros(2, np.uint32))
        update, key = MeanFieldUpdate(), jax.random.key(seed)
        begin = update.begin(Diagonal(jnp.asarray(problem.starts([seed])[0]), jnp.full(problem.dim, FIRST_SCALE)), key)
        state = jax.tree.map(lambda leaf: np.asarray(leaf)[None], begin)
        theirs = svi.init(key, problem.data)
        numbers = jnp.arange(TIMED_STEPS)

        def ours(state: Any) -> Any:
            block = np.asarray(jax.random.key_data(key)), 0, TIMED_STEPS, TIMED_STEPS
            return advance(density, update, 1, state, None, *block)

        programs: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "ours": (ours, state),
            "SVI": (jax.jit(lambda s: jax.lax.scan(lambda s, _: svi.update(s, problem.data), s, numbers)), theirs),
        }
        clocks = {"": time.perf_counter, " CPU": time.process_time}  # the second also tells something on a busy machine
        seconds: dict[str, list[float]] = {which + kind: [] for kind in clocks for which in programs}
        for _ in range(REPEATS + 1):
            for which, (program, state) in programs.items():
                since = {kind: clock() for kind, clock in clocks.items()}
                jax.block_until_ready(program(state))
                for kind, clock in clocks.items():
                    seconds[which + kind].append((clock() - since[kind]) / TIMED_STEPS)
    return {which: float(np.median(each[1:])) for which, each in seconds.items()}


def nuts(name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """The gradients that one chain of NUTS takes, warm-up included, and the errors of its draws."""
    with jax.enable_x64(True):
        problem = made(name, database)
        chain = MCMC(NUTS(problem.model), num_warmup=WARM_UP, num_samples=DRAWS, progress_bar=False)
        chain.warmup(jax.random.key(seed), problem.data, extra_fields=("num_steps",), collect_warmup=True)
        warm = int(chain.get_extra_fields()["num_steps"].sum())
        chain.run(jax.random.key(seed + 1), problem.data, extra_fields=("num_steps",))
        draws = {site: np.asarray(value) for site, value in chain.get_samples().items()}
        return {
            "gradients": warm + int(chain.get_extra_fields()["num_steps"].sum()),
            "errors": problem.errors(draws),
        }


def clicks(data: Any, batch: int | None = BATCH) -> None:
    """A logistic regression."""
    w = numpyro.sample("w", Normal(0, 1).expand([data["x"].shape[1]]).to_event(1))
    with numpyro.plate("rows", len(data["y"]), subsample_size=batch) as rows:
        numpyro.sample("y", Bernoulli(logits=data["x"][rows] @ w), obs=data["y"][rows])


def shops(data: Any, batch: int | None = BATCH) -> None:
    """Counts in fifty shops, their levels drawn from one law."""
    level, spread = numpyro.sample("level", Normal(0, 5)), numpyro.sample("spread", HalfNormal(1))
    effect = numpyro.sample("effect", Normal(0, 1).expand([50]).to_event(1))
    with numpyro.plate("rows", len(data["y"]), subsample_size=batch) as rows:
        rate = jnp.exp(level + spread * effect[data["shop"][rows]] + 0.1 * data["x"][rows])
        numpyro.sample("y", Poisson(rate), obs=data["y"][rows])


def _clicks() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(50_000), rng.normal(size=(50_000, 9)) * np.geomspace(0.3, 3, 9)])
    return {"x": x, "y": rng.binomial(1, 1 / (1 + np.exp(-x @ rng.normal(size=10) / 2))).astype(float)}


def _shops() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    shop, x = rng.integers(0, 50, 20_000), rng.normal(size=20_000)
    rate = np.exp(1 + 0.5 * rng.normal(size=50)[shop] + 0.1 * x)
    return {"shop": shop, "x": x, "y": rng.poisson(rate).astype(float)}


LARGE = {"logistic regression, 50,000 rows": (clicks, _clicks), "Poisson hierarchy, 20,000 rows": (shops, _shops)}


def minibatches(name: str, steps: int, seed: int) -> dict[str, list[float | None]]:
    """ELBOs on all of the data: ours by the public `fit`, and every setting of the tuned Adam, a row each."""
    model, make = LARGE[name]
    with jax.enable_x64(True):
        data = {key: jnp.asarray(value) for key, value in make().items()}
        whole = initialize_model(jax.random.key(0), model, model_args=(data, None))
        flat, unravel = ravel_pytree(whole.param_info.z)
        dim = flat.size

        def density(z: Any) -> Any:
            return -whole.potential_fn(unravel(z))

        def judged(mean: Any, scale: Any) -> list[float | None]:
            draws = antithetic(dim, JUDGED_BY, 0)
            return finite_list(np.asarray(elbos(density, jnp.asarray(mean), jnp.asarray(scale), draws)))

        seeds = [seed + j for j in range(TUNING_SEEDS)]
        fits = [
            gladstorm.numpyro.fit(model, data, steps=steps, seed=each, guide=MeanField(), starts=1, progress=False)
            for each in seeds
        ]
        ours = judged(np.stack([fit.location for fit in fits]), np.stack([np.diagonal(fit.scale_tril) for fit in fits]))
        guide = AutoNormal(model)
        SVI(model, guide, numpyro.optim.SGD(0.0), Trace_ELBO()).init(jax.random.key(0), data)  # it sets itself up

        def train(setting: Any, each: Any) -> tuple[Any, Any]:
            svi = SVI(model, guide, GROUPS["Adam"].make((*setting, 0.0), steps), Trace_ELBO())
            at, key = jax.random.split(jax.random.fold_in(jax.random.key(2), each))
            begun = unravel(jax.random.uniform(at, (dim,), minval=-2.0, maxval=2.0))
            state = svi.init(key, data, init_params={f"{site}_auto_loc": value for site, value in begun.items()})
            end, _ = jax.lax.scan(lambda state, _: (svi.update(state, data)[0], None), state, length=steps)
            params = svi.get_params(end)
            split = [
                {site.removesuffix(f"_auto_{kind}"): value for site, value in params.items() if site.endswith(kind)}
                for kind in ("loc", "scale")
            ]
            return ravel_pytree(split[0])[0], ravel_pytree(split[1])[0]

        rows = jax.jit(jax.vmap(jax.vmap(train, (None, 0)), (0, None)))(jnp.array(GRID), jnp.array(seeds))
        adams = {str(GRID[j]): judged(rows[0][j], rows[1][j]) for j in range(len(GRID))}
    return {"ours": ours} | adams
