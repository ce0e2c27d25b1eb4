"""From starts to a fit: the best of them is measured and judged, and so is a mixture where they ended apart."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from gladstorm.methods.steps import per_coordinate
from gladstorm.simulation.devices import programs_on_disk
from gladstorm.variational.check import check
from gladstorm.variational.driver import DRAWS, FIRST_SCALE, Starts, gaussian_target, optimize
from gladstorm.variational.families import Diagonal, Family, largest_family
from gladstorm.variational.fit import WEIGHED, WEIGHED_SEED, Fit
from gladstorm.variational.judgement import judge
from gladstorm.variational.modes import Group, groups, in_words
from gladstorm.variational.programs import Traced, sample_noise
from gladstorm.variational.updates import updates


def fit_gaussian(
    density: Traced,
    family: Family | None,
    points: Any,
    transform: Traced,
    *,
    steps: int,
    seed: int,
    store: str | os.PathLike[str] | None,
    progress: bool,
    sites: list[list[Any]],
    subsampled: bool = False,
) -> Fit:
    """Fit a Gaussian to a log density that may take a key, for a subsample of the data.

    Args:
        density: The log density of z and a key.
        family: Where to search; by default the largest one that the steps allow.
        points: Where the means begin, a row for each start.
        transform: From z to a dictionary of what it means.
        steps: The number of steps of every start.
        seed: Decides every draw.
        store: The folder where finished blocks are kept.
        progress: Whether to show progress on standard error.
        sites: What the coordinates are: names and shapes, in order.
        subsampled: Whether the density depends on the key.
    """
    dim, dtype = points.shape[1], jnp.result_type(float)
    chosen = largest_family(dim, steps) if family is None else family
    begin = Diagonal(np.asarray(points, dtype), np.full(points.shape, FIRST_SCALE, dtype))
    list_of_updates = updates(chosen, dim, steps, per_coordinate.SUBSAMPLED if subsampled else 0.0)
    starts = optimize(gaussian_target(density), list_of_updates, begin, seed, store, str(chosen), progress)
    best, about = starts.member(starts.best), {"steps": steps, "seed": seed, "starts": len(points), "dim": dim}
    about |= {"family": str(chosen), "sites": sites}

    def concluded(name: str, q: Any, **more: Any) -> Fit:
        parameters = {"loc": q.loc, "scale_tril": q.scale_tril()}
        sampler = partial(_sample_gaussian, q, transform)
        return conclude(name, starts, q, parameters, sampler, about, has_weights=not subsampled, **more)

    if subsampled:
        return concluded(str(chosen), best)
    some, mixture = groups(starts, density)
    widened = starts.gain_by_widening(starts.best, density)
    fit = concluded(str(chosen), best, by_widening=widened, some=some, density=density)
    if len(some) <= 1:
        return fit
    mixed = concluded(f"mixture of {len(some)} {chosen}", mixture, by_widening=widened, some=some[:1], density=density)
    return replace(fit, mixed=replace(mixed, starts=some))


def conclude(
    name: str,
    starts: Starts,
    q: Any,
    parameters: dict[str, Any],
    sampler: Callable[[int, int], dict[str, np.ndarray]],
    config: dict[str, Any],
    *,
    has_weights: bool,
    by_widening: float = 0.0,
    some: tuple[Group, ...] = (),
    density: Traced | None = None,
) -> Fit:
    """Measure the best start, or a mixture of them, and judge it."""
    weights = starts.compare(q, DRAWS)
    with np.errstate(invalid="ignore"):  # −∞ − (−∞)
        error = float(weights.std(ddof=1) / np.sqrt(len(weights)))
    return Fit(
        family=name,
        parameters=parameters,
        elbo=float(weights.mean()),
        elbo_error=error,
        log_weights=starts.weights(q, WEIGHED, WEIGHED_SEED) if has_weights else None,
        warnings=(*judge(starts, weights, float(np.finfo(jnp.result_type(float)).eps), by_widening), *in_words(some)),
        gradients=int(starts.steps[-1]) * len(starts.elbos),
        elbos=starts.elbos[:, -1],
        curve=starts.curve,
        noise=starts.noise,
        steps=starts.steps,
        skipped=starts.skipped,
        config=config,
        sampler=sampler,
        starts=some,
        walk=None if density is None else partial(check, q, density),
    )


@programs_on_disk()
def _sample_gaussian(q: Any, transform: Traced, n: int, seed: int) -> dict[str, np.ndarray]:
    """Draw n times from q, and transform the draws."""
    draws: dict[str, np.ndarray] = transform.over(q.place(sample_noise(n, seed, q.noise_size)[0]))
    return draws
