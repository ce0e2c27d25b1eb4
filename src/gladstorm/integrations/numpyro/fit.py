"""`fit`: variational inference for a numpyro model without a learning rate."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from gladstorm.core.extras import needing_extras
from gladstorm.core.parts import Array
from gladstorm.integrations.numpyro.guide import GuideStage, subsampled_plates
from gladstorm.variational.families import Family, FullRank, LowRank, MeanField
from gladstorm.variational.fit import Fit
from gladstorm.variational.logdensity import STARTS, Run, conclude, fit_gaussian

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
    run = Run("fit", steps, seed, starts, store, progress)
    args, kwargs = jax.tree.map(_on_device, (args, kwargs))
    if guide is not None and not isinstance(guide, MeanField | FullRank | LowRank):
        if not callable(guide):
            raise TypeError(f"fit: guide must be a family such as MeanField(), a guide or None; got {guide!r}.")
        return _fit_guide(run, model, guide, args, kwargs)
    return _fit_family(run, model, guide, args, kwargs, init)


def _on_device(value: Any) -> Any:
    """An array of NumPy as one of JAX: a subsample of it may be taken inside a compiled program."""
    return jnp.asarray(value) if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else value


def _fit_family(run: Run, model: Model, family: Family | None, args: Any, kwargs: Any, init: Any) -> Fit:
    initialize = partial(
        initialize_model,
        model=model,
        init_strategy=init_to_uniform if init is None else init,
        model_args=args,
        model_kwargs=kwargs,
    )
    key = jax.random.key(run.seed)
    info = initialize(key)
    subsampled = _subsampled(info.model_trace)
    _, unravel = ravel_pytree(info.param_info.z)
    points = [ravel_pytree(initialize(each).param_info.z)[0] for each in jax.random.split(key, run.starts)]

    def log_density(z: Array, data_key: Array) -> Array:
        if not subsampled:
            return jnp.negative(info.potential_fn(unravel(z)))
        return jnp.negative(potential_energy(handlers.seed(model, data_key), args, kwargs, unravel(z)))

    def transform(z: Array) -> dict[str, Array]:
        if not subsampled:
            return dict(info.postprocess_fn(unravel(z)))
        return dict(constrain_fn(handlers.seed(model, key), args, kwargs, unravel(z)))

    return fit_gaussian(run, log_density, points[0].size, family, jnp.stack(points), transform, subsampled)


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


def _fit_guide(run: Run, model: Model, guide: Any, args: Any, kwargs: Any) -> Fit:
    stage = GuideStage.prepared(run.steps, model, guide, args, kwargs, run.seed)
    begin = stage.first(jax.random.split(jax.random.key(run.seed), run.starts))
    name = type(guide).__name__ if not hasattr(guide, "__name__") else guide.__name__
    outcome = run.optimize([stage], begin, name)
    best = jax.tree.map(lambda leaf: leaf[outcome.best], outcome.found)
    parameters = {site: np.asarray(value) for site, value in stage.constrained(best).items()}
    config = run.config | {"guide": name}
    return conclude(name, outcome, parameters, lambda key: stage.sites(best, key), config, stage.subsampled)
