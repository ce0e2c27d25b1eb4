"""Every optimizer at every learning rate, with equally many gradients: how far from the best its last ELBO is."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro import optim
from numpyro.infer import SVI, Trace_ELBO

from gladstorm.core.statistics import finite, significant
from gladstorm.numpyro import TwoPoint
from gladstorm.optax import nsgdm, nstorm

from .problem import GUIDES, best, elbo, model, patients

SCHEDULES = {"constant": 0.0, "linear decay to 0": 1.0}  # what part of the learning rate is gone at the end
RADIUS = 2.0  # the first means are uniform in ± this, as numpyro's init_to_uniform has it


@dataclass(frozen=True)
class Optimizer:
    """How to make it from a schedule, and what a step costs."""

    make: Callable[[Callable[[Any], Any]], Any]
    gradients: int = 1  # a step


OPTIMIZERS = {
    "NSGDM": Optimizer(nsgdm),
    "NSTORM": Optimizer(lambda rate: TwoPoint(nstorm(rate)), gradients=2),
    "SGD": Optimizer(optim.SGD),
    "Adam": Optimizer(optim.Adam),
    "ClippedAdam": Optimizer(optim.ClippedAdam),
}


@dataclass(frozen=True)
class Size:
    """How much is run."""

    gradients: int  # a run may compute, each of the whole data with one draw of w
    rates: tuple[float, ...]
    seeds: int


FULL = Size(gradients=4000, rates=tuple(float(f"{10 ** (-4 + i / 2):.3g}") for i in range(9)), seeds=4)
QUICK = Size(gradients=200, rates=(0.001, 0.01, 0.1), seeds=2)


def measure(size: Size) -> dict[str, Any]:
    """Run everything; a line for each optimizer on standard error. Gaps are null where they are not finite."""
    results: dict[str, Any] = {"settings": described(size), "best": {}, "start": {}, "gaps": {}}
    for guide in GUIDES:
        results["best"][guide] = best(guide)
        for name, optimizer in OPTIMIZERS.items():
            since = time.monotonic()
            first, last = gaps(guide, optimizer, size)
            results["start"][guide] = first.tolist()
            results["gaps"].setdefault(guide, {})[name] = {
                schedule: _json(gap) for schedule, gap in zip(SCHEDULES, last, strict=True)
            }
            sys.stderr.write(f"{guide}, {name}: {time.monotonic() - since:.0f} s\n")
    return results


def gaps(guide: str, optimizer: Optimizer, size: Size) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """best ELBO − ELBO: at the start by seed, and at the end by schedule, rate and seed."""
    family, steps = GUIDES[guide], size.gradients // optimizer.gradients
    x, benign = patients()
    data = jnp.asarray(x, jnp.float32), jnp.asarray(benign)
    automatic = family.make(model)
    SVI(model, automatic, optim.SGD(0.0), Trace_ELBO()).init(jax.random.key(0), *data)  # it sets itself up

    def train(decay: Any, rate: Any, seed: Any) -> tuple[Any, Any]:
        made = optimizer.make(lambda k: rate * (1 - decay * k / steps))
        svi = SVI(model, automatic, made, Trace_ELBO())
        at, key = jax.random.split(jax.random.key(seed))
        mean = jax.random.uniform(at, (x.shape[1],), minval=-RADIUS, maxval=RADIUS)
        state = svi.init(key, *data, init_params={family.loc: mean})
        end, _ = jax.lax.scan(lambda state, _: (svi.update(state, *data)[0], None), state, length=steps)
        return svi.get_params(state), svi.get_params(end)

    over_seeds = jax.vmap(train, (None, None, 0))
    everything = jax.jit(jax.vmap(jax.vmap(over_seeds, (None, 0, None)), (0, None, None)))
    ends = everything(jnp.array(list(SCHEDULES.values())), jnp.array(size.rates), jnp.arange(size.seeds))
    first, last = (best(guide) - elbos(guide, params) for params in ends)
    return first[0, 0], last


def elbos(guide: str, params: dict[str, Any]) -> NDArray[np.float64]:
    """In float64, of parameters stacked along three axes."""
    family = GUIDES[guide]
    score = lambda params: elbo(params[family.loc], family.cholesky(params))  # noqa: E731 - it is mapped three times
    with jax.enable_x64(True):
        wide = {name: np.asarray(value, np.float64) for name, value in params.items()}
        axis, *others = next(iter(wide.values())).shape[:3]
        flat = {name: value.reshape(axis * others[0] * others[1], *value.shape[3:]) for name, value in wide.items()}
        return np.asarray(jax.jit(lambda flat: jax.lax.map(score, flat))(flat)).reshape(axis, *others)


def described(size: Size) -> dict[str, Any]:
    """Everything the results depend on, as JSON has it."""
    packages = ("gladstorm", "numpyro", "jax", "optax", "numpy", "scipy", "scikit-learn")
    settings = {**asdict(size), "radius": RADIUS, "versions": {package: version(package) for package in packages}}
    return dict(json.loads(json.dumps(settings)))


def _json(gap: NDArray[np.float64]) -> list[list[float | None]]:
    return [[finite(significant(each, 6)) for each in row] for row in gap]
