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
from gladstorm.variational.check import check
from gladstorm.variational.driver import DRAWS, FIRST_SCALE, Starts, gaussian_target, optimize
from gladstorm.variational.families import Diagonal, Family, Flow, FullRank, LowRank, largest_family
from gladstorm.variational.fit import WEIGHED, WEIGHED_SEED, Fit
from gladstorm.variational.flow import FlowUpdate
from gladstorm.variational.judgement import judge
from gladstorm.variational.modes import Group, groups, in_words
from gladstorm.variational.programs import Sampler, Traced
from gladstorm.variational.updates import FullRankUpdate, LowRankUpdate, MeanFieldUpdate, NewtonUpdate, Update

FIRST = 0.3  # the share of the steps that a mean field gets, where another update follows it
ROUNDS, MOST = 3, 1 / 15  # of Newton steps, and the share of the gradients that one may have
DRAWS_PER_COORDINATE, FEWEST = 8, 3  # of a Newton step; with fewer for each coordinate, curvature is not known


def fit_gaussian(
    density: Traced,
    family: Family | None,
    points: Any,
    transform: Callable[[Any], dict[str, Any]],
    *,
    steps: int,
    seed: int,
    store: str | os.PathLike[str] | None,
    progress: bool,
    sites: list[list[Any]],
    on_all_data: Traced | None = None,
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
        on_all_data: The log density of z on all data, where that of the key is on a subsample.
    """
    subsampled = on_all_data is not None
    if subsampled and isinstance(family, Flow):
        raise ValueError(
            "fit: guide must be a Gaussian family for subsampled data; got Flow(), which needs all of them."
        )
    dim, dtype = points.shape[1], jnp.result_type(float)
    chosen = largest_family(dim, steps) if family is None else family
    begin = Diagonal(np.asarray(points, dtype), np.full(points.shape, FIRST_SCALE, dtype))
    list_of_updates = updates(chosen, dim, steps, per_coordinate.SUBSAMPLED if subsampled else 0.0)
    starts = optimize(gaussian_target(density, on_all_data), list_of_updates, begin, seed, store, str(chosen), progress)
    best, about = starts.member(starts.best), {"steps": steps, "seed": seed, "starts": len(points), "dim": dim}
    about |= {"family": str(chosen), "sites": sites}

    def concluded(name: str, q: Any, **more: Any) -> Fit:
        parameters = {"loc": q.loc, "scale_tril": q.scale_tril()}
        example = np.zeros(q.noise_size, dtype), np.zeros(2, np.uint32)
        sites_of = Traced(lambda noise, _key: transform(q.place(noise)), *example)
        sampler = Sampler(sites_of, q.noise_size, dtype == np.float64)
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
    sampler: Sampler,
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


def updates(family: Family, dim: int, steps: int, least_z: float = 0.0) -> list[tuple[Update, int]]:
    """List the updates that lead to the best member of a family, each with its number of steps.

    A mean field comes first. Newton steps are taken where the run has draws enough for the curvature in all directions.
    """
    if isinstance(family, Flow):
        half = max(1, steps // 2)
        flow = FlowUpdate(least_z, family.layers, family.hidden)
        return [*updates(largest_family(dim, half), dim, half, least_z), (flow, max(1, steps - half))]
    first = MeanFieldUpdate(least_z)
    draws = min(int(MOST * steps), DRAWS_PER_COORDINATE * (dim + 4))
    rounds = ROUNDS if draws >= FEWEST * (dim + 1) else 0
    newton: list[tuple[Update, int]] = [(NewtonUpdate(least_z, full=isinstance(family, FullRank)), draws)] * rounds
    if not isinstance(family, FullRank | LowRank):
        return [(first, max(1, steps - rounds * draws)), *newton]
    second = FullRankUpdate(least_z) if isinstance(family, FullRank) else LowRankUpdate(least_z, family.rank)
    early = max(1, round(FIRST * steps))
    return [(first, early), *newton[:1], (second, max(1, steps - early - rounds * draws)), *newton[1:]]
