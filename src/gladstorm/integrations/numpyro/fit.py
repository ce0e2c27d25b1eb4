"""`fit`: variational inference for a numpyro model without a learning rate."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from gladstorm.core.extras import needing_extras
from gladstorm.core.parts import Array
from gladstorm.integrations.numpyro.guide import GuideStage, subsampled_plates
from gladstorm.jobs.progress import quietly
from gladstorm.variational.families import Family, FullRank, LowRank, MeanField
from gladstorm.variational.fit import Fit
from gladstorm.variational.logdensity import STARTS, check_settings, conclude, fit_gaussian
from gladstorm.variational.run import optimize

with needing_extras("gladstorm.numpyro"):
    from numpyro import handlers
    from numpyro.infer import init_to_uniform
    from numpyro.infer.util import constrain_fn, initialize_model, potential_energy

Model = Callable[..., Any]


def fit(
    model: Model,
    *args: Any,
    steps: int = 10_000,
    seed: int = 0,
    guide: Any = None,
    starts: int = STARTS,
    init: Any = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Fit:
    """Fit a guide to the posterior of a numpyro model, with nothing to tune.

    Args:
        model: The model.
        args: What it is called with.
        steps: The number of steps of every start, each with one gradient.
        seed: The same seed gives the same bits.
        guide: `MeanField()`, `FullRank()`, `LowRank(rank)`, or a guide of your own: an autoguide or a function. By
            default full rank where the run has steps enough for its d(d + 3)/2 numbers, and low rank elsewhere; both
            begin with a mean field.
        starts: How many runs to make at once. The best by ELBO is kept; starts that disagree are a warning.
        init: numpyro's strategy for where the locations begin, such as `init_to_median`. By default `init_to_uniform`.
        store: A folder. A fit that was interrupted goes on from its last finished block of steps.
        progress: Whether to show progress on standard error.
        kwargs: What the model is called with.

    Returns:
        The fit, with its ELBO, its warnings and its draws.

    >>> import numpyro
    >>> from numpyro.distributions import Normal
    >>> def model(data):
    ...     z = numpyro.sample("z", Normal(0.0, 10.0))
    ...     numpyro.sample("data", Normal(z, 1.0), obs=data)
    >>> found = fit(model, jnp.full(100, 3.0), steps=500, starts=2)
    >>> bool(abs(found.summary()["z"]["mean"] - 3.0) < 0.02), found.converged
    (True, True)
    """
    check_settings("fit", steps, starts)
    args, kwargs = jax.tree.map(_on_device, (args, kwargs))
    if guide is not None and not isinstance(guide, MeanField | FullRank | LowRank):
        if not callable(guide):
            raise TypeError(f"fit: guide must be a family such as MeanField(), a guide or None; got {guide!r}.")
        return _fit_guide(model, guide, args, kwargs, steps, seed, starts, store, progress)
    return _fit_family(model, guide, args, kwargs, steps, seed, starts, init, store, progress)


def _on_device(value: Any) -> Any:
    """An array of NumPy as one of JAX: a subsample of it may be taken inside a compiled program."""
    return jnp.asarray(value) if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else value


def _fit_family(
    model: Model,
    family: Family | None,
    args: Any,
    kwargs: Any,
    steps: int,
    seed: int,
    starts: int,
    init: Any,
    store: Any,
    progress: bool,
) -> Fit:
    strategy = init_to_uniform if init is None else init
    key = jax.random.key(seed)
    keys = jax.random.split(key, starts)
    info = initialize_model(key, model, init_strategy=strategy, model_args=args, model_kwargs=kwargs)
    subsampled = _subsampled(info.model_trace)
    _, unravel = ravel_pytree(info.param_info.z)
    points = [
        ravel_pytree(initialize_model(k, model, init_strategy=strategy, model_args=args, model_kwargs=kwargs)[0].z)[0]
        for k in keys
    ]

    def log_density(z: Array, data_key: Array) -> Array:
        if not subsampled:
            return jnp.negative(info.potential_fn(unravel(z)))
        return jnp.negative(potential_energy(handlers.seed(model, data_key), args, kwargs, unravel(z)))

    def transform(z: Array) -> dict[str, Array]:
        if not subsampled:
            return dict(info.postprocess_fn(unravel(z)))
        return dict(constrain_fn(handlers.seed(model, key), args, kwargs, unravel(z)))

    return fit_gaussian(
        "fit",
        log_density,
        points[0].size,
        steps=steps,
        seed=seed,
        family=family,
        starts=starts,
        start=jnp.stack(points),
        transform=transform,
        store=store,
        progress=progress,
        subsampled=subsampled,
    )


def _subsampled(trace: Any) -> bool:
    """Whether a plate draws some of the data. A latent variable for every datum then needs a guide that says so."""
    plates = subsampled_plates(trace)
    for name, site in trace.items():
        latent = site["type"] == "sample" and not site["is_observed"]
        inside = {frame.name for frame in site.get("cond_indep_stack", ())} & plates
        if latent and inside:
            raise ValueError(
                f"fit: guide must be one of yours, such as AutoNormal(model), for a model with a latent variable in a "
                f"subsampled plate; got the variable {name!r} in {sorted(inside)[0]!r}."
            )
    return bool(plates)


def _fit_guide(
    model: Model,
    guide: Any,
    args: Any,
    kwargs: Any,
    steps: int,
    seed: int,
    starts: int,
    store: Any,
    progress: bool,
) -> Fit:
    stage = GuideStage.prepared(steps, model, guide, args, kwargs, seed)
    with warnings.catch_warnings():
        begin = stage.first(jax.random.split(jax.random.key(seed), starts))
    name = type(guide).__name__ if not hasattr(guide, "__name__") else guide.__name__
    with nullcontext() if progress else quietly():
        outcome = optimize([stage], begin, seed, store, name)
    best = jax.tree.map(lambda leaf: leaf[outcome.best], outcome.found)
    parameters = {site: np.asarray(value) for site, value in stage.constrained(best).items()}
    config = {"steps": steps, "seed": seed, "starts": starts, "guide": name}
    noisy = stage.subsampled
    return conclude(name, outcome, parameters, lambda key: stage.draw(best, key), config, noisy)
