"""Fit any log density that JAX can differentiate."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.core.rules import COUNT
from gladstorm.simulation.devices import programs_on_disk
from gladstorm.variational.conclusion import fit_gaussian
from gladstorm.variational.driver import CANDIDATES, STARTS
from gladstorm.variational.families import Family
from gladstorm.variational.fit import Fit
from gladstorm.variational.programs import Traced, program

RADIUS = 2.0  # first locations are uniform in ± this, as Stan and numpyro have it
TRIES = 100  # first locations that are tried for a finite gradient


@programs_on_disk()
def fit_logdensity(
    logp: Callable[[Array], Array],
    dim: int,
    *,
    steps: int = 10_000,
    seed: int = 0,
    family: Family | None = None,
    starts: int = STARTS,
    start: Any = None,
    transform: Callable[[Array], dict[str, Array]] | None = None,
    names: Sequence[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Fit:
    """Find the Gaussian of a family that is closest to a density, in KL(q‖p), with nothing to tune.

    Args:
        logp: The log density of a vector z, up to a constant, as a JAX function. Its domain is all of ℝ^d: constrained
            parameters are functions of z, and the log determinant of their derivative is in `logp`.
        dim: d.
        steps: The number of steps of every start, each with one gradient.
        seed: The same seed gives the same bits.
        family: `MeanField()`, `FullRank()`, `LowRank(rank)` or `Flow()`. By default full rank where the run has steps
            enough for d(d + 3)/2 numbers, and low rank elsewhere; both begin with a mean field.
        starts: How many runs to make at once. The best by ELBO is kept; starts that disagree are a warning. Four times
            as many begin, and the best after a tenth of the steps go on.
        start: Where the means begin: a vector for all starts, or one for each; all go on. By default uniform in ± 2.
        transform: From z to a dictionary of what it means, for `Fit.sample` and `Fit.summary`.
        names: The names of the coordinates, instead of `transform`.
        store: A folder. A fit that was interrupted goes on from its last finished block of steps.
        progress: Whether to show progress on standard error.

    Returns:
        The fit, with its ELBO, its warnings and its draws.

    >>> fit = fit_logdensity(lambda z: -0.5 * jnp.sum(z**2 / jnp.array([1.0, 1e4])), 2, steps=2000, starts=2)
    >>> np.round(np.diagonal(fit.scale_tril) / np.array([1.0, 100.0]), 1)
    array([1., 1.])
    """
    owner = "fit_logdensity"
    d = COUNT.whole(owner, "dim", dim)
    for name, value in (("steps", steps), ("starts", starts)):
        COUNT.whole(owner, name, value)
    if transform is not None and names is not None:
        raise ValueError(f"{owner}: names must be left out where transform is given; got both.")
    if names is not None and len(names) != d:
        raise ValueError(f"{owner}: names must be one for each of the {d} coordinates; got {len(names)}.")
    if family is not None and not isinstance(family, Family):
        raise TypeError(
            f"{owner}: family must be MeanField(), FullRank(), LowRank(rank), Flow() or None; got {family!r}."
        )
    z = jnp.zeros(d)
    density = Traced(lambda z, _key: logp(z), z, _key_of(0))
    points = _first_points(density, d, starts, seed, start)
    meaning = partial(_named, names) if names is not None else transform or (lambda z: {"z": z})
    sites = [["z", [d]]] if names is None else [[name, []] for name in names]
    settings = {"steps": steps, "seed": seed, "store": store, "progress": progress, "starts": starts}
    return fit_gaussian(density, family, points, meaning, **settings, sites=sites)


def _named(names: Sequence[str], z: Array) -> dict[str, Array]:
    return dict(zip(names, z, strict=True))


def _first_points(density: Traced, dim: int, starts: int, seed: int, start: Any) -> np.ndarray:
    """Choose where the starts begin: the first of some random points at which the gradient is finite."""
    owner, dtype = "fit_logdensity", jnp.result_type(float)
    if start is None:
        points = np.asarray(program(_random_points, CANDIDATES * starts, dim, quick=True)(_key_of(seed)))
    else:
        given = np.asarray(start, dtype)
        if given.shape not in ((dim,), (starts, dim)):
            raise ValueError(f"{owner}: start must have shape ({dim},) or ({starts}, {dim}); got {given.shape}.")
        points = np.broadcast_to(given, (starts, dim))[:, None]
    chosen = []
    for candidates in points:
        good = density.is_finite(candidates, np.tile(_key_of(seed), (len(candidates), 1)))
        if not good.any():
            where = f"uniform in ± {RADIUS:g}" if start is None else "that was given"
            raise ValueError(
                f"{owner}: the log density and its gradient must be finite where the run begins; got none at "
                f"{len(candidates)} points {where}. Give start=, a point where they are."
            )
        chosen.append(candidates[np.argmax(good)])
    return np.stack(chosen)


def _random_points(starts: int, dim: int, key_data: Array) -> Array:
    key = jax.random.fold_in(jax.random.wrap_key_data(key_data), 2**31 - 1)
    return jax.random.uniform(key, (starts, TRIES, dim), jnp.result_type(float), -RADIUS, RADIUS)


def _key_of(seed: int) -> np.ndarray:
    return np.array([0, seed % 2**32], np.uint32)
