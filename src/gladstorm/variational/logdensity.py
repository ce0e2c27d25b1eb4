"""Fit any log density that JAX can differentiate."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.core.rules import COUNT
from gladstorm.jobs.progress import quietly
from gladstorm.methods.steps import per_coordinate
from gladstorm.variational.families import Family, FullRank, LowRank, MeanField, largest_family
from gladstorm.variational.fit import Fit, compiled_sampler
from gladstorm.variational.gaussians import Diagonal
from gladstorm.variational.judgement import judge, wider
from gladstorm.variational.psis import khat
from gladstorm.variational.run import Outcome, optimize
from gladstorm.variational.stages import LogDensity, LogWeight, Stage

STARTS = 4
FIRST_SCALE = 0.1  # of q, as numpyro has it
RADIUS = 2.0  # first locations are uniform in ± this, as Stan and numpyro have it
TRIES = 100  # first locations that are tried for a finite gradient
DRAWS = 16  # times 64, behind the ELBO and k-hat


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
        family: `MeanField()`, `FullRank()` or `LowRank(rank)`. By default full rank where the run has steps enough for
            d(d + 3)/2 numbers, and low rank elsewhere; both begin with a mean field.
        starts: How many runs to make at once. The best by ELBO is kept; starts that disagree are a warning.
        start: Where the means begin: a vector for all starts, or one for each. By default uniform in ± 2.
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
    if transform is not None and names is not None:
        raise ValueError(f"{owner}: names must be left out where transform is given; got both.")
    if names is not None and len(names) != d:
        raise ValueError(f"{owner}: names must be one for each of the {d} coordinates; got {len(names)}.")
    if names is not None:
        labels = tuple(names)
        transform = lambda z: dict(zip(labels, z, strict=True))  # noqa: E731
    run = Run(owner, steps, seed, starts, store, progress)
    return fit_gaussian(run, lambda z, _key: logp(z), d, family, start, transform or (lambda z: {"z": z}))


@dataclass(frozen=True)
class Run:
    """How long and from how many starts a fit is run, and where its blocks are kept; what breaks a rule is refused."""

    owner: str
    steps: int
    seed: int
    starts: int
    store: str | os.PathLike[str] | None
    progress: bool

    def __post_init__(self) -> None:
        for name in ("steps", "starts"):
            COUNT.whole(self.owner, name, getattr(self, name))

    def optimize(self, stages: Sequence[Stage], begin: Any, label: str) -> Outcome:
        """What the stages find."""
        with nullcontext() if self.progress else quietly():
            return optimize(stages, begin, self.seed, self.store, label)

    @property
    def config(self) -> dict[str, Any]:
        """What was asked for, as JSON-ready data."""
        return {"steps": self.steps, "seed": self.seed, "starts": self.starts}


def fit_gaussian(
    run: Run,
    log_density: LogDensity,
    dim: int,
    family: Family | None,
    start: Any,
    transform: Callable[[Array], dict[str, Array]],
    subsampled: bool = False,
) -> Fit:
    """Fit a Gaussian to a log density that may take a key, for a subsample of the data."""
    if family is not None and not isinstance(family, MeanField | FullRank | LowRank):
        raise TypeError(f"{run.owner}: family must be MeanField(), FullRank(), LowRank(rank) or None; got {family!r}.")
    chosen = largest_family(dim, run.steps) if family is None else family
    begin = _first(run, log_density, dim, start)
    least_z = per_coordinate.SUBSAMPLED if subsampled else 0.0
    stages = [replace(stage, least_z=least_z) for stage in chosen.stages(log_density, dim, run.steps)]
    outcome = run.optimize(stages, begin, str(chosen))
    best = jax.tree.map(lambda leaf: leaf[outcome.best], outcome.found)
    parameters = {"loc": np.asarray(best.loc), "scale_tril": np.asarray(best.scale_tril())}

    def draw(key: Array) -> dict[str, Array]:
        return transform(best.place(best.noise(key)))

    config = run.config | {"dim": dim, "family": str(chosen)}
    densities = jax.jit(jax.vmap(lambda z: log_density(z, jax.random.key(0))))
    gain = 0.0 if subsampled else gain_by_widening(outcome, outcome.best, densities)
    return conclude(str(chosen), outcome, parameters, draw, config, subsampled, gain)


def gain_by_widening(outcome: Outcome, start: int, log_densities: Callable[[Any], Array]) -> float:
    """What the ELBO of a start that found a Gaussian gains if that is made wider: much, where p has no integral."""
    q = jax.tree.map(lambda leaf: leaf[start], outcome.found)
    draws = outcome.measure(cast(LogWeight, outcome.score).draw, DRAWS)[start]
    with np.errstate(all="ignore"):  # a density without an integral may be fitted by one that is not finite
        return wider(outcome.weights(DRAWS)[start], draws, q, log_densities)


def conclude(
    name: str,
    outcome: Outcome,
    parameters: dict[str, Any],
    draw: Any,
    config: dict[str, Any],
    noisy: bool,
    by_widening: float = 0.0,
) -> Fit:
    """Measure what was found, and judge it."""
    weights = outcome.weights(DRAWS)[outcome.best]
    finite = np.isfinite(weights)
    return Fit(
        family=name,
        parameters=parameters,
        elbo=float(weights.mean()),
        elbo_error=float(weights.std(ddof=1) / np.sqrt(len(weights))),
        khat=None if noisy else khat(weights) if finite.all() else float("inf"),
        warnings=judge(outcome, weights, float(np.finfo(jnp.result_type(float)).eps), by_widening),
        gradients=int(outcome.steps[-1]) * len(outcome.elbos),
        elbos=outcome.elbos[:, -1],
        curve=outcome.curve,
        noise=outcome.noise,
        steps=outcome.steps,
        skipped=outcome.skipped,
        config=config,
        sampler=compiled_sampler(draw),
    )


def _first(run: Run, log_density: LogDensity, dim: int, start: Any) -> Diagonal:
    """Where the starts begin: the first of some random points at which the gradient is finite."""
    owner, starts, dtype = run.owner, run.starts, jnp.result_type(float)
    key = jax.random.fold_in(jax.random.key(run.seed), 2**31 - 1)
    if start is None:
        points = jax.random.uniform(key, (starts, TRIES, dim), dtype, -RADIUS, RADIUS)
    else:
        given = jnp.asarray(start, dtype)
        if given.shape not in ((dim,), (starts, dim)):
            raise ValueError(f"{owner}: start must have shape ({dim},) or ({starts}, {dim}); got {given.shape}.")
        points = jnp.broadcast_to(given, (starts, dim))[:, None]

    @jax.jit
    def finite(z: Array) -> Array:
        value, gradient = jax.value_and_grad(log_density)(z, key)
        return jnp.isfinite(value) & jnp.isfinite(gradient).all()

    chosen = []
    for tried in points:
        good = next((z for z in tried if finite(z)), None)
        if good is None:
            where = f"uniform in ± {RADIUS:g}" if start is None else "that was given"
            raise ValueError(
                f"{owner}: the log density and its gradient must be finite where the run begins; got none at "
                f"{len(tried)} points {where}. Give start=, a point where they are."
            )
        chosen.append(good)
    return Diagonal(jnp.stack(chosen), jnp.full((starts, dim), FIRST_SCALE, dtype))
